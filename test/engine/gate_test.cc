// Goal: a gate decides once for each prompt, by its rows alone; closed, nothing of the prompt is
// ever dropped, and open, the policy does what it does without a gate.
// Method: decisions by hand; answers that are hashes of attention (hash_model.h), so that a token
//   dropped or kept by mistake is another answer.

#include "engine/gate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/hash_bench.h"
#include "engine/sha256.h"

namespace quire::engine {
namespace {

using test::Bench;
using test::prompt_of;
using test::Tokens;

// The model has one head, whose D is always 0.
GateOptions judged(double threshold, Statistic statistic = Statistic::kRowVariation) {
  return {.rule = GateRule::kAuto, .calibration = {.statistic = statistic, .threshold = threshold}};
}
constexpr double kAnything = -1, kNothing = 1e9;

Request lossy(Bench& bench, const Tokens& prompt, std::uint32_t max_tokens, GateOptions gate,
              Keep keep = {Keep::Unit::kPercent, 30}) {
  Request request = bench.request(prompt, max_tokens);
  request.options.policy = *make_policy("h2o:sinks=2,recent=6");
  request.options.keep = keep;
  request.options.gate = gate;
  return request;
}

Answer ask(Bench& bench, Request request) {
  const RequestId id = bench.submit(std::move(request));
  bench.engine->run_until_idle();
  return bench.answers.at(id);
}

Answer asked(const Tokens& prompt, std::uint32_t max_tokens, GateOptions gate,
             Keep keep = {Keep::Unit::kPercent, 30}) {
  Bench bench;
  return ask(bench, lossy(bench, prompt, max_tokens, gate, keep));
}

Tokens exact(const Tokens& prompt, std::uint32_t max_tokens) {
  Bench bench;
  return ask(bench, bench.request(prompt, max_tokens)).tokens;
}

TEST(GateDecision, IsOnTheSafeSideOfTheThreshold) {
  GateCalibration by;
  EXPECT_EQ(by.threshold, 0.07);
  EXPECT_TRUE(gate_opens(by, 0.07));
  EXPECT_FALSE(gate_opens(by, 0.0699));
  by.statistic = Statistic::kLogMaxMean;
  EXPECT_TRUE(gate_opens(by, 0.07)) << "small values are safe";
  EXPECT_FALSE(gate_opens(by, 0.0701));
  by = {.mode = GateMode::kZ, .threshold = -0.69, .mean = 0.1, .deviation = 0.02};
  EXPECT_NEAR(gate_score(by, 0.14), 2, 1e-12);
  EXPECT_TRUE(gate_opens(by, 0.087));
  EXPECT_FALSE(gate_opens(by, 0.086));
  by.statistic = Statistic::kLogMaxMean;
  EXPECT_NEAR(gate_score(by, 0.14), -2, 1e-12);
  EXPECT_TRUE(gate_opens(by, 0.113));
  EXPECT_FALSE(gate_opens(by, 0.114));
  by = {.mode = GateMode::kSigned, .threshold = 0, .mean = 0.12, .deviation = -0.04};
  for (const Statistic statistic : {Statistic::kPageD, Statistic::kLogMaxMean}) {
    by.statistic = statistic;
    EXPECT_NEAR(gate_score(by, 0.08), 1, 1e-12) << "the calibration says which side is safe";
    EXPECT_TRUE(gate_opens(by, 0.12));
    EXPECT_FALSE(gate_opens(by, 0.121));
  }
}

TEST(GateDecision, ARaisedThresholdNeverOpens) {
  for (const GateMode mode : kGateModes) {
    EXPECT_EQ(parse_gate_mode(name_of(mode)), mode);
    GateCalibration by{.mode = mode, .mean = 0.2, .deviation = 0.3};
    for (double value = -1; value <= 1; value += 0.125) {
      bool before = true;
      for (by.threshold = -5; by.threshold <= 5; by.threshold += 0.125) {
        const bool open = gate_opens(by, value);
        EXPECT_LE(open, before) << value << " at " << by.threshold;
        before = open;
      }
    }
  }
}

TEST(Gate, ClosedAnswersAsTheFullCacheAndOpenAsThePolicy) {
  const Tokens prompt = prompt_of(150);
  const Tokens full = exact(prompt, 60);
  const Answer plain = asked(prompt, 60, {});
  EXPECT_NE(plain.tokens, full);
  EXPECT_EQ(plain.kv.gate.decision, GateDecision::kSkipped);
  EXPECT_EQ(plain.kv.gate.reason, kNoGate);

  const Answer open = asked(prompt, 60, judged(kAnything));
  EXPECT_EQ(open.tokens, plain.tokens);
  EXPECT_EQ(open.kv.gate.decision, GateDecision::kOpen);
  EXPECT_EQ(open.kv.gate.reason, "passed");
  EXPECT_EQ(open.kv.entries_dropped, plain.kv.entries_dropped);
  EXPECT_GT(open.kv.gate.judged->value, 0);
  EXPECT_EQ(open.kv.gate.judged->threshold, kAnything);
  EXPECT_EQ(open.kv.gate.judged->by, "row-variation");

  const Answer missed = asked(prompt, 60, judged(kNothing));
  EXPECT_EQ(missed.kv.gate.reason, "missed");
  EXPECT_EQ(missed.kv.gate.judged->value, open.kv.gate.judged->value);
  const Answer closed = asked(prompt, 60, {.rule = GateRule::kClosed});
  EXPECT_EQ(closed.kv.gate.reason, "configured");
  EXPECT_FALSE(closed.kv.gate.judged);
  for (const Answer& answer : {missed, closed}) {
    EXPECT_EQ(answer.tokens, full);
    EXPECT_EQ(answer.kv.gate.decision, GateDecision::kClosed);
    EXPECT_FALSE(answer.kv.lossy);
    EXPECT_EQ(answer.kv.entries_dropped, 0u);
    EXPECT_EQ(answer.kv.policy, "h2o:sinks=2,recent=6");
  }
  // The threshold itself is open, as D >= tau is.
  const double value = open.kv.gate.judged->value;
  EXPECT_EQ(asked(prompt, 5, judged(value)).kv.gate.decision, GateDecision::kOpen);
  EXPECT_EQ(asked(prompt, 5, judged(std::nextafter(value, 9.0))).kv.gate.decision,
            GateDecision::kClosed);
}

TEST(Gate, TheValueIsOfThePromptAlone) {
  const Tokens prompt = prompt_of(150, 3);
  const double value = asked(prompt, 5, judged(kAnything)).kv.gate.judged->value;
  // Other policies, keeps, chunks.
  Bench bench;
  Request other = lossy(bench, prompt, 5, judged(kNothing), {Keep::Unit::kTokens, 20});
  other.options.policy = *make_policy("snapkv:window=16,sinks=2,recent=4");
  other.options.chunk = 7;
  EXPECT_EQ(ask(bench, other).kv.gate.judged->value, value);
  // In a batch, some of whom are preempted.
  EngineOptions options;
  options.reserve_tokens = 8;
  Bench crowd(std::move(options), std::size_t{256} << 10);
  std::map<RequestId, Tokens> expected;
  std::vector<RequestId> same;
  for (std::uint32_t i = 0; i < 5; ++i) {
    same.push_back(crowd.submit(lossy(crowd, prompt, 90, judged(kNothing))));
    const Tokens neighbour = prompt_of(60, 10 + i);
    expected[crowd.submit(lossy(crowd, neighbour, 90, judged(kNothing)))] = exact(neighbour, 90);
  }
  crowd.engine->run_until_idle();
  EXPECT_GT(crowd.engine->stats().preemptions, 0u);
  const Tokens full = exact(prompt, 90);
  for (const RequestId id : same) {
    EXPECT_EQ(crowd.answers.at(id).kv.gate.judged->value, value);
    EXPECT_EQ(crowd.answers.at(id).tokens, full) << "closed, whoever made way";
  }
  for (const auto& [id, tokens] : expected) EXPECT_EQ(crowd.answers.at(id).tokens, tokens);
  EXPECT_EQ(crowd.engine->stats().restarts, 0u);
  EXPECT_EQ(crowd.cache->stats().sequences, 0u);
}

TEST(Gate, AHitLeavesTheRowsToCompute) {
  const Tokens prompt = prompt_of(150, 3);
  const double value = asked(prompt, 5, judged(kAnything)).kv.gate.judged->value;
  Bench bench({}, std::size_t{1} << 20, 64, {.hash = sha256, .identity = "hash"});
  ask(bench, bench.request(prompt, 5));
  Request request = lossy(bench, prompt, 20, judged(kNothing));
  request.options.policy = *make_policy("knorm:sinks=2,recent=6");
  const Answer answer = ask(bench, request);
  EXPECT_EQ(answer.kv.cached_tokens, 150u - kGateRows);
  EXPECT_EQ(answer.kv.gate.judged->value, value);
  EXPECT_EQ(answer.tokens, exact(prompt, 20));
}

// What the model predicts behind a review is another hash, so at least these nats away.
GateOptions self_check(double most) {
  return {.rule = GateRule::kSelfCheck, .self_check = most};
}

TEST(SelfCheck, KlIsOfTheDistributions) {
  const std::vector<float> even = {1, 1}, odd = {0, std::log(3.0f)};
  EXPECT_EQ(kl_divergence(odd, odd), 0);
  EXPECT_NEAR(kl_divergence(even, odd), 0.5 * std::log(2.0) + 0.5 * std::log(2.0 / 3), 1e-7);
  EXPECT_NEAR(kl_divergence(odd, even), 0.25 * std::log(0.5) + 0.75 * std::log(1.5), 1e-7);
  const std::vector<float> far = {0, 500}, near = {3000, 2999};
  EXPECT_NEAR(kl_divergence(near, far), 500 / (1 + std::exp(-1.0)), 1);
}

TEST(SelfCheck, OpensWhereTheReviewChangesNothingThatMatters) {
  const Tokens prompt = prompt_of(150);
  const Tokens full = exact(prompt, 60);
  const Answer plain = asked(prompt, 60, {}), open = asked(prompt, 60, self_check(10));
  EXPECT_EQ(open.tokens, plain.tokens);
  EXPECT_EQ(open.kv.gate.decision, GateDecision::kOpen);
  EXPECT_EQ(open.kv.gate.reason, "passed");
  EXPECT_EQ(open.kv.gate.judged->by, "self-check");
  EXPECT_EQ(open.kv.entries_dropped, plain.kv.entries_dropped);
  const double kl = open.kv.gate.judged->value;
  EXPECT_GT(kl, 0.01);
  EXPECT_EQ(asked(prompt, 5, self_check(kl)).kv.gate.decision, GateDecision::kOpen);
  const Answer closed = asked(prompt, 60, self_check(kl * 0.999));
  EXPECT_EQ(closed.kv.gate.reason, "missed");
  EXPECT_EQ(closed.kv.gate.judged->value, kl);
  EXPECT_EQ(closed.tokens, full);
  EXPECT_EQ(closed.kv.entries_dropped, 0u);
  // What keeps everything changes nothing.
  const Answer all = asked(prompt, 20, self_check(0), {Keep::Unit::kTokens, 150});
  EXPECT_EQ(all.kv.gate.judged->value, 0);
  EXPECT_EQ(all.kv.gate.reason, "passed");
}

TEST(SelfCheck, IsOfThePromptItsPolicyAndKeepAlone) {
  const Tokens prompt = prompt_of(150, 3);
  const auto value_of = [&](Bench& bench, std::uint32_t chunk) {
    Request request = lossy(bench, prompt, 5, self_check(10));
    request.options.policy = *make_policy("knorm:sinks=2,recent=6");
    request.options.chunk = chunk;
    const Answer answer = ask(bench, request);
    EXPECT_EQ(answer.kv.gate.reason, "passed");
    return answer.kv.gate.judged->value;
  };
  Bench fresh, other({}, std::size_t{1} << 20, 64, {.hash = sha256, .identity = "hash"});
  const double value = value_of(fresh, 512);
  for (const std::uint32_t chunk : {1u, 7u, 149u, 150u}) EXPECT_EQ(value_of(fresh, chunk), value);
  // Behind a hit there is a row left to try the review before the last.
  ask(other, other.request(prompt, 5));
  Request request = lossy(other, prompt, 20, self_check(0));
  request.options.policy = *make_policy("knorm:sinks=2,recent=6");
  const Answer hit = ask(other, request);
  EXPECT_EQ(hit.kv.cached_tokens, 144u) << "nobody left a unit that ends before the last token";
  EXPECT_EQ(hit.kv.gate.judged->value, value);
  EXPECT_EQ(hit.tokens, exact(prompt, 20));
  EXPECT_EQ(other.cache->stats().sequences, 0u);
}

TEST(SelfCheck, SaysWhyItDidNotTry) {
  EXPECT_EQ(asked(prompt_of(1), 20, self_check(10)).kv.gate.reason, "short");
  EXPECT_EQ(asked(prompt_of(50), 20, self_check(10), {Keep::Unit::kTokens, 70}).kv.gate.reason,
            "fits");
  Bench bench;
  const Result<RequestId> refused =
      bench.engine->submit(lossy(bench, prompt_of(50), 20, self_check(10), {Keep::Unit::kPool, 0}));
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(refused.status().message().starts_with("gate self-check tries a keep"));
  // A machine without memory for its row keeps the prompt whole.
  const Tokens prompt = prompt_of(150);
  std::uint32_t step = 0;
  bench.model.refuse = [&](std::size_t) { return ++step == 4; };
  Request request = lossy(bench, prompt, 20, self_check(10));
  request.options.chunk = 60;  // 60, 60, 29, the trial, 1
  const Answer answer = ask(bench, request);
  EXPECT_EQ(answer.kv.gate.reason, "no room");
  EXPECT_EQ(answer.tokens, exact(prompt, 20));
  EXPECT_EQ(bench.cache->stats().sequences, 0u);
}

TEST(Gate, SaysWhyThereWasNothingToJudge) {
  const auto gate_of = [](const Answer& answer) {
    return std::pair(answer.kv.gate.decision, answer.kv.gate.reason);
  };
  using Is = std::pair<GateDecision, std::string>;
  const Tokens prompt = prompt_of(150);
  // T < W, and no entry between sinks and last rows: nothing is dropped.
  for (const std::uint32_t length : {20u, 36u}) {
    const Answer answer = asked(prompt_of(length), 40, judged(kAnything));
    EXPECT_EQ(gate_of(answer), Is(GateDecision::kClosed, "short")) << length;
    EXPECT_EQ(answer.tokens, exact(prompt_of(length), 40));
  }
  EXPECT_EQ(gate_of(asked(prompt, 40, judged(kNothing), {Keep::Unit::kTokens, 190})),
            Is(GateDecision::kSkipped, "fits"));
  EXPECT_EQ(gate_of(asked(prompt, 40, judged(kNothing), {Keep::Unit::kTokens, 189})),
            Is(GateDecision::kClosed, "missed"));
  Bench bench;
  Request exact_one = bench.request(prompt, 5);
  exact_one.options.gate = judged(kNothing);
  EXPECT_EQ(gate_of(ask(bench, exact_one)), Is(GateDecision::kSkipped, "no policy"));

  Bench small({}, std::size_t{128} << 10);
  Request streamed = lossy(small, prompt_of(4 * small.cache->tokens_that_fit()), 10,
                           judged(kNothing), {Keep::Unit::kPool, 0});
  streamed.on_overflow = Overflow::kStream;
  const Answer answer = ask(small, streamed);
  EXPECT_EQ(answer.tokens.size(), 10u) << answer.error.message();
  EXPECT_EQ(gate_of(answer), Is(GateDecision::kSkipped, "streamed"));
  EXPECT_TRUE(answer.kv.lossy);
}

// Whoever may be closed is let in with its whole prompt; what does not fit then is refused, not
// cut.
TEST(Gate, ClosedAndWithoutRoomIsRefused) {
  Bench bench({}, std::size_t{128} << 10);
  Needs needs = make_policy("h2o")->needs;
  needs.gate_rows = kGateRows;
  const std::uint32_t capacity = bench.cache->tokens_that_fit(needs);
  const Tokens prompt = prompt_of(capacity - 20);
  const Answer open = ask(bench, lossy(bench, prompt, 60, judged(kAnything)));
  EXPECT_EQ(open.tokens.size(), 60u) << open.error.message();
  const Answer closed = ask(bench, lossy(bench, prompt, 60, judged(kNothing)));
  EXPECT_EQ(closed.finish, Finish::kError);
  EXPECT_EQ(closed.error.code(), Code::kOutOfMemory);
  EXPECT_TRUE(closed.error.message().starts_with("gate: it keeps this prompt whole (missed)"))
      << closed.error.message();
  EXPECT_NE(closed.error.message().find("a budget of "), std::string::npos);
  EXPECT_EQ(closed.kv.entries_dropped, 0u);
  EXPECT_TRUE(closed.tokens.empty());
  EXPECT_EQ(ask(bench, lossy(bench, prompt, 15, judged(kNothing))).tokens, exact(prompt, 15));
  // What needs no statistic is refused at once.
  const Result<RequestId> refused =
      bench.engine->submit(lossy(bench, prompt, 600, {.rule = GateRule::kClosed}));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kOutOfMemory);
  EXPECT_TRUE(refused.status().message().ends_with("with an open gate, less"));
  EXPECT_EQ(bench.cache->stats().sequences, 0u);
}

TEST(Gate, EveryPromptOfASessionIsJudged) {
  Bench bench;
  const auto session = [&](GateOptions gate) {
    GenerateOptions options = lossy(bench, {1}, 20, gate).options;
    options.chunk = 64;
    return *Session::open(bench.model, *bench.cache, options);
  };
  const Tokens first = prompt_of(120), second = prompt_of(80, 5), brief = prompt_of(9, 7);
  const auto closed = session(judged(kNothing)), full = session({.rule = GateRule::kClosed});
  const auto open = session(judged(kAnything)), plain = session({});
  for (const Tokens& prompt : {first, second, brief}) {
    const Answer kept = *closed->answer(prompt), dropped = *open->answer(prompt);
    EXPECT_EQ(kept.tokens, full->answer(prompt)->tokens);
    EXPECT_EQ(kept.kv.entries_dropped, 0u);
    bench.cache->check_invariants();
    const bool is_brief = prompt.size() < kGateRows;
    EXPECT_EQ(dropped.kv.gate.reason, is_brief ? "short" : "passed");
    const Answer cut = *plain->answer(prompt);
    if (is_brief) continue;
    EXPECT_EQ(dropped.tokens, cut.tokens);
    EXPECT_GT(dropped.kv.entries_dropped, 0u);
  }
}

}  // namespace
}  // namespace quire::engine
