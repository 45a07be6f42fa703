// Goal: tokens of an input are the text of its document and questions; the blank before a number is
// the prompt's; what all questions begin with is the same in all. Method: a byte-pair tokenizer
// that has a token of the blank alone; tokens are read back.

#include "eval/inputs.h"

#include <gtest/gtest.h>

#include "model/running.h"
#include "support/tiny_model.h"

namespace quire::eval {
namespace {

std::string prose() {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "a hare met " + std::to_string(i * i % 97) + " hounds. ";
  return text;
}

class Inputs : public testing::Test {
 protected:
  Inputs() {
    EXPECT_TRUE(
        test::write_tiny_model({.architecture = "qwen2", .context = 4096}, weights_.path()));
    Result<std::unique_ptr<model::Model>> model = model::Model::load({.path = weights_.path()});
    EXPECT_TRUE(model.ok()) << model.status().message();
    if (model.ok()) model_ = *std::move(model);
  }

  InputMaker maker() const { return InputMaker(*model_, prose(), options_, data_); }
  std::string text(std::span<const model::Token> tokens) const {
    std::string all;
    for (const model::Token token : tokens) all += model_->piece(token);
    return all;
  }

  const test::TempFile weights_{"inputs.gguf"};
  std::unique_ptr<model::Model> model_;
  InputOptions options_{.tokens = 700, .needles = 5, .questions = 5};
  std::vector<Document> data_;
};

TEST_F(Inputs, TheBlankBeforeANumberBelongsToThePrompt) {
  for (const Task task :
       {Task::kSingle, Task::kNeedle, Task::kJson, Task::kTable, Task::kKeys, Task::kDictionary}) {
    const Input input = maker().make(task, 1);
    ASSERT_FALSE(input.asked.empty());
    for (const Asked& asked : input.asked) {
      EXPECT_EQ(model_->piece(asked.prompt.back()), " ") << name_of(task);
      EXPECT_EQ(" " + text(asked.answer), asked.question.answer) << name_of(task);
    }
  }
  for (const Task task : {Task::kJsonCompact, Task::kXml, Task::kLines}) {
    const Asked asked = maker().make(task, 1).asked[0];
    EXPECT_NE(model_->piece(asked.prompt.back()), " ") << name_of(task);
    EXPECT_EQ(text(asked.answer), asked.question.answer) << name_of(task);
  }
}

TEST_F(Inputs, QuestionsShareTheirBeginningAndASecondGoesOnBehindTheFirst) {
  for (const TaskInfo& info : kTasks) {
    if (continues(info.task) || info.task == Task::kData) continue;
    const Input input = maker().make(info.task, 2);
    const bool one = input.asked.size() == 1;
    EXPECT_EQ(input.second.size(), one ? 0 : input.asked.size()) << info.name;
    const std::string lead = text(std::span(input.asked[0].prompt).first(input.shared));
    for (std::size_t q = 0; q < input.asked.size(); ++q) {
      const Asked& asked = input.asked[q];
      ASSERT_LT(input.shared, asked.prompt.size());
      EXPECT_LE(asked.prompt.size() + asked.answer.size(), kQuestionTokensMost) << info.name;
      const std::string all = text(asked.prompt) + text(asked.answer);
      EXPECT_TRUE(all.starts_with(lead)) << info.name;
      EXPECT_TRUE(all.ends_with(asked.question.prompt + asked.question.answer)) << all;
      if (one) continue;
      const Question& next = input.asked[(q + 1) % input.asked.size()].question;
      EXPECT_EQ(text(input.second[q].prompt) + text(input.second[q].answer),
                asked.question.after + next.prompt + next.answer)
          << info.name;
    }
    // Solved lookups are read once: more than the two line breaks.
    if (info.task == Task::kNested) {
      EXPECT_GT(input.shared, 40u);
    }
  }
}

TEST_F(Inputs, OfADriftTheReturnIsScored) {
  const Input input = maker().make(Task::kDrift, 0);
  ASSERT_GT(input.scored, 0u);
  ASSERT_LT(input.scored, input.continuation.size() / 2);
  const std::span<const model::Token> continuation = input.continuation;
  const std::string before = text(continuation.first(continuation.size() - input.scored));
  EXPECT_TRUE(before.ends_with("From document 1 again:\n")) << before;
  EXPECT_NE(text(input.document).find(text(continuation.last(input.scored))), std::string::npos);
  EXPECT_TRUE(input.asked.empty());
  const Input whole = maker().make(Task::kProse, 0);
  EXPECT_EQ(whole.scored, whole.continuation.size());
}

TEST_F(Inputs, DependOnTheSeedAlone) {
  for (const TaskInfo& info : kTasks) {
    if (info.task == Task::kData) continue;
    EXPECT_EQ(maker().make(info.task, 3).document, maker().make(info.task, 3).document);
    EXPECT_NE(maker().make(info.task, 3).document, maker().make(info.task, 4).document)
        << info.name;
  }
}

TEST_F(Inputs, DataIsAsLongAsItsFileAndWhatDoesNotFitIsNamed) {
  data_ = {{.text = "a b c", .lead = "\n\n", .questions = {{"x is", " 1"}}},
           {.text = "d e f", .lead = "\n\n", .questions = {{std::string(300, 'y'), " 1"}}}};
  EXPECT_EQ(maker().count(Task::kData, 9), 2u);
  EXPECT_EQ(maker().count(Task::kJson, 9), 9u);
  EXPECT_TRUE(maker().check({Task::kData}, 1).ok()) << "the first alone is asked for";
  EXPECT_EQ(text(maker().make(Task::kData, 0).asked[0].prompt), "\n\nx is ");

  const Status question = maker().check({Task::kData}, 2);
  EXPECT_EQ(question.code(), Code::kInvalidArgument);
  EXPECT_EQ(question.message(),
            "document 2 of the data: a question and its answer have 304 tokens; at most 240 are "
            "read");
  data_[0].text = std::string(5000, 'z');
  const Status document = maker().check({Task::kData}, 1);
  EXPECT_NE(document.message().find("document 1 of the data: 50"), std::string::npos)
      << document.message();
  EXPECT_NE(document.message().find("the model's context has 4096"), std::string::npos);
}

TEST_F(Inputs, SizesCoverEveryInput) {
  const std::vector<Task> tasks = {Task::kChain, Task::kDrift, Task::kJson};
  const InputSizes sizes = sizes_of(maker(), tasks, 2);
  for (const Task task : tasks) {
    for (std::uint32_t seed = 0; seed < 2; ++seed) {
      const Input input = maker().make(task, seed);
      EXPECT_LE(input.document.size(), sizes.document);
      EXPECT_LE(input.continuation.size(), sizes.after);
      for (const Asked& asked : input.asked) {
        EXPECT_LE(asked.prompt.size() + asked.answer.size(), sizes.after);
      }
    }
  }
  EXPECT_LT(sizes.document, 800u);
}

}  // namespace
}  // namespace quire::eval
