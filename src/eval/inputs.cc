#include "eval/inputs.h"

#include <algorithm>

#include "eval/lookup_tasks.h"
#include "eval/prose_tasks.h"

namespace quire::eval {
namespace {

constexpr std::uint32_t kDepths = 5;          // of single needles: 0, 25, 50, 75 and 100 %
constexpr std::uint32_t kTokensAChain = 256;  // of a document

struct Lookup {
  Task task;
  Form form;
  bool nested;
  Asks asks = Asks::kValue;
};
constexpr Lookup kLookups[] = {{Task::kKeys, Form::kKeys, false},
                               {Task::kDictionary, Form::kDictionary, false},
                               {Task::kJson, Form::kIndented, false},
                               {Task::kJsonCompact, Form::kCompact, false},
                               {Task::kXml, Form::kXml, false},
                               {Task::kTable, Form::kTable, false},
                               {Task::kNested, Form::kIndented, true},
                               {Task::kNestedCompact, Form::kCompact, true},
                               {Task::kNestedXml, Form::kXml, true},
                               {Task::kNestedTable, Form::kTable, true},
                               {Task::kLines, Form::kLines, false},
                               {Task::kJsonKeys, Form::kIndented, false, Asks::kKey},
                               {Task::kJsonList, Form::kIndented, false, Asks::kNextKey}};

std::uint32_t shared_tokens(const std::vector<Asked>& asked) {
  if (asked.empty()) return 0;
  std::size_t shared = asked[0].prompt.size() - 1;  // a row is left for each question
  for (const Asked& one : asked) {
    const auto border = std::ranges::mismatch(asked[0].prompt, one.prompt).in2;
    shared = std::min(
        {shared, static_cast<std::size_t>(border - one.prompt.begin()), one.prompt.size() - 1});
  }
  return static_cast<std::uint32_t>(shared);
}

}  // namespace

const char* name_of(Task task) {
  return kTasks[static_cast<std::size_t>(task)].name;
}

std::optional<Task> parse_task(std::string_view name) {
  for (const TaskInfo& info : kTasks) {
    if (name == info.name) return info.task;
  }
  return {};
}

InputMaker::InputMaker(const model::Model& model, std::string_view text,
                       const InputOptions& options, const std::vector<Document>& data)
    : model_(model), options_(options), data_(data), sentences_(sentences(text)) {
  text_ = tokens_of(text, false);
}

std::uint32_t InputMaker::count(Task task, std::uint32_t seeds) const {
  if (task != Task::kData) return seeds;
  return std::min(seeds, static_cast<std::uint32_t>(data_.size()));
}

Status InputMaker::check(const std::vector<Task>& tasks, std::uint32_t seeds) const {
  for (const Task task : tasks) {
    const Status status = task == Task::kData    ? check_data(seeds)
                          : task == Task::kProse ? check_prose(seeds)
                          : sentences_.empty()
                              ? Status(Code::kInvalidArgument, "the text has no sentence")
                              : Status();
    if (!status.ok()) return status;
  }
  return {};
}

Status InputMaker::check_prose(std::uint32_t seeds) const {
  const std::size_t each = std::size_t{options_.tokens} + options_.continuation;
  if (each * seeds <= text_.size()) return {};
  return {Code::kInvalidArgument,
          "the text has " + std::to_string(text_.size()) + " tokens; " + std::to_string(seeds) +
              " documents of " + std::to_string(options_.tokens) + " and their continuations of " +
              std::to_string(options_.continuation) + " need " + std::to_string(each * seeds) +
              ": give a longer text, or fewer seeds or tokens"};
}

Status InputMaker::check_data(std::uint32_t seeds) const {
  for (std::uint32_t i = 0; i < count(Task::kData, seeds); ++i) {
    const Input input = make(Task::kData, i);
    std::size_t after = 0;
    for (const std::vector<Asked>* list : {&input.asked, &input.second}) {
      for (const Asked& asked : *list) {
        after = std::max(after, asked.prompt.size() + asked.answer.size());
      }
    }
    const std::string name = "document " + std::to_string(i + 1) + " of the data: ";
    if (after > kQuestionTokensMost) {
      return {Code::kInvalidArgument, name + "a question and its answer have " +
                                          std::to_string(after) + " tokens; at most " +
                                          std::to_string(kQuestionTokensMost) + " are read"};
    }
    const std::size_t all = input.document.size() + 2 * after;
    if (all > model_.info().context) {
      return {Code::kInvalidArgument, name + std::to_string(all) +
                                          " tokens with its questions; the model's context has " +
                                          std::to_string(model_.info().context)};
    }
  }
  return {};
}

// The border between prompt and answer: behind the last token that both have, and behind blanks.
Asked InputMaker::asked(const std::string& before, const Question& question) const {
  const std::string text = before + question.prompt;
  const std::vector<model::Token> prompt = tokens_of(text, false);
  const std::vector<model::Token> all = tokens_of(text + question.answer, false);
  const auto blank = [&](model::Token token) {
    return model_.piece(token).find_first_not_of(' ') == std::string::npos;
  };
  auto border = std::ranges::mismatch(prompt, all).in2;
  while (border + 1 < all.end() && blank(*border)) ++border;
  // A tokenizer that joins the first letter with the answer leaves no row to ask with.
  if (border == all.begin()) return {question, prompt, tokens_of(question.answer, false)};
  return {.question = question, .prompt = {all.begin(), border}, .answer = {border, all.end()}};
}

void InputMaker::ask(const Document& document, Input& input) const {
  const std::vector<Question>& questions = document.questions;
  for (std::size_t q = 0; q < questions.size(); ++q) {
    input.asked.push_back(asked(document.lead, questions[q]));
    if (questions.size() == 1) continue;
    input.second.push_back(asked(questions[q].after, questions[(q + 1) % questions.size()]));
  }
  input.shared = shared_tokens(input.asked);
}

Input InputMaker::prose(std::uint32_t seed) const {
  const std::size_t each = std::size_t{options_.tokens} + options_.continuation;
  const auto begin = text_.begin() + static_cast<std::ptrdiff_t>(each * seed);
  // The model's own begin-of-text token, where it wants one, stands for the text before.
  Input input{.document = tokens_of("", true), .scored = options_.continuation};
  input.document.insert(input.document.end(), begin, begin + options_.tokens);
  input.continuation.assign(begin + options_.tokens, begin + static_cast<std::ptrdiff_t>(each));
  return input;
}

Document InputMaker::document(Task task, std::uint32_t seed) const {
  const Stream stream = Stream(seed, name_of(task));
  const TokenCount count = [&](std::string_view text) { return tokens_of(text, false).size(); };
  for (const Lookup& lookup : kLookups) {
    if (lookup.task != task) continue;
    return lookup_document(
        {lookup.form, lookup.nested, options_.tokens, options_.questions, lookup.asks},
        stream.of(0), count);
  }
  const Prose filler{sentences_, stream.below(sentences_.size(), 0), options_.tokens, count,
                     options_.digits};
  if (task == Task::kDrift) return drift_document(filler);
  if (task == Task::kChain) {
    const std::uint32_t chains = std::clamp(options_.tokens / kTokensAChain, 2u, kChainsMost);
    return chain_document(filler, chains, stream.of(0));
  }
  if (task == Task::kSingle) {
    const double depth = static_cast<double>(seed % kDepths) / (kDepths - 1);
    return needle_document(filler, 1, depth, stream.of(0));
  }
  return needle_document(filler, options_.needles, {}, stream.of(0));
}

Input InputMaker::make(Task task, std::uint32_t seed) const {
  if (task == Task::kProse) return prose(seed);
  const Document made = task == Task::kData ? data_[seed] : document(task, seed);
  Input input{.document = tokens_of(made.text, true)};
  if (!continues(task)) {
    ask(made, input);
    return input;
  }
  input.continuation = tokens_of(made.continuation, false);
  const std::vector<model::Token> scored = tokens_of(made.scored, false);
  input.continuation.insert(input.continuation.end(), scored.begin(), scored.end());
  input.scored = static_cast<std::uint32_t>(scored.size());
  return input;
}

InputSizes sizes_of(const InputMaker& maker, const std::vector<Task>& tasks, std::uint32_t seeds) {
  InputSizes most;
  for (const Task task : tasks) {
    for (std::uint32_t seed = 0; seed < maker.count(task, seeds); ++seed) {
      const Input input = maker.make(task, seed);
      std::size_t after = input.continuation.size();
      for (std::size_t q = 0; q < input.asked.size(); ++q) {
        std::size_t one = input.asked[q].prompt.size() + input.asked[q].answer.size();
        if (q < input.second.size()) {
          one += input.second[q].prompt.size() + input.second[q].answer.size();
        }
        after = std::max(after, one);
      }
      most.document = std::max(most.document, static_cast<std::uint32_t>(input.document.size()));
      most.after = std::max(most.after, static_cast<std::uint32_t>(after));
    }
  }
  return most;
}

}  // namespace quire::eval
