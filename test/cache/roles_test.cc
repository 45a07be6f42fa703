// Goal: a sequence's roles are kept for its policies: by position, through evictions and forks,
//   within the budget.
// Method: a policy that scores what it is shown; every live position against what was said.
#include "cache/rig.h"

namespace quire {
namespace {

constexpr std::uint32_t kTokens = 300;

Role role_at(Position position) {
  return static_cast<Role>(position % 6);
}

std::vector<Role> some_roles(std::uint32_t tokens) {
  std::vector<Role> roles;
  for (Position p = 0; p < tokens; ++p) roles.push_back(role_at(p));
  return roles;
}

// Keeps the entries of the highest roles, and notes what it was shown.
Policy by_role(std::vector<float>& structured) {
  return {.name = "by-role",
          .needs = {.roles = true},
          .protect = {.sinks = 0, .recent = 0},
          .score = [&structured](const EntryView& lane, std::span<float> score) {
            structured.push_back(lane.structured);
            for (std::uint32_t i = 0; i < lane.live; ++i) {
              score[i] = static_cast<float>(lane.role[i]);
            }
          }};
}

struct Bench {
  std::unique_ptr<Cache> cache = test::open_cache(
      {.layers = test::mixed_layers(), .budget_bytes = 4 << 20, .isa = Isa::kScalar});
  std::vector<float> structured;
  Policy policy = by_role(structured);

  SequenceId read(const Needs& needs, std::uint32_t tokens) {
    const SequenceId id = test::start(*cache, needs);
    more(id, tokens);
    return id;
  }
  void more(SequenceId id, std::uint32_t tokens) {
    const Segment segment{.sequence = id, .rows = tokens};
    ASSERT_TRUE(cache->begin({&segment, 1}).ok());
    cache->commit();
  }
  std::uint32_t kept_of(SequenceId id, Role role) const {
    std::uint32_t count = 0;
    const std::vector<Position> live = *cache->positions(id, 0, 1);
    for (const Position p : live) count += role_at(p) == role ? 1 : 0;
    return count;
  }
};

TEST(CacheRoles, APolicyIsShownTheRoleOfEveryEntry) {
  Bench bench;
  const SequenceId id = bench.read(bench.policy.needs, kTokens);
  ASSERT_TRUE(bench.cache->set_roles(id, 0, some_roles(kTokens)).ok());
  ASSERT_TRUE(bench.cache->shrink(id, bench.policy, 120).ok());
  EXPECT_EQ(bench.kept_of(id, Role::kKey), 50u);
  EXPECT_EQ(bench.kept_of(id, Role::kHeader), 50u);
  EXPECT_EQ(bench.kept_of(id, Role::kValue), 20u);
  EXPECT_FLOAT_EQ(bench.structured.front(), 250.0f / 300);
  bench.cache->check_invariants();
  // Rows that nobody named are prose, and what was dropped still counts as structure.
  bench.more(id, 40);
  ASSERT_TRUE(bench.cache->shrink(id, bench.policy, 80).ok());
  EXPECT_EQ(bench.kept_of(id, Role::kKey), 50u);
  EXPECT_EQ(bench.cache->positions(id, 0, 1)->back() < kTokens, true);
  EXPECT_FLOAT_EQ(bench.structured.back(), 250.0f / 300);
}

TEST(CacheRoles, MayBeToldBeforeTheRowsInPartsAndAgain) {
  Bench bench;
  const SequenceId id = test::start(*bench.cache, bench.policy.needs);
  const std::vector<Role> roles = some_roles(kTokens);
  ASSERT_TRUE(bench.cache->set_roles(id, 100, std::span(roles).subspan(100)).ok());
  ASSERT_TRUE(bench.cache->set_roles(id, 0, std::vector<Role>(150, Role::kKey)).ok());
  ASSERT_TRUE(bench.cache->set_roles(id, 0, std::span(roles).first(150)).ok());
  bench.cache->check_invariants();
  bench.more(id, kTokens);
  ASSERT_TRUE(bench.cache->shrink(id, bench.policy, 50).ok());
  EXPECT_EQ(bench.kept_of(id, Role::kKey), 50u);
  EXPECT_FLOAT_EQ(bench.structured.front(), 250.0f / 300);
}

TEST(CacheRoles, AForkHasItsOwn) {
  Bench bench;
  const SequenceId parent = bench.read(bench.policy.needs, kTokens);
  ASSERT_TRUE(bench.cache->set_roles(parent, 0, some_roles(kTokens)).ok());
  const SequenceId child = *bench.cache->fork(parent);
  ASSERT_TRUE(bench.cache->set_roles(child, 0, std::vector<Role>(60, Role::kKey)).ok());
  bench.cache->check_invariants();
  ASSERT_TRUE(bench.cache->shrink(child, bench.policy, 60).ok());
  EXPECT_LT(bench.cache->positions(child, 0, 0)->front(), 60u);
  ASSERT_TRUE(bench.cache->shrink(parent, bench.policy, 50).ok());
  EXPECT_EQ(bench.kept_of(parent, Role::kKey), 50u);
  ASSERT_TRUE(bench.cache->drop(parent).ok());
  ASSERT_TRUE(bench.cache->drop(child).ok());
  bench.cache->check_invariants();
  EXPECT_EQ(bench.cache->stats().used_bytes, 0u);
}

TEST(CacheRoles, AByteATokenCountsAgainstTheBudget) {
  Bench bench;
  const SequenceId id = bench.read(bench.policy.needs, kTokens);
  const std::size_t before = bench.cache->stats(id)->bytes;
  ASSERT_TRUE(bench.cache->set_roles(id, 0, some_roles(kTokens)).ok());
  const std::size_t bytes = bench.cache->stats(id)->bytes - before;
  EXPECT_GE(bytes, kTokens);
  EXPECT_LE(bytes, 4 * 256u);
  const Needs none{}, roles{.roles = true};
  EXPECT_LE(bench.cache->tokens_that_fit(roles), bench.cache->tokens_that_fit(none));
  EXPECT_GT(bench.cache->tokens_that_fit(roles), bench.cache->tokens_that_fit(none) * 98 / 100);
}

// What tokens_that_fit() promises can be labelled and read.
TEST(CacheRoles, TheWholeBudgetHoldsWhatItSays) {
  for (const std::size_t budget : {std::size_t{600} << 10, std::size_t{1} << 20}) {
    Bench bench;
    bench.cache = test::open_cache(
        {.layers = test::mixed_layers(), .budget_bytes = budget, .isa = Isa::kScalar});
    const std::uint32_t tokens = bench.cache->tokens_that_fit({.roles = true});
    ASSERT_GT(tokens, 100u);
    const SequenceId id = test::start(*bench.cache, {.roles = true});
    ASSERT_TRUE(bench.cache->set_roles(id, 0, some_roles(tokens)).ok());
    for (std::uint32_t read = 0; read < tokens;) {
      const std::uint32_t rows = std::min(512u, tokens - read);
      bench.more(id, rows);
      read += rows;
    }
    EXPECT_LE(bench.cache->stats().committed_bytes, budget);
  }
}

TEST(CacheRoles, WhatCannotBeIsRefusedAndChangesNothing) {
  Bench bench;
  const SequenceId plain = bench.read({}, 20), id = bench.read(bench.policy.needs, 20);
  const auto message = [&](SequenceId sequence, Position first, std::span<const Role> roles) {
    const Status status = bench.cache->set_roles(sequence, first, roles);
    return status.ok() ? "accepted" : status.message();
  };
  const std::vector<Role> roles = some_roles(20);
  EXPECT_EQ(message(plain, 0, roles), "roles: start() was not asked for them");
  EXPECT_EQ(message(id, 0, std::vector<Role>{Role::kKey, static_cast<Role>(6)}),
            "roles: 6 at 1 is none");
  EXPECT_NE(message(id, ~0u - 5, roles), "accepted");
  const std::size_t before = bench.cache->stats().used_bytes;
  EXPECT_EQ(bench.cache->set_roles(id, 0, std::vector<Role>(5 << 20)).code(), Code::kOutOfMemory);
  EXPECT_EQ(bench.cache->stats().used_bytes, before);
  EXPECT_EQ(bench.cache->set_roles(SequenceId{77}, 0, roles).code(), Code::kNotFound);
  EXPECT_EQ(bench.cache->shrink(plain, bench.policy, 5).status().message(),
            "policy by-role: needs roles, which start() did not ask for");
  const Segment segment{.sequence = id, .rows = 1};
  ASSERT_TRUE(bench.cache->begin({&segment, 1}).ok());
  EXPECT_FALSE(bench.cache->set_roles(id, 0, roles).ok()) << "between steps only";
  bench.cache->cancel();
  bench.cache->check_invariants();
}

}  // namespace
}  // namespace quire
