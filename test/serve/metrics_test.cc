// Goal: /metrics is Prometheus' text, its numbers are those of the answers, its labels few.
// Method: answers written here; every line is read back.

#include "serve/metrics.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "serve/http_client.h"
#include "serve/service.h"

namespace quire::serve {
namespace {

using test::sample;

engine::Answer answer_of(engine::Finish finish, std::uint32_t tokens) {
  engine::Answer answer{.finish = finish, .prompt_tokens = 100, .completion_tokens = tokens};
  answer.queue_seconds = 1;
  answer.prefill_seconds = 2;
  answer.first_token_seconds = 3;
  answer.decode_seconds = 4;
  answer.kv.cached_tokens = 64;
  answer.kv.cache_miss_reason = "differs";
  return answer;
}

TEST(Metrics, CountWhatWasAnswered) {
  Metrics metrics;
  metrics.answered(answer_of(engine::Finish::kStop, 5), 50, false);
  metrics.answered(answer_of(engine::Finish::kLength, 9), 9, false);
  metrics.answered(answer_of(engine::Finish::kCancelled, 0), 9, false);
  metrics.answered(answer_of(engine::Finish::kCancelled, 1), 9, true);
  engine::Answer lossy = answer_of(engine::Finish::kStop, 5);
  lossy.kv.policy = "h2o:recent=16";
  lossy.kv.lossy = true;
  lossy.kv.entries_dropped = 77;
  metrics.answered(lossy, 9, false);
  metrics.rejected();
  metrics.replied(404);
  EngineState state;
  state.engine.running = 2;
  state.engine.preemptions = 3;
  state.engine.prefix_queries = 700;
  state.engine.prefix_hits = 350;
  state.cache.prefix = {.units = 9, .bytes = 4096, .entered = 20, .evicted = 11};
  state.cache.budget_bytes = 1000;
  state.cache.used_bytes = 250;
  const std::string text = metrics.text(state, 8, false);
  EXPECT_EQ(sample(text, "quire:num_requests_running"), 2);
  EXPECT_EQ(sample(text, "quire:kv_cache_usage_perc"), 0.25);
  EXPECT_EQ(sample(text, "quire:http_connections"), 8);
  EXPECT_EQ(sample(text, "quire:num_preemptions_total"), 3);
  EXPECT_EQ(sample(text, "quire:prompt_tokens_total"), 500);
  EXPECT_EQ(sample(text, "quire:prompt_tokens_cached_total"), 320);
  EXPECT_EQ(sample(text, "quire:prefix_cache_queries_total"), 700);
  EXPECT_EQ(sample(text, "quire:prefix_cache_hits_total"), 350);
  EXPECT_EQ(sample(text, "quire:prefix_cache_units"), 9);
  EXPECT_EQ(sample(text, "quire:prefix_cache_bytes"), 4096);
  EXPECT_EQ(sample(text, "quire:prefix_cache_evictions_total"), 11);
  EXPECT_EQ(sample(text, "quire:cache_miss_reason_total{reason=\"differs\"}"), 5);
  EXPECT_EQ(sample(text, "quire:generation_tokens_total"), 20);
  EXPECT_EQ(sample(text, "quire:request_success_total{finished_reason=\"stop\"}"), 2);
  EXPECT_EQ(sample(text, "quire:request_success_total{finished_reason=\"abort\"}"), 1);
  EXPECT_EQ(sample(text, "quire:request_success_total{finished_reason=\"error\"}"), 1);
  EXPECT_EQ(sample(text, "quire:slow_readers_total"), 1);
  EXPECT_EQ(sample(text, "quire:lossy_responses_total{policy=\"h2o\"}"), 1);
  EXPECT_EQ(sample(text, "quire:tokens_evicted_total{policy=\"h2o\",tier=\"ram\"}"), 77);
  EXPECT_EQ(sample(text, "quire:admission_rejections_total"), 1);
  EXPECT_EQ(sample(text, "quire:http_requests_total{status=\"4xx\"}"), 1);
  EXPECT_EQ(sample(text, "quire:time_to_first_token_seconds_count"), 4) << "of those with a token";
  EXPECT_EQ(sample(text, "quire:time_to_first_token_seconds_bucket{le=\"2.5\"}"), 0);
  EXPECT_EQ(sample(text, "quire:time_to_first_token_seconds_bucket{le=\"5\"}"), 4);
  EXPECT_EQ(sample(text, "quire:e2e_request_latency_seconds_sum"), 28);
}

TEST(Metrics, GatesShowWhatTheyDecidedAndWhereValuesLie) {
  Metrics metrics;
  engine::Answer answer = answer_of(engine::Finish::kStop, 5);
  metrics.answered(answer, 9, false);
  EXPECT_EQ(metrics.text({}, 0, false).find("quire:gate_decisions_total{"), std::string::npos);
  answer.kv.gate = {
      .decision = engine::GateDecision::kClosed,
      .reason = "missed",
      .judged =
          engine::Judgement{
              .by = "page-d", .mode = engine::GateMode::kZ, .value = 0.03, .score = -1.2},
      .seconds = 0.004};
  metrics.answered(answer, 9, false);
  answer.kv.gate.judged->mode = engine::GateMode::kRaw;
  metrics.answered(answer, 9, false);
  answer.kv.gate.judged = engine::Judgement{.by = engine::kSelfCheck, .value = 0.2, .score = 0.2};
  metrics.answered(answer, 9, false);
  const std::string text = metrics.text({}, 0, false);
  EXPECT_EQ(sample(text, "quire:gate_decisions_total{decision=\"closed\",reason=\"missed\"}"), 3);
  EXPECT_EQ(sample(text, "quire:gate_self_check_kl_bucket{le=\"0.3\"}"), 1);
  EXPECT_EQ(sample(text, "quire:gate_self_check_kl_bucket{le=\"0.1\"}"), 0);
  EXPECT_EQ(sample(text, "quire:gate_value_bucket{le=\"0.02\"}"), 0);
  EXPECT_EQ(sample(text, "quire:gate_value_bucket{le=\"0.05\"}"), 2);
  EXPECT_EQ(sample(text, "quire:gate_score_count"), 1) << "raw values have no score of their own";
  EXPECT_EQ(sample(text, "quire:gate_score_bucket{le=\"-1\"}"), 1);
  EXPECT_EQ(sample(text, "quire:gate_time_seconds_count"), 3);
}

TEST(Metrics, EveryLineIsASampleOfItsFamily) {
  Metrics metrics;
  metrics.answered(answer_of(engine::Finish::kStop, 5), 50, false);
  const std::string text = metrics.text({}, 0, true);
  const std::regex line_form(
      R"(((quire|vllm):[a-z0-9_]+)(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? [0-9.e+-]+)");
  std::istringstream lines(text);
  std::set<std::string> families, ours, theirs;
  std::string family;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(families.insert(family).second) << family << " is there twice";
      (family.starts_with("vllm:") ? theirs : ours).insert(family.substr(family.find(':') + 1));
    }
    if (line.starts_with("#")) continue;
    std::smatch found;
    ASSERT_TRUE(std::regex_match(line, found, line_form)) << line;
    EXPECT_TRUE(found[1].str().starts_with(family)) << line;
  }
  for (const std::string& name : theirs) EXPECT_TRUE(ours.contains(name)) << name;
  for (const char* name : {"num_requests_running", "kv_cache_usage_perc", "prefix_cache_hits_total",
                           "time_to_first_token_seconds", "request_success_total"}) {
    EXPECT_TRUE(theirs.contains(name)) << name;
  }
  EXPECT_EQ(metrics.text({}, 0, false).find("vllm:"), std::string::npos);
}

TEST(Log, HasNoLineBreaksOfStrangers) {
  const LogEntry entry{.request_id = "id",
                       .method = "GE\nT",
                       .path = "/a b\x1b[31m" + std::string(1000, 'x'),
                       .status = 404};
  const std::string line = log_line(entry, 0);
  EXPECT_TRUE(line.starts_with("1970-01-01T00:00:00Z id GE?T /a?b?[31mxxx")) << line;
  EXPECT_TRUE(line.ends_with(" 404 0.000s")) << line;
  EXPECT_LT(line.size(), 200u);
}

TEST(Http, PercentCodesOfAName) {
  EXPECT_EQ(percent_decoded("SmolLM2%20135M%2fx"), "SmolLM2 135M/x");
  for (const char* same : {"", "%", "%2", "%zz", "a%", "100%x1"}) {
    EXPECT_EQ(percent_decoded(same), same);
  }
}

TEST(RequestId, IsTheClientsIfItIsOne) {
  EXPECT_EQ(request_id("abc-1.2_3", 5), "abc-1.2_3");
  for (const std::string& bad :
       {std::string(), std::string("a b"), std::string("a\r\nSet: x"), std::string(129, 'a')}) {
    EXPECT_EQ(request_id(bad, 255), "req_00000000000000ff");
  }
}

}  // namespace
}  // namespace quire::serve
