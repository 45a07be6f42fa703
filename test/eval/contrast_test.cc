// Goal: pairs of arms are those of one input and one share, differences have the right sign, and
// intervals draw documents. Method: results written by hand.

#include "eval/contrast.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quire::eval {
namespace {

ArmResult prose_arm(const char* policy, double keep, double nll) {
  ArmResult arm{.arm = {.policy = policy, .keep = keep}};
  arm.prose = {.nll = nll, .kl = nll / 10, .rows = 10};
  return arm;
}

// Document `seed`: "good" is better than "bad" by 0.1 x (seed + 1) at .5 and by 1 at .25.
InputResult prose(std::uint32_t seed, std::uint32_t block_tokens) {
  const double by = 0.1 * (seed + 1);
  InputResult input{.task = Task::kProse, .seed = seed, .block_tokens = block_tokens};
  input.arms = {prose_arm("full", 1, 1), prose_arm("good", 0.5, 2), prose_arm("good", 0.25, 3),
                prose_arm("bad", 0.5, 2 + by), prose_arm("bad", 0.25, 4)};
  return input;
}

TEST(Contrast, PairsShareAnInputAndABudget) {
  const std::vector<InputResult> results = {prose(0, 8), prose(1, 8), prose(2, 8), prose(0, 16)};
  const Estimate half = contrast(results, "good", "bad", {.keep = 0.5});
  EXPECT_NEAR(half.value, (0.1 + 0.2 + 0.3 + 0.1) / 4, 1e-12);
  EXPECT_EQ(half.clusters, 3u) << "a document's block sizes belong together";
  EXPECT_EQ(half.items, 4u);
  EXPECT_EQ(sign_of(half), 1);
  EXPECT_EQ(sign_of(contrast(results, "bad", "good", {.keep = 0.5})), -1);
  EXPECT_NEAR(contrast(results, "good", "bad", {.block_tokens = 16}).value, (0.1 + 1) / 2, 1e-12);
  EXPECT_NEAR(contrast(results, "good", "full", {.block_tokens = 16}).value, -(1 + 2) / 2.0, 1e-12)
      << "the full cache stands beside every budget";
}

TEST(Contrast, DivergenceCanBeComparedInstead) {
  const std::vector<InputResult> results = {prose(0, 8), prose(1, 8)};
  EXPECT_NEAR(contrast(results, "good", "bad", {.of = Compare::kKl, .keep = 0.5}).value, 0.015,
              1e-12);
}

TEST(Contrast, AnswersAreComparedQuestionByQuestion) {
  InputResult input{.task = Task::kNeedle, .seed = 3};
  input.arms = {{.arm = {.policy = "good", .keep = 0.5}}, {.arm = {.policy = "bad", .keep = 0.5}}};
  input.arms[0].blind = {{.log_p = -1}, {.log_p = -2}};
  input.arms[1].blind = {{.log_p = -3}, {.log_p = -2}};
  const Estimate found = contrast({input}, "good", "bad", {.task = Task::kNeedle});
  EXPECT_NEAR(found.value, 1, 1e-12);
  EXPECT_EQ(found.items, 2u);
  EXPECT_EQ(sign_of(found), 0) << "of one document nothing is known about others";
}

TEST(Contrast, RightAnswersOfAnyViewAreCompared) {
  InputResult input{.task = Task::kNeedle, .seed = 3};
  input.arms = {{.arm = {"good", 0.5}}, {.arm = {"bad", 0.5}}, {.arm = {"bad", 0.5, kOpen, "p"}}};
  input.arms[0].aware = {{.right = true}, {.right = true}};
  input.arms[1].aware = {{.right = true}, {.right = false}};
  input.arms[2].aware = {{.right = false}, {.right = false}};
  const Pairs pairs{.task = Task::kNeedle, .view = View::kAware, .of = Compare::kRight};
  EXPECT_NEAR(contrast({input}, "good", "bad", pairs).value, 0.5, 1e-12);
  EXPECT_NEAR(contrast({input}, "good", "bad [p]", pairs).value, 1, 1e-12) << "other labels";
  EXPECT_EQ(contrast({input}, "good", "bad", {.task = Task::kNeedle}).items, 0u) << "none is blind";
}

TEST(Contrast, WithoutPairsThereIsNoValueAndNoSign) {
  const Estimate none = contrast({prose(0, 8)}, "good", "missing", {});
  EXPECT_TRUE(std::isnan(none.value));
  EXPECT_EQ(sign_of(none), 0);
}

}  // namespace
}  // namespace quire::eval
