// Goal: `quire bench serve` sends what its trace says, loses no request, and its numbers are those
// of what was recorded.
// Method: traces and summaries against numbers by hand; the built program on a small random model,
// its JSON counted.  No time is asserted.

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/bench_serve_summary.h"
#include "cli/bench_serve_trace.h"
#include "cli/program.h"

namespace quire::cli {
namespace {

using nlohmann::json;
using test::contains;
using test::folder;
using test::Ran;
using test::tiny_model;

TEST(ServeTrace, LengthsAreReadOrRefused) {
  EXPECT_EQ(parse_length("512")->mean, 512u);
  EXPECT_EQ(parse_length("512:128")->spread, 128u);
  for (const char* text : {"", "0", "x", "5:5", "5:6", "5:", ":5", "5:-1", "2000000", "9:1:1"}) {
    EXPECT_FALSE(parse_length(text).ok()) << text;
  }
}

TEST(ServeTrace, ASeedIsATraceAndTheRateIsMet) {
  const TraceShape shape{.requests = 4000, .prompt = {100, 20}, .answer = {5, 0}, .seed = 7};
  const std::vector<Arrival> trace = poisson_trace(shape, 50), same = poisson_trace(shape, 50);
  ASSERT_EQ(trace.size(), 4000u);
  double before = 0, prompts = 0;
  std::uint32_t least = 1000, most = 0;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    EXPECT_GE(trace[i].seconds, before);
    EXPECT_EQ(trace[i].seconds, same[i].seconds);
    EXPECT_EQ(trace[i].prompt_tokens, same[i].prompt_tokens);
    EXPECT_EQ(trace[i].answer_tokens, 5u);
    before = trace[i].seconds;
    prompts += trace[i].prompt_tokens;
    least = std::min(least, trace[i].prompt_tokens);
    most = std::max(most, trace[i].prompt_tokens);
  }
  // The time of 4000 arrivals spreads by 1 / sqrt(4000) of itself: five of these.
  EXPECT_NEAR(trace.back().seconds, 80, 80 * 5 / std::sqrt(4000.0));
  EXPECT_NEAR(prompts / 4000, 100, 1);
  EXPECT_EQ(least, 80u);
  EXPECT_EQ(most, 120u);
  // The same requests at another rate, and all at once.
  const std::vector<Arrival> closed = closed_trace(shape);
  for (std::size_t i = 0; i < closed.size(); ++i) {
    EXPECT_EQ(closed[i].prompt_tokens, trace[i].prompt_tokens);
    EXPECT_EQ(closed[i].seconds, 0);
  }
}

TEST(ServeTrace, FilesAreReadAsLinesOrAnArrayInOrderOfTime) {
  const char* lines =
      "{\"time\": 2, \"prompt_tokens\": 3, \"answer_tokens\": 4}\n\n"
      "{\"time\": 0.5, \"prompt_tokens\": 5, \"answer_tokens\": 6, \"note\": 1}\n";
  const char* array =
      " [{\"time\": 2, \"prompt_tokens\": 3, \"answer_tokens\": 4},"
      "{\"time\": 0.5, \"prompt_tokens\": 5, \"answer_tokens\": 6}]";
  for (const char* text : {lines, array}) {
    const Result<std::vector<Arrival>> trace = parse_trace(text, "t");
    ASSERT_TRUE(trace.ok()) << trace.status().message();
    ASSERT_EQ(trace->size(), 2u);
    EXPECT_EQ((*trace)[0].seconds, 0.5);
    EXPECT_EQ((*trace)[0].prompt_tokens, 5u);
    EXPECT_EQ((*trace)[1].answer_tokens, 4u);
  }
  const std::pair<const char*, const char*> bad[] = {
      {"", "t: holds no request"},
      {"[]", "t: holds no request"},
      {"[{]", "t: is not JSON"},
      {"\n{\"time\": 1", "t: line 2: is not JSON"},
      {"3", "t: line 1: is not an object"},
      {"{\"prompt_tokens\": 3}", "t: line 1: time is missing"},
      {"{\"time\": -1}", "t: line 1: time is -1, not seconds from 0 to 1e9"},
      {"{\"time\": 1, \"prompt_tokens\": 0}",
       "t: line 1: prompt_tokens is 0, not a number from 1 to 1048576"},
      {"[{\"time\": 1, \"prompt_tokens\": 1}]", "t: [0]: answer_tokens is missing"},
      {"{\"time\": 1, \"prompt_tokens\": 1, \"answer_tokens\": \"x\"}",
       "t: line 1: answer_tokens is \"x\", not a number from 1 to 1048576"}};
  for (const auto& [text, message] : bad) {
    const Result<std::vector<Arrival>> trace = parse_trace(text, "t");
    ASSERT_FALSE(trace.ok()) << text;
    EXPECT_EQ(trace.status().message(), message);
  }
}

TEST(ServeTrace, NoTwoPromptsShareTheirFirstToken) {
  std::vector<model::Token> words(50), text(200);
  for (int i = 0; i < 50; ++i) words[static_cast<std::size_t>(i)] = i + 10;
  for (int i = 0; i < 200; ++i) text[static_cast<std::size_t>(i)] = 1000 + i;
  for (const bool real : {false, true}) {
    const PromptMaker maker(words, real ? text : std::vector<model::Token>(), 3);
    std::set<model::Token> first;
    for (std::size_t i = 0; i < 50; ++i) {
      const std::vector<model::Token> prompt = maker.make(i, 20);
      ASSERT_EQ(prompt.size(), 20u);
      EXPECT_EQ(prompt, maker.make(i, 20));
      EXPECT_TRUE(first.insert(prompt[0]).second) << i;
      EXPECT_EQ(prompt[1] >= 1000, real);
      if (real) {
        EXPECT_EQ((prompt[2] - prompt[1] + 200) % 200, 1) << "the text goes on";
      }
    }
  }
}

TEST(ServeTrace, PromptsHaveTheirFirstTokensInCommonAsAsked) {
  const std::vector<model::Token> words = {10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
  const PromptMaker maker(words, {}, 3, 8);
  const std::vector<model::Token> first = maker.make(0, 20),
                                  shared(first.begin(), first.begin() + 8);
  std::set<model::Token> after;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::vector<model::Token> prompt = maker.make(i, 20);
    ASSERT_EQ(prompt.size(), 20u);
    EXPECT_TRUE(std::equal(shared.begin(), shared.end(), prompt.begin()));
    EXPECT_TRUE(after.insert(prompt[8]).second) << "and no more";
    EXPECT_EQ(maker.make(i, 5), std::vector<model::Token>(shared.begin(), shared.begin() + 5));
  }
}

ServedRequest answered(double arrived, double first, double ended, std::uint32_t tokens) {
  return {.arrived = arrived,
          .first_token = first,
          .ended = ended,
          .prompt_tokens = 10,
          .answer_tokens = tokens,
          .outcome = Outcome::kAnswered};
}

TEST(ServeSummary, IsWhatTheRequestsFelt) {
  std::vector<ServedRequest> requests = {answered(0, 1, 3, 5), answered(1, 4, 4, 1),
                                         answered(2, 4, 10, 3)};
  requests.push_back({.arrived = 2, .ended = 2, .prompt_tokens = 99});
  requests.push_back({.arrived = 2, .ended = 12, .outcome = Outcome::kFailed, .preemptions = 2});
  requests.push_back({.arrived = 2, .ended = 3, .outcome = Outcome::kCancelled, .restarted = true});
  std::vector<ServeSample> samples = {{.seconds = 2, .running = 1, .used_bytes = 50},
                                      {.seconds = 4, .running = 4, .waiting = 9, .blocks = 7},
                                      {.seconds = 8, .running = 2, .committed_bytes = 80}};
  const ServeSummary s = summarise(requests, samples, {.ttft = 2.5, .tpot = 1});
  EXPECT_EQ(s.requests, s.answered + s.refused + s.cancelled + s.failed);
  EXPECT_EQ(s.answered, 3u);
  EXPECT_EQ(s.refused, 1u);
  EXPECT_EQ(s.prompt_tokens, 30u);
  EXPECT_EQ(s.answer_tokens, 9u);
  EXPECT_EQ(s.preemptions, 2u);
  EXPECT_EQ(s.restarts, 1u);
  EXPECT_EQ(s.seconds, 12);
  EXPECT_EQ(s.ttft.p50, 2);              // 1, 3, 2
  EXPECT_EQ(s.end_to_end.p50, 3);        // 3, 3, 8
  EXPECT_EQ(s.tpot.p50, (0.5 + 3) / 2);  // 0.5, none, 3
  EXPECT_NEAR(s.ttft.p99, 2.98, 1e-12);
  EXPECT_EQ(s.met, 1u);  // the second took too long to begin, the third a token
  EXPECT_EQ(s.running_mean, (1 * 2 + 4 * 2 + 2 * 4) / 8.0);
  EXPECT_EQ(s.running_peak, 4u);
  EXPECT_EQ(s.waiting_peak, 9u);
  EXPECT_EQ(s.used_peak, 50u);
  EXPECT_EQ(s.committed_peak, 80u);
  EXPECT_EQ(s.blocks_peak, 7u);
  EXPECT_EQ(summarise(requests, samples, {}).met, 3u);
  const ServeSummary nothing = summarise({}, {}, {});
  EXPECT_EQ(nothing.per_second(3), 0);
  EXPECT_EQ(nothing.ttft.p99, 0);
}

TEST(ServeSummary, SamplesAreThinnedEvenlyToTheLast) {
  std::vector<ServeSample> samples(1000);
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i].seconds = static_cast<double>(i);
  const std::vector<ServeSample> few = thinned(samples, 10);
  ASSERT_EQ(few.size(), 10u);
  EXPECT_EQ(few.front().seconds, 99);
  EXPECT_EQ(few.back().seconds, 999);
  EXPECT_EQ(thinned(samples, 5000).size(), 1000u);
  EXPECT_TRUE(thinned({}, 10).empty());
}

std::vector<std::string> serve(std::vector<std::string> more) {
  std::vector<std::string> all = {"bench", "serve", "-m", tiny_model(), "--threads", "1"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// What must hold of every run.
void expect_conserved(const json& run) {
  const json& counts = run["counts"];
  const auto count = [&](const char* name) { return counts[name].get<std::size_t>(); };
  EXPECT_EQ(run["quire_json"], 1);
  EXPECT_EQ(count("requests"),
            count("answered") + count("refused") + count("cancelled") + count("failed"));
  ASSERT_EQ(run["requests"].size(), count("requests"));
  std::map<std::string, std::size_t> outcomes;
  for (const json& request : run["requests"]) ++outcomes[request["outcome"]];
  EXPECT_EQ(outcomes["answered"], count("answered"));
  EXPECT_EQ(outcomes["refused"], count("refused"));
  for (const char* name : {"ttft_s", "tpot_s", "end_to_end_s"}) {
    EXPECT_LE(run[name]["p50"], run[name]["p95"]) << name;
    EXPECT_LE(run[name]["p95"], run[name]["p99"]) << name;
    EXPECT_GE(run[name]["p50"], 0) << name;
  }
  EXPECT_LE(run["bytes"]["used_peak"], run["bytes"]["committed_peak"]);
  EXPECT_LE(run["bytes"]["committed_peak"], run["cache"]["budget_bytes"]);
}

TEST(Serve, EveryRequestOfAClosedLoopIsAnswered) {
  const std::string report = folder().file("report");
  const Ran ran = test::quire(
      serve({"--concurrency", "3", "--requests", "7", "--prompt", "40:20", "--answer", "6:3",
             "--budget", "4MiB", "--json", "--report", report, "--limit-ttft", "1e9"}));
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json run = json::parse(ran.out);
  expect_conserved(run);
  EXPECT_EQ(run["counts"]["answered"], 7);
  EXPECT_EQ(run["goodput"]["requests"], 7);
  EXPECT_LE(run["running"]["peak"], 3);
  for (const json& request : run["requests"]) {
    EXPECT_GE(request["answer_tokens"], 3);
    EXPECT_LE(request["answer_tokens"], 9);
    EXPECT_LE(request["ttft_s"].get<double>() + request["arrived_s"].get<double>(),
              request["ended_s"].get<double>() + 1e-6);
  }
  EXPECT_FALSE(run["samples"].empty());
  EXPECT_EQ(json::parse(test::read_file(report + "/serve.json")), run);
  for (const char* name : {"requests.svg", "bytes.svg", "latency.svg"}) {
    EXPECT_TRUE(contains(test::read_file(report + "/" + name), "</svg>")) << name;
  }
}

TEST(Serve, ArrivalsAtRandomAndOfAFileAreConserved) {
  const std::string trace = folder().write(
      "trace.jsonl",
      "{\"time\": 0, \"prompt_tokens\": 30, \"answer_tokens\": 4}\n"
      "{\"time\": 0.01, \"prompt_tokens\": 5000, \"answer_tokens\": 4}\n"  // over the context
      "{\"time\": 0.02, \"prompt_tokens\": 60, \"answer_tokens\": 1}\n");
  const Ran of_file = test::quire(serve({"--trace", trace, "--json", "--budget", "4MiB"}));
  ASSERT_EQ(of_file.status, 0) << of_file.err;
  const json run = json::parse(of_file.out);
  expect_conserved(run);
  EXPECT_EQ(run["counts"]["answered"], 2);
  EXPECT_EQ(run["counts"]["refused"], 1);
  EXPECT_EQ(run["requests"][1]["outcome"], "refused");
  EXPECT_FALSE(run["requests"][1]["error"].get<std::string>().empty());

  // A pool too small for all at once, with a policy.
  const Ran tight = test::quire(
      serve({"--rate", "500", "--requests", "12", "--prompt", "150:40", "--answer", "20:10",
             "--budget", "1MiB", "--policy", "h2o", "--keep", "100tok", "--json"}));
  ASSERT_EQ(tight.status, 0) << tight.err;
  const json squeezed = json::parse(tight.out);
  expect_conserved(squeezed);
  EXPECT_EQ(squeezed["counts"]["answered"], 12);

  const Ran table = test::quire(serve({"--requests", "2", "--prompt", "20", "--answer", "2"}));
  EXPECT_EQ(table.status, 0) << table.err;
  for (const char* part : {"to the first token", "2 answered, 0 refused", "preemptions"}) {
    EXPECT_TRUE(contains(table.out, part)) << table.out;
  }
}

TEST(Serve, WhatPromptsHaveInCommonIsReadOnce) {
  const auto run = [](const std::vector<std::string>& more) {
    std::vector<std::string> load = {"--requests", "6", "--concurrency", "2",    "--prompt", "80",
                                     "--answer",   "4", "--budget",      "4MiB", "--json"};
    load.insert(load.end(), more.begin(), more.end());
    const Ran ran = test::quire(serve(load));
    EXPECT_EQ(ran.status, 0) << ran.err;
    return json::parse(ran.out);
  };
  const json shared = run({"--shared", "50"});
  expect_conserved(shared);
  EXPECT_EQ(shared["prefix"]["cached_tokens"], 5 * 50) << "of all prompts but the first";
  EXPECT_EQ(shared["prefix"]["prompt_tokens"], 6 * 80);
  EXPECT_NEAR(shared["prefix"]["hit_ratio"].get<double>(), 250.0 / 480, 1e-6);
  EXPECT_EQ(shared["requests"][5]["cached_tokens"], 50);
  EXPECT_EQ(run({"--shared", "50", "--prefix-cache", "off"})["prefix"]["cached_tokens"], 0);
  EXPECT_EQ(run({})["prefix"]["cached_tokens"], 0);
}

TEST(Serve, OrdersAndPacesAnswerAll) {
  const Ran ran = test::quire(serve(
      {"--requests", "8", "--concurrency", "6", "--prompt", "90:60", "--answer", "9:4", "--shared",
       "40", "--max-running", "2", "--queue", "cache-aware:eta=0.5", "--step-ms", "5", "--json"}));
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json run = json::parse(ran.out);
  expect_conserved(run);
  EXPECT_EQ(run["counts"]["answered"], 8);
  EXPECT_EQ(run["load"]["queue"], "cache-aware:eta=0.5");
  EXPECT_EQ(run["load"]["step_ms"], 5);
}

TEST(Serve, WrongFlagsAreUsageErrors) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--rate", "2", "--concurrency", "3"}, "--rate, --concurrency, --trace: give one of them"},
      {{"--rate", "0"}, "--rate: \"0\""},
      {{"--prompt", "10:10"}, "--prompt: \"10:10\": not TOKENS or MEAN:SPREAD"},
      {{"--trace", "x", "--requests", "3"}, "--requests: --trace names them all"},
      {{"--keep", "25%"}, "--keep: without --policy"},
      {{"--policy", "best"}, "--policy: no policy \"best\""},
      {{"--queue", "fifo"}, "--queue: \"fifo\" is none of fcfs, cache-aware"},
      {{"--prefix-cache", "yes"}, "--prefix-cache: \"yes\" is none of on, off"},
      {{"--step-ms", "-1"}, "--step-ms: \"-1\" is not a number from 0 to"},
      {{"--limit-ttft", "nan"}, "--limit-ttft: \"nan\""},
  };
  for (const auto& [arguments, message] : cases) {
    const Ran ran = test::quire(serve(arguments));
    EXPECT_EQ(ran.status, 2) << message;
    EXPECT_TRUE(contains(ran.err, message)) << ran.err;
  }
  const Ran absent = test::quire(serve({"--trace", folder().file("absent.jsonl"), "--json"}));
  EXPECT_EQ(absent.status, 1);
  EXPECT_TRUE(contains(json::parse(absent.out)["error"]["message"], "absent.jsonl"));
  EXPECT_EQ(test::quire({"bench", "serve"}).status, 2);
  EXPECT_EQ(test::quire({"bench"}).status, 2);
}

}  // namespace
}  // namespace quire::cli
