#include "eval/inputs.h"

#include <algorithm>

namespace quire::eval {

const char* name_of(Task task) {
  switch (task) {
    case Task::kProse:
      return "prose";
    case Task::kNeedle:
      return "needle";
    case Task::kJson:
      return "json";
  }
  return "";
}

std::optional<Task> parse_task(std::string_view name) {
  for (const Task task : kTasks) {
    if (name == name_of(task)) return task;
  }
  return {};
}

InputMaker::InputMaker(const model::Model& model, std::string_view text,
                       const InputOptions& options)
    : model_(model), options_(options), sentences_(sentences(text)) {
  text_ = tokens_of(text, false);
}

Status InputMaker::check(const std::vector<Task>& tasks, std::uint32_t seeds) const {
  if (sentences_.empty()) return {Code::kInvalidArgument, "the text has no sentence"};
  if (std::ranges::find(tasks, Task::kProse) == tasks.end()) return {};
  const std::size_t each = std::size_t{options_.tokens} + options_.continuation;
  if (each * seeds <= text_.size()) return {};
  return {Code::kInvalidArgument,
          "the text has " + std::to_string(text_.size()) + " tokens; " + std::to_string(seeds) +
              " documents of " + std::to_string(options_.tokens) + " and their continuations of " +
              std::to_string(options_.continuation) + " need " + std::to_string(each * seeds) +
              ": give a longer text, or fewer seeds or tokens"};
}

Asked InputMaker::asked(Question question) const {
  Asked asked;
  const std::vector<model::Token> prompt = tokens_of(question.prompt, false);
  const std::vector<model::Token> all = tokens_of(question.prompt + question.answer, false);
  const auto blank = [&](model::Token token) {
    const std::string piece = model_.piece(token);
    return piece.find_first_not_of(' ') == std::string::npos;
  };
  auto border = std::ranges::mismatch(prompt, all).in2;
  while (border + 1 < all.end() && blank(*border)) ++border;
  asked.prompt.assign(all.begin(), border);
  asked.answer.assign(border, all.end());
  asked.question = std::move(question);
  return asked;
}

Input InputMaker::make(Task task, std::uint32_t seed) const {
  Input input;
  const Stream stream = Stream(seed, name_of(task));
  if (task == Task::kProse) {
    const std::size_t each = std::size_t{options_.tokens} + options_.continuation;
    const auto begin = text_.begin() + static_cast<std::ptrdiff_t>(each * seed);
    // The model's own begin-of-text token, where it wants one, stands for the text before.
    input.document = tokens_of("", true);
    input.document.insert(input.document.end(), begin, begin + options_.tokens);
    input.continuation.assign(begin + options_.tokens, begin + static_cast<std::ptrdiff_t>(each));
    return input;
  }
  const TokenCount count = [&](std::string_view text) { return tokens_of(text, false).size(); };
  Document document;
  if (task == Task::kNeedle) {
    const std::size_t first = stream.below(sentences_.size(), 0);
    document =
        needle_document(sentences_, first, options_.tokens, options_.needles, stream.of(0), count);
  } else {
    document = json_document(options_.tokens, options_.questions, false, stream.of(0), count);
  }
  input.document = tokens_of(document.text, true);
  for (Question& question : document.questions) input.asked.push_back(asked(std::move(question)));
  return input;
}

}  // namespace quire::eval
