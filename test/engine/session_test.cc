// Goal: a session reads, reviews and decodes as engine/generate.h promises, within the budget.
// Method: a made-up model over a real cache (fake_model.h), so that what the engine asked for can
// be counted, and answers compared token for token.

#include <gtest/gtest.h>

#include <numeric>

#include "engine/fake_model.h"
#include "engine/generate.h"

namespace quire::engine {
namespace {

using test::FakeModel;
using Tokens = std::vector<model::Token>;

Tokens prompt_of(std::uint32_t length, std::uint32_t salt = 0) {
  Tokens tokens(length);
  for (std::uint32_t i = 0; i < length; ++i) {
    tokens[i] = static_cast<model::Token>((i * i + 7 * i + salt) % 37);
  }
  return tokens;
}

struct Bench {
  explicit Bench(std::size_t budget = std::size_t{1} << 20, std::uint32_t context = 100'000,
                 std::uint32_t max_rows = 512,
                 std::vector<LayerShape> layers = test::fake_attention())
      : fake(context) {
    Result<std::unique_ptr<Cache>> opened =
        Cache::open({.layers = std::move(layers), .budget_bytes = budget, .max_rows = max_rows});
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    cache = *std::move(opened);
    EXPECT_TRUE(fake.attach(*cache).ok());
  }

  Result<std::unique_ptr<Session>> open(GenerateOptions options = {}) {
    options.make_sampler =
        [](const model::Model&,
           const model::SamplerOptions&) -> Result<std::unique_ptr<model::Sampler>> {
      return std::unique_ptr<model::Sampler>(std::make_unique<test::GreedySampler>());
    };
    return Session::open(fake, *cache, std::move(options));
  }

  Answer ask(const Tokens& prompt, GenerateOptions options = {}) {
    Result<std::unique_ptr<Session>> session = open(std::move(options));
    EXPECT_TRUE(session.ok()) << session.status().message();
    Result<Answer> answer = (*session)->answer(prompt);
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    cache->check_invariants();
    return *std::move(answer);
  }

  FakeModel fake;
  std::unique_ptr<Cache> cache;
};

// All but `full`.
std::vector<PolicyInfo> cutting_policies() {
  std::vector<PolicyInfo> list = list_policies();
  std::erase_if(list, [](const PolicyInfo& policy) { return policy.keeps_all; });
  return list;
}

GenerateOptions with_policy(const std::string& spec, Keep keep = {}) {
  GenerateOptions options;
  options.max_tokens = 40;
  options.policy = *make_policy(spec);
  options.keep = keep;
  return options;
}

std::string refusal(const Result<std::unique_ptr<Session>>& session) {
  return session.ok() ? "accepted" : session.status().message();
}

// The budget that a refusal says would do.
std::size_t advised_budget(const std::string& message) {
  const std::size_t begin = message.find("a budget of ") + 12;
  const Result<std::size_t> bytes =
      parse_bytes(message.substr(begin, message.find(' ', begin) - begin));
  EXPECT_TRUE(bytes.ok()) << message;
  return bytes.ok() ? *bytes : 0;
}

TEST(Session, ChunkSizeDoesNotChangeTheAnswer) {
  GenerateOptions options;
  options.max_tokens = 20;
  Bench whole;
  const Answer expected = whole.ask(prompt_of(300), options);
  EXPECT_EQ(expected.tokens.size(), 20u);
  EXPECT_EQ(expected.finish, Finish::kLength);
  for (std::uint32_t chunk : {1u, 7u, 16u, 100u, 299u}) {
    Bench bench;
    options.chunk = chunk;
    EXPECT_EQ(bench.ask(prompt_of(300), options).tokens, expected.tokens) << chunk;
    EXPECT_EQ(bench.fake.steps[0].rows, chunk);
    EXPECT_EQ(bench.fake.steps[0].logit_rows, 0u);
    EXPECT_FALSE(bench.fake.steps[0].answer);
    EXPECT_TRUE(bench.fake.steps.back().answer);
  }
}

TEST(Session, TheLastRowsOfThePromptAreMarkedOverChunkBorders) {
  Bench bench;
  GenerateOptions options = with_policy("snapkv:window=64");
  options.chunk = 30;
  options.max_tokens = 1;
  bench.ask(prompt_of(100), options);
  std::vector<std::uint32_t> window_rows;
  for (const FakeModel::Step& step : bench.fake.steps) window_rows.push_back(step.window_rows);
  EXPECT_EQ(window_rows, (std::vector<std::uint32_t>{0, 24, 30, 10}));
}

TEST(Session, TheFirstTokenComesFromTheFullCacheUnderEveryPolicy) {
  Bench exact;
  GenerateOptions plain;
  plain.max_tokens = 1;
  const Answer expected = exact.ask(prompt_of(400), plain);
  for (const PolicyInfo& policy : cutting_policies()) {
    Bench bench;
    const Answer answer =
        bench.ask(prompt_of(400), with_policy(policy.name, {Keep::Unit::kPercent, 25}));
    EXPECT_EQ(answer.kv.prefill, Prefill::kWhole);
    EXPECT_EQ(answer.tokens.at(0), expected.tokens.at(0)) << policy.name;
    EXPECT_TRUE(answer.kv.lossy) << policy.name;
    EXPECT_GT(answer.kv.entries_dropped, 0u) << policy.name;
  }
}

TEST(Session, FullIsAsNoPolicyWhateverIsToBeKept) {
  Bench exact, bench;
  GenerateOptions plain;
  plain.max_tokens = 40;
  const Tokens expected = exact.ask(prompt_of(200), plain).tokens;
  const Answer answer = bench.ask(prompt_of(200), with_policy("full", {Keep::Unit::kPercent, 25}));
  EXPECT_EQ(answer.tokens, expected);
  EXPECT_FALSE(answer.kv.lossy);
  EXPECT_EQ(answer.kv.tokens_kept_min, 239u);
}

// What the rows before a review say is asked of the model before each review and nowhere else.
TEST(Session, RowsBeforeReviewsOfTheAnswerAreWatchedWhereThePolicyLooksAtThem) {
  struct Case {
    const char* spec;
    std::uint32_t window;
  };
  for (const Case& c : {Case{"tova", 1}, Case{"r-kv", 8}, Case{"snapkv", 0}, Case{"h2o", 0}}) {
    Bench bench;
    GenerateOptions options = with_policy(c.spec, {Keep::Unit::kTokens, 100});
    options.max_tokens = 50;
    bench.ask(prompt_of(120), options);
    for (std::uint32_t i = 0; i + 1 < options.max_tokens; ++i) {
      const std::uint32_t left = 16 - (120 + i) % 16;  // rows to the review, this one included
      EXPECT_EQ(bench.fake.steps.at(1 + i).window_rows, left <= c.window ? 1u : 0u)
          << c.spec << " row " << i;
    }
  }
}

TEST(Session, KeepingMoreThanThereIsChangesNothing) {
  Bench exact;
  GenerateOptions plain;
  plain.max_tokens = 40;
  const Tokens expected = exact.ask(prompt_of(200), plain).tokens;
  for (const PolicyInfo& policy : cutting_policies()) {
    for (Keep keep : {Keep{}, Keep{Keep::Unit::kTokens, 240}, Keep{Keep::Unit::kBytes, 1e6}}) {
      Bench bench;
      const Answer answer = bench.ask(prompt_of(200), with_policy(policy.name, keep));
      EXPECT_EQ(answer.tokens, expected) << policy.name << " " << to_string(keep);
      EXPECT_FALSE(answer.kv.lossy);
      EXPECT_EQ(answer.kv.entries_dropped, 0u);
    }
  }
}

TEST(Session, BetweenReviewsAtMostABlockIsAdded) {
  for (const PolicyInfo& policy : cutting_policies()) {
    Bench bench;
    auto options = with_policy(policy.name, {Keep::Unit::kTokens, 100});
    options.max_tokens = 60;
    const Result<std::unique_ptr<Session>> session = bench.open(options);
    ASSERT_TRUE(session.ok());
    double most = 0;
    std::size_t answer_steps = 0;
    bench.fake.before_step = [&] {
      if (bench.fake.steps.empty()) return;  // the prompt's only chunk
      ++answer_steps;
      most = std::max(most, bench.cache->stats((*session)->sequence())->tokens_kept_mean);
    };
    ASSERT_TRUE((*session)->answer(prompt_of(300)).ok());
    EXPECT_EQ(answer_steps, 59u);
    EXPECT_EQ(most, 115) << policy.name;
  }
}

// A pool that the prompt fills: what the answer needs is taken from the prompt, not from itself.
TEST(Session, SnapKvKeepsItsAnswerAndCutsItsPrompt) {
  Bench bench(std::size_t{512} << 10);
  GenerateOptions options = with_policy("snapkv:window=16,recent=16");
  const std::uint32_t prompt = bench.cache->tokens_that_fit(options.policy->needs) - 8;
  options.max_tokens = 120;
  const Result<std::unique_ptr<Session>> session = bench.open(options);
  ASSERT_TRUE(session.ok());
  const Result<Answer> answer = (*session)->answer(prompt_of(prompt));
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_EQ(answer->kv.prefill, Prefill::kWhole);
  EXPECT_GT(answer->kv.entries_dropped, 0u);
  const std::vector<Position> kept = *bench.cache->positions((*session)->sequence(), 1, 1);
  // The prompt's own window of 16 rows and the 119 rows of the answer are all there.
  const auto own = std::ranges::lower_bound(kept, prompt - 16);
  EXPECT_EQ(kept.end() - own, 16 + 119);
  EXPECT_LT(static_cast<std::uint32_t>(own - kept.begin()), prompt - 16);
}

TEST(Session, KeepInBytesHoldsForTheWholeSequence) {
  Bench bench;
  auto options = with_policy("sink-recency", {Keep::Unit::kBytes, 256 * 1024});
  options.max_tokens = 100;
  const Answer answer = bench.ask(prompt_of(700), options);
  EXPECT_LE(answer.kv.bytes_now, 256u * 1024);
  EXPECT_GT(answer.kv.bytes_now, 180u * 1024);
}

// The first layer sees 48 positions: it holds those, whatever is kept of the second.
TEST(Session, WindowLayersHoldTheirWindowAndTheRestIsCut) {
  std::vector<LayerShape> layers = test::fake_attention();
  layers[0].window = 48;
  Bench bench(std::size_t{1} << 20, 100'000, 512, layers);
  auto options = with_policy("sink-recency", {Keep::Unit::kBytes, 128 * 1024});
  options.max_tokens = 100;
  const Answer answer = bench.ask(prompt_of(700), options);
  EXPECT_LE(answer.kv.bytes_now, 128u * 1024);
  EXPECT_GT(answer.kv.bytes_now, 90u * 1024);

  Bench small(std::size_t{512} << 10, 100'000, 512, layers);
  const std::uint32_t capacity = small.cache->tokens_that_fit();
  const Answer streamed = small.ask(prompt_of(8 * capacity), with_policy("sink-recency"));
  EXPECT_EQ(streamed.finish, Finish::kLength) << streamed.error.message();
  EXPECT_LE(streamed.kv.bytes_peak, std::size_t{512} << 10);
  EXPECT_GT(streamed.kv.tokens_kept_mean, capacity * 0.7);
}

TEST(Session, WithWindowsAloneAPolicyHasNothingToDo) {
  std::vector<LayerShape> layers = test::fake_attention();
  for (LayerShape& layer : layers) layer.window = 48;
  Bench bench(std::size_t{640} << 10, 100'000, 512, layers);
  EXPECT_NE(refusal(bench.open(with_policy("h2o"))).find("every layer of this model has a window"),
            std::string::npos);
  const Answer answer = bench.ask(prompt_of(5000));
  EXPECT_EQ(answer.finish, Finish::kLength) << answer.error.message();
  EXPECT_FALSE(answer.kv.lossy);
}

TEST(Session, PercentIsOfThePromptAndNeverBelowTheProtection) {
  Bench bench;
  auto options = with_policy("sink-recency", {Keep::Unit::kPercent, 25});
  options.max_tokens = 1;
  EXPECT_EQ(bench.ask(prompt_of(600), options).kv.tokens_kept_mean, 150);
  EXPECT_EQ(bench.ask(prompt_of(100), options).kv.tokens_kept_mean, 69);
}

TEST(Session, APromptOfEightTimesTheBudgetIsStreamedWithinIt) {
  for (const PolicyInfo& policy : cutting_policies()) {
    Bench bench(std::size_t{512} << 10);
    const std::uint32_t capacity = bench.cache->tokens_that_fit(make_policy(policy.name)->needs);
    GenerateOptions options = with_policy(policy.name);
    const Answer answer = bench.ask(prompt_of(8 * capacity), options);
    EXPECT_EQ(answer.finish, Finish::kLength) << policy.name << ": " << answer.error.message();
    EXPECT_EQ(answer.tokens.size(), 40u) << policy.name;
    EXPECT_EQ(answer.kv.prefill, Prefill::kStreamed);
    EXPECT_EQ(answer.kv.tokens_seen, 8 * capacity + 39);
    EXPECT_LE(answer.kv.bytes_peak, answer.kv.pool_bytes);
    EXPECT_GE(answer.kv.tokens_kept_mean, 68) << policy.name;
    EXPECT_EQ(bench.fake.steps[0].window_rows,
              make_policy(policy.name)->needs.tap == Tap::kLastRows
                  ? std::min(make_policy(policy.name)->needs.window, bench.fake.steps[0].rows)
                  : 0u);
  }
}

TEST(Session, WholeBlocksLeaveMostOfTheBudgetToAStreamedPrompt) {
  Bench bench(std::size_t{512} << 10);
  const std::uint32_t capacity = bench.cache->tokens_that_fit({});
  const Answer answer = bench.ask(prompt_of(4 * capacity), with_policy("sink-recency"));
  EXPECT_GT(answer.kv.tokens_kept_mean, 0.7 * capacity);
}

TEST(Session, WithAPolicyTheLastPromptThatFitsIsReadWholeAndTheNextStreamed) {
  for (const PolicyInfo& policy : cutting_policies()) {
    Bench bench(std::size_t{512} << 10);
    const std::uint32_t capacity = bench.cache->tokens_that_fit(make_policy(policy.name)->needs);
    Bench roomy;
    GenerateOptions plain;
    plain.max_tokens = 1;
    const Answer whole = bench.ask(prompt_of(capacity), with_policy(policy.name));
    EXPECT_EQ(whole.kv.prefill, Prefill::kWhole) << policy.name;
    EXPECT_EQ(whole.tokens.at(0), roomy.ask(prompt_of(capacity), plain).tokens.at(0))
        << policy.name;
    EXPECT_EQ(whole.tokens.size(), 40u) << policy.name << ": " << whole.error.message();
    const Answer streamed = bench.ask(prompt_of(capacity + 1), with_policy(policy.name));
    EXPECT_EQ(streamed.kv.prefill, Prefill::kStreamed) << policy.name;
    EXPECT_EQ(streamed.tokens.size(), 40u) << policy.name << ": " << streamed.error.message();
    EXPECT_LE(bench.cache->stats().peak_bytes, std::size_t{512} << 10);
  }
}

TEST(Session, WithoutPolicyTheLastTokenThatFitsIsAcceptedAndTheNextRefused) {
  Bench bench(std::size_t{512} << 10);
  const std::uint32_t capacity = bench.cache->tokens_that_fit({});
  GenerateOptions options;
  options.max_tokens = 16;
  EXPECT_EQ(bench.ask(prompt_of(capacity - 16), options).tokens.size(), 16u);

  const auto session = bench.open(options);
  ASSERT_TRUE(session.ok());
  const Result<Answer> over = (*session)->answer(prompt_of(capacity - 15));
  ASSERT_FALSE(over.ok());
  EXPECT_EQ(over.status().code(), Code::kOutOfMemory);
  const std::size_t advised = advised_budget(over.status().message());
  EXPECT_GT(advised, std::size_t{512} << 10);
  EXPECT_LE(advised, std::size_t{640} << 10);
  Bench larger(advised);
  EXPECT_EQ(larger.ask(prompt_of(capacity - 15), options).tokens.size(), 16u);
}

TEST(Session, ABudgetBelowTheProtectionIsRefusedWithOneThatWouldDo) {
  Bench bench(std::size_t{80} << 10);
  const std::string message = refusal(bench.open(with_policy("h2o")));
  EXPECT_NE(message.find("4 sinks + 64 recent entries"), std::string::npos) << message;
  Bench larger(advised_budget(message));
  const Answer answer = larger.ask(prompt_of(500), with_policy("h2o"));
  EXPECT_EQ(answer.tokens.size(), 40u) << answer.error.message();
}

TEST(Session, SettingsThatCannotWorkAreRefusedByName) {
  Bench bench(std::size_t{1} << 20, 1000, 64);
  GenerateOptions keep_alone;
  keep_alone.chunk = 64;
  keep_alone.keep = {Keep::Unit::kTokens, 100};
  EXPECT_EQ(refusal(bench.open(keep_alone)),
            "keep 100tok: without a policy nothing is dropped; name a policy");
  auto tiny_keep = with_policy("h2o", {Keep::Unit::kTokens, 68});
  tiny_keep.chunk = 64;
  EXPECT_NE(refusal(bench.open(tiny_keep)).find("keep 69tok or more"), std::string::npos);
  GenerateOptions chunk;
  chunk.chunk = 65;
  EXPECT_EQ(refusal(bench.open(chunk)), "chunk 65 is not from 1 to the cache's max_rows 64");
  GenerateOptions context;
  context.chunk = 64;
  context.context = 1001;
  EXPECT_EQ(refusal(bench.open(context)), "context 1001 is over the model's 1000");
}

TEST(Session, EmptyAndOverlongPromptsAreRefusedAndChangeNothing) {
  Bench bench(std::size_t{1} << 20, 200);
  GenerateOptions options;
  options.max_tokens = 50;
  const auto session = bench.open(options);
  ASSERT_TRUE(session.ok());
  EXPECT_EQ((*session)->answer({}).status().message(), "prompt: no tokens");
  EXPECT_EQ((*session)->answer(prompt_of(151)).status().message(),
            "prompt 151 + answer 50 tokens = 201 are over the context of 200");
  EXPECT_TRUE((*session)->history().empty());
  EXPECT_TRUE((*session)->answer(prompt_of(100)).ok());
  EXPECT_EQ((*session)->history().size(), 149u);  // the last token's row was never needed
  EXPECT_EQ((*session)->answer(prompt_of(10)).status().message(),
            "history 149 + prompt 11 + answer 50 tokens = 210 are over the context of 200");
  EXPECT_EQ((*session)->history().size(), 149u);
}

TEST(Session, ASecondTurnContinuesExactly) {
  GenerateOptions options;
  options.max_tokens = 12;
  Bench bench;
  const auto session = bench.open(options);
  ASSERT_TRUE(session.ok());
  const Result<Answer> first = (*session)->answer(prompt_of(90));
  ASSERT_TRUE(first.ok());
  const Result<Answer> second = (*session)->answer(prompt_of(50, 3));
  ASSERT_TRUE(second.ok());

  Tokens all = prompt_of(90);
  all.insert(all.end(), first->tokens.begin(), first->tokens.end());
  const Tokens more = prompt_of(50, 3);
  all.insert(all.end(), more.begin(), more.end());
  Bench fresh;
  EXPECT_EQ(second->tokens, fresh.ask(all, options).tokens);
  EXPECT_EQ(second->prompt_tokens, 50u);
  EXPECT_EQ(second->kv.tokens_seen, 90u + 12 + 50 + 11);
}

TEST(Session, ATurnAfterEvictionsIsAnsweredWithinKeep) {
  Bench bench;
  const auto session = bench.open(with_policy("h2o", {Keep::Unit::kTokens, 100}));
  ASSERT_TRUE(session.ok());
  for (std::uint32_t turn = 0; turn < 4; ++turn) {
    const Result<Answer> answer = (*session)->answer(prompt_of(150, turn));
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    EXPECT_EQ(answer->tokens.size(), 40u);
    EXPECT_LE(answer->kv.tokens_kept_mean, 115);
  }
  EXPECT_EQ((*session)->history().size(), 4u * 190 - 1);
}

TEST(Session, ResetForgets) {
  GenerateOptions options;
  options.max_tokens = 12;
  Bench bench;
  const auto session = bench.open(options);
  ASSERT_TRUE(session.ok());
  const Result<Answer> first = (*session)->answer(prompt_of(90));
  ASSERT_TRUE((*session)->reset().ok());
  EXPECT_TRUE((*session)->history().empty());
  EXPECT_EQ(bench.cache->stats().sequences, 1u);
  EXPECT_EQ((*session)->answer(prompt_of(90))->tokens, first->tokens);
}

TEST(Session, NanEndsTheAnswerWithAnErrorAndNotTheSession) {
  GenerateOptions options;
  options.max_tokens = 10;
  for (std::size_t step : {0u, 1u, 4u}) {
    Bench bench;
    bench.fake.nan_at_step = step;
    const auto session = bench.open(options);
    ASSERT_TRUE(session.ok());
    const Result<Answer> answer = (*session)->answer(prompt_of(50));
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(answer->finish, Finish::kError);
    EXPECT_EQ(answer->error.code(), Code::kNumeric);
    EXPECT_EQ(answer->tokens.size(), step);
    bench.fake.nan_at_step = ~std::size_t{0};
    EXPECT_EQ((*session)->answer(prompt_of(50))->finish, Finish::kLength);
  }
}

TEST(Session, CancelIsSeenBetweenChunksAndBetweenTokens) {
  for (std::size_t at : {1u, 3u, 9u}) {  // chunks are steps 0 to 4
    Bench bench;
    std::atomic<bool> cancel{false};
    GenerateOptions options;
    options.chunk = 20;
    options.max_tokens = 10;
    options.cancel = &cancel;
    const auto session = bench.open(options);
    ASSERT_TRUE(session.ok());
    bench.fake.before_step = [&] { cancel = bench.fake.steps.size() + 1 == at; };
    const Result<Answer> answer = (*session)->answer(prompt_of(100));
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(answer->finish, Finish::kCancelled);
    EXPECT_EQ(bench.fake.steps.size(), at);
    EXPECT_EQ((*session)->history().size(), at < 5 ? at * 20 : 100 + at - 5);
    bench.cache->check_invariants();
  }
}

TEST(Session, TextComesInWholeLetters) {
  Bench bench;
  bench.fake.forced = {1, 40, 41, 2,
                       40};  // b, two thirds of a euro, its last third, c, a lost start
  std::vector<std::string> pieces;
  GenerateOptions options;
  options.max_tokens = 5;
  options.on_text = [&](std::string_view text) { pieces.emplace_back(text); };
  const Answer answer = bench.ask(prompt_of(20), options);
  EXPECT_EQ(pieces, (std::vector<std::string>{"b", "\xE2\x82\xAC", "c", "\xEF\xBF\xBD"}));
  EXPECT_EQ(answer.text,
            "b\xE2\x82\xAC"
            "c\xEF\xBF\xBD");
}

TEST(Session, StopsAtAnEndTokenUnlessToldNotTo) {
  GenerateOptions options;
  options.max_tokens = 6;
  Bench bench;
  bench.fake.forced = {1, 2, test::kEnd, 3};
  const Answer stopped = bench.ask(prompt_of(20), options);
  EXPECT_EQ(stopped.finish, Finish::kStop);
  EXPECT_EQ(stopped.tokens, (Tokens{1, 2}));

  Bench ignoring;
  ignoring.fake.forced = {1, 2, test::kEnd, 3};
  options.stop_at_end = false;
  EXPECT_EQ(ignoring.ask(prompt_of(20), options).finish, Finish::kLength);
}

TEST(Session, ReportsWhatItDid) {
  Bench bench;
  std::vector<std::uint32_t> read;
  GenerateOptions options;
  options.chunk = 64;
  options.max_tokens = 0;
  options.on_prompt = [&](std::uint32_t done, std::uint32_t total) {
    read.push_back(done);
    EXPECT_EQ(total, 150u);
  };
  const Answer answer = bench.ask(prompt_of(150), options);
  EXPECT_EQ(read, (std::vector<std::uint32_t>{64, 128, 150}));
  EXPECT_EQ(answer.prompt_tokens, 150u);
  EXPECT_EQ(answer.completion_tokens, 0u);
  EXPECT_EQ(answer.kv.policy, "none");
  EXPECT_EQ(answer.kv.keep, "all");
  EXPECT_EQ(answer.kv.tokens_seen, 150u);
  EXPECT_EQ(answer.kv.tokens_kept_mean, 150);
  EXPECT_EQ(answer.kv.tokens_kept_min, 150u);
  EXPECT_EQ(answer.kv.pool_bytes, std::size_t{1} << 20);
  EXPECT_GE(answer.kv.bytes_now, 150u * 1024);
  EXPECT_GE(answer.kv.bytes_peak, answer.kv.bytes_now);
  EXPECT_FALSE(answer.kv.lossy);
}

}  // namespace
}  // namespace quire::engine
