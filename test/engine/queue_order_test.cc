// Goal: ranks put requests in the order that engine/queue_order.h states, and nobody waits for
//   those that come much later.
// Method: ranks compared; orders read from texts.

#include "engine/queue_order.h"

#include <gtest/gtest.h>

namespace quire::engine {
namespace {

TEST(QueueOrder, APriorityIsWorthSomeWaiting) {
  const FirstCome order(10);
  const auto rank = [&](double submitted, std::int32_t priority) {
    return order.rank({.submitted_seconds = submitted, .priority = priority});
  };
  EXPECT_LT(rank(5, 0), rank(6, 0));
  EXPECT_LT(rank(14, -1), rank(5, 0));
  EXPECT_GT(rank(16, -1), rank(5, 0)) << "too late to overtake";
}

TEST(QueueOrder, WhatIsCachedOvertakesForAWhile) {
  const CacheAware order(10, 0.5);
  const auto rank = [&](double submitted, double prefill) {
    return order.rank({.submitted_seconds = submitted, .prefill_seconds = prefill});
  };
  EXPECT_LT(rank(1, 0.1), rank(0, 4)) << "the shorter prefill first";
  EXPECT_LT(rank(0, 4), rank(0.1, 4)) << "alike: who came first";
  // 4 seconds of prefill are worth 8 of waiting.
  EXPECT_LT(rank(7.9, 0), rank(0, 4));
  EXPECT_GT(rank(8.1, 0), rank(0, 4));
  EXPECT_LT(order.rank({.submitted_seconds = 15, .priority = -1, .prefill_seconds = 2}), rank(0, 5))
      << "and a level of priority its 10 seconds";
  EXPECT_TRUE(order.by_prefill());
  EXPECT_FALSE(FirstCome(10).by_prefill());
}

TEST(QueueOrder, IsReadFromText) {
  const auto rank = [](std::string_view text) {
    const auto order = make_queue_order(text, 10);
    return order.ok() ? (*order)->rank({.submitted_seconds = 1, .prefill_seconds = 3}) : -1;
  };
  EXPECT_EQ(rank("fcfs"), 1);
  EXPECT_EQ(rank("cache-aware"), 1 + 3 / kEta);
  EXPECT_EQ(rank("cache-aware:eta=0.5"), 7);
  for (const char* bad : {"", "fifo", "cache-aware:", "cache-aware:eta=", "cache-aware:eta=0",
                          "cache-aware:eta=1x", "cache-aware:eta=nan", "cache-awareeta=1"}) {
    EXPECT_EQ(make_queue_order(bad, 10).status().message(),
              "\"" + std::string(bad) +
                  "\" is none of fcfs, cache-aware, cache-aware:eta=X with X from 0.001 to 1000");
  }
}

}  // namespace
}  // namespace quire::engine
