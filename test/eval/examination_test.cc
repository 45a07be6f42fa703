// Goal: an arm's answers do not depend on how its rows were read, and a second question is asked of
// what the first one's review left. Method: a made-up model over a real cache; the same input with
// and without a shared beginning; arms that keep everything.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <optional>

#include "engine/fake_model.h"
#include "eval/measure.h"
#include "eval/result_json.h"

namespace quire::eval {
namespace {

class Examine : public testing::Test {
 protected:
  Examine() {
    for (int i = 0; i < 300; ++i) text_ += "a hare met " + std::to_string(i % 89) + " hounds. ";
    const CacheOptions like{
        .layers = test::fake_attention(), .budget_bytes = std::size_t{256} << 20, .max_rows = 512};
    cache_ = *Cache::open(like);
    EXPECT_TRUE(model_.attach(*cache_).ok());
    shadow_ = *Shadow::open(like, 2000);
  }

  Input input(Task task) const {
    const std::vector<Document> none;
    return InputMaker(model_, text_, {.tokens = 500, .needles = 3, .questions = 3}, none)
        .make(task, 1);
  }
  InputResult examined(Task task, const Input& input) {
    const MeasureOptions options{
        .arms = arms_, .second = true, .equal = Equal::kTokens, .recent = recent_};
    const Result<InputResult> result =
        Examiner(model_, *cache_, *shadow_, options).examine(task, 1, input, nullptr, [](auto...) {
        });
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? *result : InputResult{};
  }

  std::string text_;
  test::FakeModel model_;
  std::unique_ptr<Cache> cache_;
  std::optional<Shadow> shadow_;
  std::vector<Arm> arms_ = {{kFull, 1}, {kOracle, 0.3}, {"h2o", 0.3}, {"snapkv:window=16", 0.3}};
  std::optional<std::uint32_t> recent_ = 16;
};

TEST_F(Examine, ASharedBeginningChangesNoBit) {
  Input shared = input(Task::kJson);
  ASSERT_GT(shared.shared, 10u);
  const std::string once = to_json(examined(Task::kJson, shared)).dump();
  shared.shared = 0;
  EXPECT_EQ(to_json(examined(Task::kJson, shared)).dump(), once);
}

TEST_F(Examine, KeepIsAShareOfTheDocumentsTokens) {
  const Input given = input(Task::kNeedle);
  const InputResult result = examined(Task::kNeedle, given);
  const auto tokens = static_cast<double>(given.document.size());
  for (std::size_t a = 1; a < result.arms.size(); ++a) {
    EXPECT_EQ(result.arms[a].entries, std::lround(0.3 * tokens)) << result.arms[a].arm.policy;
    EXPECT_NEAR(result.arms[a].kept_mean, 0.3 * tokens, 1);
    EXPECT_FALSE(result.arms[a].only_protected);
    EXPECT_EQ(result.arms[a].bytes, result.arms[a].target);
  }
  EXPECT_EQ(result.arms[0].bytes, result.full_bytes);
  recent_ = 400;
  for (const ArmResult& arm : examined(Task::kNeedle, given).arms) {
    EXPECT_EQ(arm.only_protected, arm.arm.policy != kFull) << "every arm protects the same";
  }
}

TEST_F(Examine, AllViewsAreMeasuredAndTheFullCacheIsItselfInEach) {
  const InputResult result = examined(Task::kJson, input(Task::kJson));
  for (const ArmResult& arm : result.arms) {
    for (const View view : kViews) {
      const std::vector<QuestionScore>& scores = arm.scores(view);
      ASSERT_EQ(scores.size(), 3u) << arm.arm.policy;
      for (const QuestionScore& score : scores) {
        if (arm.arm.policy == kFull) {
          EXPECT_EQ(score.kl, 0);
          EXPECT_EQ(score.log_p, score.full_log_p);
        } else {
          EXPECT_GT(score.kl, 0) << arm.arm.policy << " " << name_of(view);
        }
      }
    }
  }
  EXPECT_TRUE(examined(Task::kSingle, input(Task::kSingle)).arms[2].second.empty());
}

TEST_F(Examine, QuestionsThatTheFullCacheDoesNotAnswerCanBeLeftOut) {
  Input given = input(Task::kJson);
  model_.words.assign(test::kVocabulary, "x");  // all that this model ever says
  given.asked[1].question.answer = std::string(given.asked[1].answer.size(), 'x');
  const auto run = [&](bool only_right) {
    const MeasureOptions options{.arms = arms_,
                                 .blind = false,
                                 .only_right = only_right,
                                 .equal = Equal::kTokens,
                                 .recent = recent_,
                                 .statistics = true};
    return *Examiner(model_, *cache_, *shadow_, options)
                .examine(Task::kJson, 1, given, nullptr, [](auto...) {});
  };
  const InputResult all = run(false), right = run(true);
  const InputResult restored = *result_of(to_json(right));
  EXPECT_EQ(restored.questions, 3u);
  EXPECT_EQ(all.questions, 3u);
  EXPECT_EQ(right.questions, 3u);
  ASSERT_EQ(all.arms.size(), right.arms.size());
  for (std::size_t a = 0; a < all.arms.size(); ++a) {
    EXPECT_TRUE(all.arms[a].blind.empty());
    std::vector<double> expected, found;
    for (const QuestionScore& score : all.arms[a].aware) {
      if (score.full_right) expected.push_back(score.log_p);
    }
    for (const QuestionScore& score : right.arms[a].aware) {
      EXPECT_TRUE(score.full_right);
      found.push_back(score.log_p);
    }
    ASSERT_EQ(expected.size(), 1u);
    EXPECT_EQ(found, expected) << all.arms[a].arm.policy;
    EXPECT_EQ(right.question_values.size(), expected.size());
  }
  given.asked[1].question.answer = "y";
  const InputResult none = run(true);
  EXPECT_EQ(none.questions, 3u);
  EXPECT_TRUE(none.arms.empty());
}

TEST_F(Examine, ASecondQuestionSeesWhatTheFirstLeft) {
  // By hand: document and first question are read, cut, answered; then the second is read.
  arms_ = {{kFull, 1}, {"sink-recency", 0.3}};
  const Input given = input(Task::kJson);
  const InputResult result = examined(Task::kJson, given);
  Policy policy = *make_policy("sink-recency");
  policy.protect.recent = *recent_;
  const Asked &first = given.asked[0], &second = given.second[0];
  const SequenceId sequence = *cache_->start({});
  const auto append = [&](std::vector<model::Token> tokens, std::uint32_t rows, auto on_row) {
    const model::Chunk chunk{
        .sequence = sequence, .tokens = tokens, .answer = true, .logit_rows = rows};
    const Status status =
        model_.forward({&chunk, 1}, [&](auto, auto, std::span<const float> row) { on_row(row); });
    ASSERT_TRUE(status.ok()) << status.message();
  };
  const auto unseen = [](std::span<const float>) {};
  const auto middle = given.document.begin() + 400;
  append({given.document.begin(), middle}, 0, unseen);
  append({middle, given.document.end()}, 0, unseen);
  append({first.prompt.begin(), first.prompt.end() - 1}, 0, unseen);
  ASSERT_TRUE(cache_->shrink(sequence, policy, result.arms[1].entries).ok());
  std::vector<model::Token> rest = {first.prompt.back()};
  rest.insert(rest.end(), first.answer.begin(), first.answer.end());
  append(rest, 0, unseen);
  std::vector<model::Token> rows = second.prompt;
  rows.insert(rows.end(), second.answer.begin(), second.answer.end() - 1);
  double log_p = 0;
  std::size_t at = 0;
  append(rows, static_cast<std::uint32_t>(second.answer.size()), [&](std::span<const float> row) {
    double sum = 0;
    for (const float logit : row) sum += std::exp(static_cast<double>(logit));
    const auto next = static_cast<std::size_t>(second.answer[at++]);
    log_p += static_cast<double>(row[next]) - std::log(sum);
  });
  ASSERT_EQ(at, second.answer.size());
  EXPECT_NEAR(result.arms[1].second[0].log_p, log_p / static_cast<double>(at), 1e-5);
  EXPECT_TRUE(cache_->drop(sequence).ok());
}

}  // namespace
}  // namespace quire::eval
