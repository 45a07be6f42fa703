// Goal: a gated result is a selection: every score is the arm's own or the full cache's, as the
// gate decided. Method: scores written by hand.

#include "eval/gates.h"

#include <gtest/gtest.h>

namespace quire::eval {
namespace {

constexpr QuestionScore kHarmed{
    .right = false, .full_right = true, .log_p = -3, .full_log_p = -1, .kl = 2};
constexpr QuestionScore kKept{
    .right = true, .full_right = true, .log_p = -2, .full_log_p = -1, .kl = 1};
constexpr QuestionScore kNeither{
    .right = false, .full_right = false, .log_p = -4, .full_log_p = -5, .kl = 1};

InputResult input_of(std::uint32_t seed) {
  ArmResult full{.arm = {kFull, 1}}, arm{.arm = {"h2o", 0.25}};
  arm.blind = {kKept, kHarmed};
  arm.aware = {kKept, kHarmed, kNeither};
  arm.second = {kHarmed, kHarmed, kKept};
  return {.task = Task::kJson, .seed = seed, .arms = {full, arm}};
}

ArmResult through(const char* gate, const InputResult& input) {
  return gated(input, input.arms[1], *make_gate(gate));
}

void expect_closed(const QuestionScore& score, const QuestionScore& plain) {
  EXPECT_FALSE(score.open);
  EXPECT_EQ(score.right, plain.full_right);
  EXPECT_EQ(score.log_p, plain.full_log_p);
  EXPECT_EQ(score.kl, 0);
}

TEST(Gates, OpenChangesNothingAndClosedGivesTheFullCache) {
  const InputResult input = input_of(1);
  const ArmResult open = through("open", input), closed = through("closed", input);
  EXPECT_EQ(open.arm.gate, "open");
  EXPECT_EQ(open.arm.label(), "h2o");
  EXPECT_EQ(closed.arm.label(), "h2o (closed)");
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(open.aware[i].open);
    EXPECT_EQ(open.aware[i].log_p, input.arms[1].aware[i].log_p);
    expect_closed(closed.aware[i], input.arms[1].aware[i]);
    expect_closed(closed.second[i], input.arms[1].second[i]);
  }
}

TEST(Gates, TheOracleClosesWhereTheArmTakesAnAnswer) {
  const InputResult input = input_of(1);
  const ArmResult arm = through("oracle", input);
  EXPECT_TRUE(arm.aware[0].open);
  expect_closed(arm.aware[1], kHarmed);
  EXPECT_TRUE(arm.aware[2].open) << "there was nothing to take";
  EXPECT_TRUE(arm.second[0].open) << "harmed, but its first question was not";
  expect_closed(arm.second[1], kHarmed);
  // One decision for all questions of a document that is cut before they are known.
  expect_closed(arm.blind[0], kKept);
  expect_closed(arm.blind[1], kHarmed);
}

TEST(Gates, RandomOnesOpenTheirShareWhateverTheArm) {
  std::size_t open = 0, all = 0;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    InputResult input = input_of(seed);
    const ArmResult arm = through("random:30%", input);
    for (const QuestionScore& score : arm.aware) open += score.open ? 1 : 0;
    all += arm.aware.size();
    EXPECT_EQ(arm.blind[0].open, arm.blind[1].open);
    input.arms[1].arm = {"knorm", 0.5};
    const ArmResult other = through("random:30%", input);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(other.aware[i].open, arm.aware[i].open);
  }
  EXPECT_NEAR(static_cast<double>(open) / static_cast<double>(all), 0.3, 0.04);
}

TEST(Gates, TextThatGoesOnHasOneDecision) {
  InputResult input{.task = Task::kProse, .arms = {{.arm = {"h2o", 0.25}}}};
  input.arms[0].prose = {.nll = 3, .full_nll = 2, .kl = 1, .same_top = 0.5, .rows = 10};
  const ArmResult closed = gated(input, input.arms[0], *make_gate("closed"));
  EXPECT_FALSE(closed.prose.open);
  EXPECT_EQ(closed.prose.nll, 2);
  EXPECT_EQ(closed.prose.kl, 0);
  EXPECT_EQ(closed.prose.same_top, 1);
  EXPECT_TRUE(gated(input, input.arms[0], *make_gate("oracle")).prose.open);
}

TEST(Gates, EveryArmButTheFullCacheStandsBehindEach) {
  std::vector<InputResult> results = {input_of(1), input_of(2)};
  apply_gates({*make_gate("open"), *make_gate("closed")}, results);
  for (const InputResult& input : results) {
    ASSERT_EQ(input.arms.size(), 3u);
    EXPECT_EQ(input.arms[0].arm.label(), "full");
    EXPECT_EQ(input.arms[1].arm.label(), "h2o");
    EXPECT_EQ(input.arms[2].arm.label(), "h2o (closed)");
  }
}

TEST(Gates, UnknownOnesAreRefused) {
  for (const char* name : {"", "shut", "random", "random:", "random:%", "random:120%", "random:-1%",
                           "random:5", "random:5x%"}) {
    EXPECT_EQ(make_gate(name).status().code(), Code::kInvalidArgument) << name;
  }
  EXPECT_TRUE(make_gate("random:0%").ok());
  EXPECT_TRUE(make_gate("random:100%").ok());
}

}  // namespace
}  // namespace quire::eval
