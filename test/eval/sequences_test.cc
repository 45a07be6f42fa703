// Goal: policies of roles know the roles of what was read, with a question and without.
// Method: the made-up model spells JSON; a policy that keeps keys shows what it was told by what
//   stays.

#include "eval/sequences.h"

#include <gtest/gtest.h>

#include "engine/fake_model.h"

namespace quire::eval {
namespace {

using Tokens = std::vector<model::Token>;

// {"a": 1,"a": 1 ... }, of four tokens a member.
Tokens document(std::uint32_t members) {
  Tokens tokens = {0};
  for (std::uint32_t i = 0; i < members; ++i) {
    tokens.insert(tokens.end(), {1, 2, 3, static_cast<model::Token>(i + 1 < members ? 4 : 5)});
  }
  return tokens;
}

std::vector<Position> keys(const Tokens& tokens) {
  std::vector<Position> found;
  for (Position p = 0; p < tokens.size(); ++p) {
    if (tokens[p] == 1) found.push_back(p);
  }
  return found;
}

TEST(Prompts, TellTheRolesOfWhatWasRead) {
  test::FakeModel model;
  model.words = {"{", "\"a\"", ":", " 1", ",", "}"};
  auto cache = Cache::open({.layers = test::fake_attention(), .budget_bytes = 4 << 20});
  ASSERT_TRUE(cache.ok());
  ASSERT_TRUE(model.attach(**cache).ok());
  const Policy policy{.name = "keys",
                      .needs = {.tap = Tap::kLastRows, .window = 16, .roles = true},
                      .protect = {.sinks = 0, .recent = 0},
                      .score = [](const EntryView& lane, std::span<float> score) {
                        for (std::uint32_t i = 0; i < lane.live; ++i) {
                          score[i] = lane.role[i] == Role::kKey ? 1 : 0;
                        }
                      }};
  const Tokens read = document(20), question = document(5);
  Prompts prompts(model, **cache, read, 64);
  const Result<Held> blind = prompts.blind(policy.needs);
  ASSERT_TRUE(blind.ok()) << blind.status().message();
  ASSERT_TRUE((*cache)->shrink(blind->id(), policy, 20).ok());
  EXPECT_EQ(*(*cache)->positions(blind->id(), 1, 0), keys(read));

  const Result<Held> aware = prompts.aware(policy.needs, question);
  ASSERT_TRUE(aware.ok()) << aware.status().message();
  ASSERT_TRUE((*cache)->shrink(aware->id(), policy, 25).ok());
  Tokens all = read;
  all.insert(all.end(), question.begin(), question.end());
  EXPECT_EQ(*(*cache)->positions(aware->id(), 0, 1), keys(all));
}

}  // namespace
}  // namespace quire::eval
