// Goal: agents that resend their history find it again although it does not all fit: a queue does
//   not evict what it is about to need, orders are fair, and no order changes an answer.
// Method: seeded runs on a virtual clock (agent_sessions.h), with and without look-ahead, in both
//   orders; conserved after every step; the same answers from all.  The numbers are printed.

#include "engine/agent_sessions.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace quire::engine {
namespace {

using test::AgentLoad;
using test::AgentNumbers;
using test::AgentSessions;

struct Arm {
  const char* name;
  const char* order;
  bool cached, look_ahead;
  AgentNumbers numbers{};
};

void run(Arm& arm, const AgentLoad& load) {
  EngineOptions options;
  options.prefix_cache = arm.cached;
  options.look_ahead = arm.look_ahead;
  options.order = *make_queue_order(arm.order, options.ageing_seconds);
  arm.numbers = AgentSessions(load, std::move(options)).run();
}

TEST(AgentSessions, AQueueKeepsWhatItIsAboutToNeed) {
  AgentLoad load;
  std::vector<Arm> arms = {{"no cache", "fcfs", false, false},
                           {"fcfs", "fcfs", true, false},
                           {"fcfs + look-ahead", "fcfs", true, true},
                           {"cache-aware", "cache-aware", true, false},
                           {"cache-aware + look-ahead", "cache-aware", true, true}};
  std::printf("%-26s %10s %10s %8s %8s %10s\n", "mean of 2 seeds, seconds", "TTFT mean", "worst",
              "hits", "evicted", "all done");
  for (Arm& arm : arms) {
    AgentNumbers mean;
    for (load.seed = 1; load.seed <= 2; ++load.seed) {
      SCOPED_TRACE(std::string(arm.name) + ", seed " + std::to_string(load.seed));
      run(arm, load);
      if (HasFailure()) return;
      mean.ttft_mean += arm.numbers.ttft_mean / 2;
      mean.ttft_worst = std::max(mean.ttft_worst, arm.numbers.ttft_worst);
      mean.hit_ratio += arm.numbers.hit_ratio / 2;
      mean.evicted += arm.numbers.evicted;
      mean.seconds += arm.numbers.seconds / 2;
    }
    std::printf("%-26s %10.1f %10.1f %8.3f %8llu %10.0f\n", arm.name, mean.ttft_mean,
                mean.ttft_worst, mean.hit_ratio, static_cast<unsigned long long>(mean.evicted),
                mean.seconds);
    EXPECT_EQ(arm.numbers.answers, arms[0].numbers.answers) << "the last seed's, in every arm";
    mean.answers = std::move(arm.numbers.answers);
    arm.numbers = std::move(mean);
  }
  const auto ttft = [&](std::size_t arm) { return arms[arm].numbers.ttft_mean; };
  EXPECT_LT(ttft(2), ttft(1)) << "look-ahead helps a queue";
  EXPECT_LT(ttft(2), ttft(0)) << "and so does the cache";
  EXPECT_LT(ttft(4), ttft(2)) << "who is cached first: less waiting on average";
  EXPECT_GT(arms[2].numbers.hit_ratio, arms[1].numbers.hit_ratio);
  EXPECT_GT(arms[2].numbers.evicted, 0u) << "not all fits";
}

}  // namespace
}  // namespace quire::engine
