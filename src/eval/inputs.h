// Inputs: the documents of a task as tokens of one model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eval/tasks.h"
#include "model/model.h"

namespace quire::eval {

enum class Task : std::uint8_t { kProse, kNeedle, kJson };
inline constexpr Task kTasks[] = {Task::kProse, Task::kNeedle, Task::kJson};
const char* name_of(Task task);
std::optional<Task> parse_task(std::string_view name);

// A question whose answer is teacher-forced.  A blank that the tokenizer writes before the number
// is part of the prompt: else no row of a policy's window would look for the digits.
struct Asked {
  Question question;
  std::vector<model::Token> prompt, answer;
};

struct Input {
  std::vector<model::Token> document, continuation;  // continuation: prose only
  std::vector<Asked> asked;                          // the other tasks
};

struct InputOptions {
  std::uint32_t tokens = 1024;       // of a document, about (prose: exactly)
  std::uint32_t continuation = 128;  // tokens of prose after it
  std::uint32_t needles = 4;
  std::uint32_t questions = 8;  // of a JSON document
};

class InputMaker {
 public:
  InputMaker(const model::Model& model, std::string_view text, const InputOptions& options);

  // Documents of prose never overlap; the text must be long enough for `seeds` of them
  // (kInvalidArgument, with the numbers).
  Status check(const std::vector<Task>& tasks, std::uint32_t seeds) const;
  Input make(Task task, std::uint32_t seed) const;

 private:
  std::vector<model::Token> tokens_of(std::string_view text, bool first) const {
    return model_.tokenize(text, first, false);
  }
  Asked asked(Question question) const;

  const model::Model& model_;
  const InputOptions options_;
  std::vector<model::Token> text_;
  std::vector<std::string> sentences_;
};

}  // namespace quire::eval
