// Goal: the engine batches, streams, limits, cancels and refuses as engine/engine.h promises.
// Method: a model whose answers are hashes of attention (hash_model.h) over a real cache, on its
//   clock; what a batch answers is compared with each request alone.

#include "engine/engine.h"

#include <gtest/gtest.h>

#include "engine/hash_bench.h"

namespace quire::engine {
namespace {

using test::prompt_of;
using test::Tokens;

struct Bench : test::Bench {
  using test::Bench::Bench;
  std::string refusal(Request request) {
    const Result<RequestId> id = engine->submit(std::move(request));
    return id.ok() ? "accepted" : id.status().message();
  }
};

Tokens alone(const Tokens& prompt, std::uint32_t max_tokens) {
  Bench bench;
  const RequestId id = bench.submit(prompt, max_tokens);
  bench.engine->run_until_idle();
  return bench.answers.at(id).tokens;
}

TEST(Engine, ABatchAnswersWhatEachRequestAnswersAlone) {
  Bench bench;
  std::vector<RequestId> ids;
  for (std::uint32_t i = 0; i < 6; ++i) ids.push_back(bench.submit(prompt_of(20 + 30 * i, i), 25));
  bench.engine->run_until_idle();
  for (std::uint32_t i = 0; i < 6; ++i) {
    const Answer& answer = bench.answers.at(ids[i]);
    EXPECT_EQ(answer.finish, Finish::kLength);
    EXPECT_EQ(answer.tokens, alone(prompt_of(20 + 30 * i, i), 25)) << i;
  }
  EXPECT_EQ(bench.cache->stats().sequences, 0u);
  // Prompts (570 rows of 64) are read while answers go on.
  EXPECT_LT(bench.steps.size(), 45u);
  EXPECT_TRUE(std::ranges::any_of(bench.steps, [](const StepReport& step) {
    return step.answer_rows > 0 && step.prompt_rows > 0 &&
           step.answer_rows + step.prompt_rows == 64;
  }));
}

// A pool for two answers, six long ones at once: preempted, recomputed, and nobody can tell.
TEST(Engine, PreemptionChangesNoTokenAndRepeatsNoText) {
  EngineOptions options;
  options.reserve_tokens = 8;
  Bench bench(std::move(options), std::size_t{128} << 10);
  std::map<RequestId, std::string> streamed;
  std::map<RequestId, Tokens> expected;
  for (std::uint32_t i = 0; i < 6; ++i) {
    Request request = bench.request(prompt_of(20, i), 90);
    auto text = std::make_shared<std::string>();
    request.options.on_text = [text](std::string_view more) { *text += more; };
    request.on_done = [&, text, tell = request.on_done](RequestId id, const Answer& answer) {
      streamed[id] = *text;
      tell(id, answer);
    };
    expected[bench.submit(std::move(request))] = alone(prompt_of(20, i), 90);
  }
  bench.engine->run_until_idle();
  const EngineStats stats = bench.engine->stats();
  EXPECT_GT(stats.preemptions, 0u);
  EXPECT_GT(stats.recomputed_rows, 0u);
  EXPECT_EQ(stats.restarts, 0u);
  std::uint32_t preemptions = 0;
  for (const auto& [id, tokens] : expected) {
    const Answer& answer = bench.answers.at(id);
    EXPECT_EQ(answer.tokens, tokens);
    EXPECT_EQ(answer.text, streamed.at(id));
    EXPECT_EQ(answer.text.size(), 90u);
    EXPECT_FALSE(answer.kv.restarted);
    preemptions += answer.kv.preemptions;
  }
  EXPECT_EQ(preemptions, stats.preemptions);
  EXPECT_EQ(bench.order.front(), expected.begin()->first) << "first come, first served";
  EXPECT_LE(bench.cache->stats().peak_bytes, std::size_t{128} << 10);
}

// With evicted entries a sequence keeps its blocks as long as it can, and says so when it could
// not.
TEST(Engine, LossySequencesArePausedOrRestartedAndSayIt) {
  EngineOptions options;
  options.reserve_tokens = 1;
  options.repack_share = 0;
  Bench bench(std::move(options), std::size_t{128} << 10);
  for (std::uint32_t i = 0; i < 4; ++i) {
    Request request = bench.request(prompt_of(50, i), 150);
    request.options.policy = *make_policy("h2o:sinks=2,recent=6");
    request.options.keep = {Keep::Unit::kPercent, 80};
    bench.submit(std::move(request));
  }
  bench.engine->run_until_idle();
  const EngineStats stats = bench.engine->stats();
  EXPECT_EQ(stats.finished, 4u);
  EXPECT_GT(stats.pauses, 0u);
  EXPECT_GT(stats.restarts, 0u);
  std::uint32_t restarted = 0;
  for (const auto& [id, answer] : bench.answers) {
    EXPECT_EQ(answer.tokens.size(), 150u) << answer.error.message();
    EXPECT_TRUE(answer.kv.lossy);
    restarted += answer.kv.restarted ? 1 : 0;
  }
  EXPECT_GT(restarted, 0u);
  EXPECT_FALSE(bench.answers.begin()->second.kv.restarted) << "the first makes way for nobody";
}

TEST(Engine, OneNanEndsOneRequest) {
  Bench bench;
  std::map<RequestId, Tokens> expected;
  for (std::uint32_t i = 0; i < 5; ++i)
    expected[bench.submit(prompt_of(30, i), 12)] = alone(prompt_of(30, i), 12);
  Tokens poisoned = prompt_of(30);
  poisoned[17] = test::kHashPoison;
  const RequestId bad = bench.submit(poisoned, 12);
  bench.engine->run_until_idle();
  EXPECT_EQ(bench.answers.at(bad).finish, Finish::kError);
  EXPECT_EQ(bench.answers.at(bad).error.code(), Code::kNumeric);
  for (const auto& [id, tokens] : expected) EXPECT_EQ(bench.answers.at(id).tokens, tokens);
}

TEST(Engine, MemoryTheMachineRefusesEndsNobodyWhileOthersCanMakeWay) {
  Bench bench;
  std::uint32_t refusals = 0;
  bench.model.refuse = [&](std::size_t chunks) { return chunks > 1 || ++refusals % 3 == 0; };
  std::map<RequestId, Tokens> expected;
  for (std::uint32_t i = 0; i < 3; ++i)
    expected[bench.submit(prompt_of(30, i), 12)] = alone(prompt_of(30, i), 12);
  while (bench.engine->stats().running + bench.engine->stats().waiting > 1) bench.engine->step();
  bench.model.refuse = {};
  bench.engine->run_until_idle();
  for (const auto& [id, tokens] : expected) {
    EXPECT_EQ(bench.answers.at(id).tokens, tokens) << bench.answers.at(id).error.message();
  }
}

TEST(Engine, CancellingAtAnyStepGivesEveryBlockBack) {
  for (std::uint32_t at = 0; at < 40; ++at) {
    Bench bench;
    const RequestId stays = bench.submit(prompt_of(40), 30);
    const RequestId goes = bench.submit(prompt_of(100, 1), 20);
    for (std::uint32_t step = 0; step < at; ++step) bench.engine->step();
    const bool running = !bench.answers.contains(goes);
    EXPECT_EQ(bench.engine->cancel(goes), running) << at;
    EXPECT_FALSE(bench.engine->cancel(goes)) << "twice";
    bench.engine->step();
    EXPECT_LE(bench.cache->stats().sequences, 1u);
    EXPECT_EQ(bench.answers.at(goes).finish, running ? Finish::kCancelled : Finish::kLength);
    bench.engine->run_until_idle();
    EXPECT_EQ(bench.answers.at(stays).tokens, alone(prompt_of(40), 30));
    EXPECT_EQ(bench.cache->stats().sequences, 0u);
  }
}

TEST(Engine, CallbacksMayCancelAndSubmit) {
  Bench bench;
  RequestId second{};
  Request first = bench.request(prompt_of(20), 10);
  first.options.on_token = [&](model::Token) { bench.engine->cancel(second); };
  first.on_done = [&, tell = first.on_done](RequestId id, const Answer& answer) {
    tell(id, answer);
    bench.submit(prompt_of(10), 5);
  };
  bench.submit(std::move(first));
  second = bench.submit(prompt_of(200, 1), 10);
  bench.engine->run_until_idle();
  EXPECT_EQ(bench.answers.at(second).finish, Finish::kCancelled);
  EXPECT_EQ(bench.answers.at(second).prompt_tokens, 200u);
  EXPECT_EQ(bench.answers.size(), 3u);
}

TEST(Engine, ADeadlineEndsWhatRunsAndWhatWaits) {
  EngineOptions options;
  options.max_running = 1;
  Bench bench(std::move(options));
  Request runs = bench.request(prompt_of(20), 1000);
  runs.deadline_seconds = 30;
  const RequestId first = bench.submit(std::move(runs));
  Request waits = bench.request(prompt_of(20), 10);
  waits.deadline_seconds = 20;
  const RequestId second = bench.submit(std::move(waits));
  bench.engine->run_until_idle();
  for (const RequestId id : {first, second}) {
    EXPECT_EQ(bench.answers.at(id).finish, Finish::kCancelled);
    EXPECT_EQ(bench.answers.at(id).error.message(), "deadline: it has passed");
  }
  EXPECT_GT(bench.answers.at(first).tokens.size(), 10u);
  EXPECT_TRUE(bench.answers.at(second).tokens.empty());
  EXPECT_LT(bench.model.seconds, 35);
}

TEST(Engine, LowerPriorityNumbersRunFirstAndWaitingCounts) {
  EngineOptions options;
  options.max_running = 1;
  options.ageing_seconds = 100;
  Bench bench(std::move(options));
  const auto with = [&](std::int32_t priority) {
    Request request = bench.request(prompt_of(10), 50);
    request.priority = priority;
    return bench.submit(std::move(request));
  };
  const RequestId runs = with(0);
  bench.engine->step();
  const RequestId late = with(1), usual = with(0), urgent = with(-1);
  while (bench.model.seconds < 140) bench.engine->step();
  const RequestId newer = with(0);  // over 100 seconds after `late`
  bench.engine->run_until_idle();
  EXPECT_EQ(bench.order, (std::vector<RequestId>{runs, urgent, usual, late, newer}));
}

TEST(Engine, TimesAreOfTheEnginesClock) {
  EngineOptions options;
  options.max_running = 1;
  Bench bench(std::move(options));
  bench.submit(prompt_of(64), 5);
  const RequestId id = bench.submit(prompt_of(128), 5);
  bench.engine->run_until_idle();
  const Answer& answer = bench.answers.at(id);
  // A step of n rows takes 1 + n / 8 seconds.
  EXPECT_EQ(answer.queue_seconds, 9 + 4 * 1.125);
  EXPECT_EQ(answer.prefill_seconds, 18);
  EXPECT_EQ(answer.first_token_seconds, answer.queue_seconds + 18);
  EXPECT_EQ(answer.decode_seconds, 4 * 1.125);
}

TEST(Engine, StopTextsAndTheFewestTokensAreKept) {
  Bench bench;
  const Tokens tokens = alone(prompt_of(30), 40);
  std::string text;
  for (const model::Token token : tokens) text += bench.model.piece(token, false);
  const std::string stop = text.substr(20, 3);
  Request request = bench.request(prompt_of(30), 40);
  request.options.stop = {stop};
  const RequestId id = bench.submit(std::move(request));

  // Ends at the model's end, unless that is too early.
  const auto ended = [&](std::uint32_t min_tokens, std::uint32_t salt) {
    Request ends = bench.request(prompt_of(30, salt), 200);
    ends.options.stop_at_end = true;
    ends.options.min_tokens = min_tokens;
    const RequestId ending = bench.submit(std::move(ends));
    bench.engine->run_until_idle();
    return bench.answers.at(ending);
  };
  std::uint32_t early = 0;
  for (std::uint32_t salt = 0; salt < 10; ++salt) {
    early += ended(0, salt).tokens.size() < 100 ? 1 : 0;
    EXPECT_GE(ended(100, salt).tokens.size(), 100u);
  }
  EXPECT_GT(early, 0u);
  EXPECT_EQ(bench.answers.at(id).finish, Finish::kStop);
  EXPECT_EQ(bench.answers.at(id).text, text.substr(0, text.find(stop)));
}

TEST(Engine, WhatCannotBeAnsweredIsRefusedByName) {
  Bench bench({}, std::size_t{128} << 10);
  const std::uint32_t capacity = bench.cache->tokens_that_fit();
  EXPECT_EQ(bench.refusal(bench.request({}, 5)), "prompt: no tokens");
  EXPECT_EQ(bench.refusal(bench.request({3, 32}, 5)),
            "prompt: token 1 is 32, the vocabulary has 32");
  EXPECT_EQ(bench.refusal(bench.request({-1}, 5)), "prompt: token 0 is -1, the vocabulary has 32");
  Request priority = bench.request({1}, 5);
  priority.priority = 1001;
  EXPECT_EQ(bench.refusal(std::move(priority)), "priority 1001 is not from -1000 to 1000");
  EXPECT_EQ(bench.refusal(bench.request(prompt_of(10), 99'991)),
            "prompt 10 + answer 99991 tokens = 100001 are over the context of 100000");
  EXPECT_NE(bench.refusal(bench.request(prompt_of(capacity), 1)).find("do not fit the budget of "),
            std::string::npos);
  Request policy = bench.request(prompt_of(capacity + 1), 1);
  policy.options.policy = *make_policy("h2o:sinks=2,recent=6");
  EXPECT_NE(bench.refusal(std::move(policy)).find("do not fit the budget of "), std::string::npos);
  Request broken = bench.request({1}, 5);
  broken.options.make_sampler = [](const model::Model&, const model::SamplerOptions&) {
    return Result<std::unique_ptr<model::Sampler>>(Status(Code::kInvalidArgument, "grammar: bad"));
  };
  EXPECT_EQ(bench.refusal(std::move(broken)), "grammar: bad");
  EXPECT_EQ(bench.refusal(bench.request(prompt_of(capacity - 5), 5)), "accepted");
  EXPECT_EQ(bench.engine->stats().waiting, 1u);
  EngineOptions full;
  full.max_waiting = 0;
  Bench closed(std::move(full));
  EXPECT_EQ(closed.refusal(closed.request({1}, 5)), "max_waiting: 0 requests wait already");
}

TEST(Engine, APromptOverTheBudgetIsStreamedIfAskedTo) {
  Bench bench({}, std::size_t{128} << 10);
  const std::uint32_t capacity = bench.cache->tokens_that_fit();
  const RequestId exact = bench.submit(prompt_of(40), 30);
  Request request = bench.request(prompt_of(6 * capacity), 20);
  request.options.policy = *make_policy("h2o:sinks=2,recent=6");
  request.on_overflow = Overflow::kStream;
  const RequestId id = bench.submit(std::move(request));
  bench.engine->run_until_idle();
  EXPECT_EQ(bench.answers.at(id).tokens.size(), 20u) << bench.answers.at(id).error.message();
  EXPECT_EQ(bench.answers.at(id).kv.prefill, Prefill::kStreamed);
  EXPECT_TRUE(bench.answers.at(id).kv.lossy);
  EXPECT_EQ(bench.answers.at(exact).tokens, alone(prompt_of(40), 30));
  EXPECT_LE(bench.cache->stats().peak_bytes, std::size_t{128} << 10);
}

TEST(Engine, OptionsThatCannotWorkAreRefused) {
  Bench bench;
  const auto refused = [&](EngineOptions options) {
    return Engine::open(bench.model, *bench.cache, std::move(options)).status().message();
  };
  EXPECT_EQ(refused({.max_running = 0}), "max_running: 0");
  EXPECT_EQ(refused({.ageing_seconds = -1}), "ageing_seconds: below 0");
  EXPECT_EQ(refused({.repack_share = -1}), "repack_share: below 0");
  EXPECT_EQ(refused({.step_seconds = -1}), "step_seconds: below 0");
}

}  // namespace
}  // namespace quire::engine
