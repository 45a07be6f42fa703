// Goal: a failed QUIRE_CHECK ends the process with one line, or as the hook wants, and never goes
//   on; every Code has a name of its own.
// Method: death tests with the default hook, a hook that exits, and one that wrongly returns.
#include "quire/check.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>

#include "quire/status.h"

namespace quire {
namespace {

TEST(CheckDeathTest, DefaultPrintsConditionFileAndLineAndAborts) {
  QUIRE_CHECK(1 + 1 == 2);
  EXPECT_EXIT(QUIRE_CHECK(1 + 1 == 3), ::testing::KilledBySignal(SIGABRT),
              "^[^\n]*check_test.cc:[0-9]+: QUIRE_CHECK failed: 1 \\+ 1 == 3\n$");
}

TEST(CheckDeathTest, HookReplacesTheDefaultAndNullRestoresIt) {
  const auto with_hook = [] {
    set_check_hook([](const char* condition, const char*, int) {
      std::fprintf(stderr, "hook: %s\n", condition);
      std::_Exit(7);
    });
    QUIRE_CHECK(!"seen");
  };
  EXPECT_EXIT(with_hook(), ::testing::ExitedWithCode(7), "hook: !\"seen\"");
  const auto restored = [] {
    set_check_hook([](const char*, const char*, int) { std::_Exit(7); });
    set_check_hook(nullptr);
    QUIRE_CHECK(!"seen");
  };
  EXPECT_EXIT(restored(), ::testing::KilledBySignal(SIGABRT), "QUIRE_CHECK failed");
}

TEST(CheckDeathTest, AHookThatReturnsStillEndsTheProcess) {
  const auto returns = [] {
    set_check_hook([](const char*, const char*, int) {});
    QUIRE_CHECK(!"seen");
    std::_Exit(0);
  };
  EXPECT_EXIT(returns(), ::testing::KilledBySignal(SIGABRT), "");
}

TEST(StatusTest, EveryCodeHasItsOwnName) {
  std::set<std::string> names;
  for (int code = 0; code <= static_cast<int>(Code::kNumeric); ++code) {
    EXPECT_TRUE(names.insert(name_of(static_cast<Code>(code))).second) << code;
  }
  EXPECT_EQ(names.count("ok"), 1u);
}

TEST(StatusTest, ResultHoldsAValueOrARefusal) {
  Result<int> value(7);
  EXPECT_TRUE(value.ok());
  EXPECT_EQ(*value, 7);
  const Result<int> refusal(Status(Code::kNotFound, "no such thing"));
  EXPECT_FALSE(refusal.ok());
  EXPECT_EQ(refusal.status().code(), Code::kNotFound);
  EXPECT_EQ(refusal.status().message(), "no such thing");
  EXPECT_DEATH(static_cast<void>(*refusal), "QUIRE_CHECK failed");
  // Ok without a value.
  EXPECT_DEATH(static_cast<void>(Result<int>{Status{}}), "QUIRE_CHECK failed");
}

}  // namespace
}  // namespace quire
