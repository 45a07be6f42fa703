// Goal: policies of roles are told what the prompt's tokens are, however the request is read.
// Method: the made-up model spells JSON; a policy that keeps keys shows what it was told by what
//   stays in the cache.

#include <gtest/gtest.h>

#include <numeric>

#include "engine/fake_model.h"
#include "engine/generate.h"
#include "engine/prompt_roles.h"

namespace quire::engine {
namespace {

using Tokens = std::vector<model::Token>;

const std::vector<std::string> kWords = {"{",  "\"ke", "y\"", "\":", ":",   " 12",
                                         "34", ",",    "}",   "\n",  "Why?"};
enum Word : model::Token {
  kOpen,
  kKeyHead,
  kKeyTail,
  kMerged,
  kColon,
  kNumber,
  kMore,
  kComma,
  kShut,
  kLine,
  kWhy
};

// {"key": 1234,"key": 1234 ... }, a question.
Tokens document(std::uint32_t members) {
  Tokens tokens = {kWhy, kOpen};
  for (std::uint32_t i = 0; i < members; ++i) {
    if (i > 0) tokens.push_back(kComma);
    tokens.insert(tokens.end(), {kKeyHead, kKeyTail, kColon, kNumber, kMore});
  }
  tokens.insert(tokens.end(), {kShut, kLine, kWhy});
  return tokens;
}

GenerateOptions keeping_keys(std::uint32_t keep) {
  GenerateOptions options;
  options.max_tokens = 4;
  options.chunk = 128;
  options.policy = Policy{.name = "keys",
                          .needs = {.roles = true},
                          .protect = {.sinks = 0, .recent = 0},
                          .score = [](const EntryView& lane, std::span<float> score) {
                            for (std::uint32_t i = 0; i < lane.live; ++i) {
                              score[i] = lane.role[i] == Role::kKey ? 1 : 0;
                            }
                          }};
  options.keep = {Keep::Unit::kTokens, static_cast<double>(keep)};
  options.make_sampler =
      [](const model::Model&,
         const model::SamplerOptions&) -> Result<std::unique_ptr<model::Sampler>> {
    return std::unique_ptr<model::Sampler>(std::make_unique<test::GreedySampler>());
  };
  return options;
}

struct Bench {
  explicit Bench(std::size_t budget) {
    cache =
        *Cache::open({.layers = test::fake_attention(), .budget_bytes = budget, .max_rows = 128});
    fake.words = kWords;
    EXPECT_TRUE(fake.attach(*cache).ok());
  }
  test::FakeModel fake;
  std::unique_ptr<Cache> cache;
};

TEST(PromptRoles, TokensHaveTheHighestRoleOfWhatTheySpell) {
  Bench bench(1 << 20);
  const Tokens tokens = {kWhy, kOpen, kKeyHead, kKeyTail, kColon, kNumber, kMore, kShut, kLine};
  EXPECT_EQ(
      prompt_roles(bench.fake, tokens),
      (std::vector<Role>{Role::kProse, Role::kDelimiter, Role::kKey, Role::kKey, Role::kDelimiter,
                         Role::kValue, Role::kValue, Role::kDelimiter, Role::kBlank}));
  const Tokens merged = {kOpen, kKeyHead, kMerged};
  EXPECT_EQ(prompt_roles(bench.fake, merged)[2], Role::kKey);
  EXPECT_EQ(prompt_roles(bench.fake, merged, {.rule = {.delimiters_first = true}})[2],
            Role::kDelimiter);
  EXPECT_TRUE(prompt_roles(bench.fake, {}).empty());
}

// Takes the first half of a key for a key, and everything else for prose.
roles::Probe half_key_probe(const model::Model& model) {
  roles::Probe probe{.vocabulary = vocabulary_of(model), .model = "fake", .ids = {kKeyHead}};
  probe.states.resize(roles::kTextStates * kRoles);
  probe.windows.resize(std::size_t{roles::kProbeWindow} * probe.rows() * kRoles);
  const std::size_t row = std::size_t{roles::kProbeReach} * probe.rows() + probe.row_of(kKeyHead);
  probe.windows[row * kRoles + static_cast<std::size_t>(Role::kKey)] = 1;
  return probe;
}

TEST(PromptRoles, AProbeOrNobodyTellsThem) {
  Bench bench(1 << 20);
  const Tokens tokens = {kOpen, kKeyHead, kKeyTail, kKeyHead};
  EXPECT_EQ(prompt_roles(bench.fake, tokens, {.kind = RoleSource::Kind::kNone}),
            std::vector<Role>(4, Role::kProse));
  const roles::Probe probe = half_key_probe(bench.fake);
  const Result<RoleSource> source = probe_source(bench.fake, roles::write_probe(probe));
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ(prompt_roles(bench.fake, tokens, *source),
            (std::vector<Role>{Role::kProse, Role::kKey, Role::kProse, Role::kKey}));
}

TEST(PromptRoles, AProbeOfOtherTokensIsRefused) {
  Bench bench(1 << 20);
  roles::Probe probe = half_key_probe(bench.fake);
  ++probe.vocabulary.fingerprint;
  const Status status = probe_source(bench.fake, roles::write_probe(probe)).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("48 tokens of fake; fake has others"), std::string::npos)
      << status.message();
  EXPECT_EQ(probe_source(bench.fake, "quireprb").status().code(), Code::kCorrupt);
}

TEST(EngineRoles, AReviewKnowsWhatTheProbeSays) {
  Bench bench(4 << 20);
  GenerateOptions options = keeping_keys(100);
  options.roles = *probe_source(bench.fake, roles::write_probe(half_key_probe(bench.fake)));
  Result<std::unique_ptr<Session>> session =
      Session::open(bench.fake, *bench.cache, std::move(options));
  ASSERT_TRUE(session.ok()) << session.status().message();
  const Tokens prompt = document(100);
  ASSERT_TRUE((*session)->answer(prompt).ok());
  const std::vector<Position> live = *bench.cache->positions((*session)->sequence(), 1, 1);
  EXPECT_GE(live.size(), 100u);
  for (const Position p : live) {
    if (p < prompt.size()) {
      EXPECT_EQ(prompt[p], kKeyHead) << p;
    }
  }
}

TEST(EngineRoles, AReviewKnowsThePromptsTokens) {
  for (const std::size_t budget : {std::size_t{4} << 20, std::size_t{512} << 10}) {
    Bench bench(budget);
    const Tokens prompt = document(100);  // 604 tokens of 1 KiB, 200 of them keys
    Result<std::unique_ptr<Session>> session =
        Session::open(bench.fake, *bench.cache, keeping_keys(200));
    ASSERT_TRUE(session.ok()) << session.status().message();
    const Result<Answer> answer = (*session)->answer(prompt);
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    ASSERT_TRUE(answer->error.ok()) << answer->error.message();
    std::uint32_t keys = 0;
    const std::vector<Position> live = *bench.cache->positions((*session)->sequence(), 1, 1);
    for (const Position p : live) {
      if (p >= prompt.size()) continue;
      keys += prompt[p] == kKeyHead || prompt[p] == kKeyTail ? 1 : 0;
    }
    EXPECT_EQ(keys, 200u) << budget;
    EXPECT_EQ(answer->kv.prefill, budget > 1 << 20 ? Prefill::kWhole : Prefill::kStreamed);
    bench.cache->check_invariants();
  }
}

TEST(EngineRoles, ALaterPromptOfASessionHasItsOwn) {
  Bench bench(4 << 20);
  Result<std::unique_ptr<Session>> session =
      Session::open(bench.fake, *bench.cache, keeping_keys(40));
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE((*session)->answer(document(10)).ok());
  ASSERT_TRUE((*session)->answer(document(10)).ok());
  const std::vector<model::Token>& history = (*session)->history();
  const auto prompt = static_cast<Position>(document(10).size());
  const auto second = static_cast<Position>(history.size()) - prompt - 4;
  std::uint32_t first_keys = 0, second_keys = 0;
  const std::vector<Position> live = *bench.cache->positions((*session)->sequence(), 0, 0);
  for (const Position p : live) {
    const bool key = history[p] == kKeyHead || history[p] == kKeyTail;
    if (key && p < prompt) ++first_keys;
    if (key && p >= second && p < second + prompt) ++second_keys;
  }
  EXPECT_EQ(first_keys, 20u);
  EXPECT_EQ(second_keys, 20u);
}

}  // namespace
}  // namespace quire::engine
