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

// In the order of reports.
enum class Task : std::uint8_t {
  kProse,
  kDrift,
  kSingle,
  kNeedle,
  kKeys,
  kDictionary,
  kJson,
  kJsonCompact,
  kXml,
  kTable,
  kNested,
  kNestedCompact,
  kNestedXml,
  kNestedTable,
  kLines,
  kChain,
  kJsonKeys,
  kJsonList,
  kData,
};

struct TaskInfo {
  Task task;
  const char* name;
  const char* about;  // for people, a line
};
// Every task, in the order of the enum; the last is the one that a user brings.
inline constexpr TaskInfo kTasks[] = {
    {Task::kProse, "prose", "prose to continue"},
    {Task::kDrift, "drift", "three documents, quoted in turn, then the first again"},
    {Task::kSingle, "single", "one number in prose, at a depth by seed"},
    {Task::kNeedle, "needle", "several numbers in prose"},
    {Task::kKeys, "keys", "numbers under near-identical keys: the capacity-bound class"},
    {Task::kDictionary, "dictionary", "numbers under two words"},
    {Task::kJson, "json", "fields of a JSON object, indented"},
    {Task::kJsonCompact, "json-compact", "fields of a JSON object on one line"},
    {Task::kXml, "xml", "elements of XML"},
    {Task::kTable, "table", "rows of a markdown table"},
    {Task::kNested, "nested", "fields of nested JSON, indented"},
    {Task::kNestedCompact, "nested-compact", "fields of nested JSON on one line"},
    {Task::kNestedXml, "nested-xml", "elements of nested XML"},
    {Task::kNestedTable, "nested-table", "rows of a markdown table with groups"},
    {Task::kLines, "lines", "long lines with a number each (LongChat)"},
    {Task::kChain, "chain", "variables that lead to a number (RULER's variable tracking)"},
    {Task::kJsonKeys, "json-keys", "which key of a JSON object has a number"},
    {Task::kJsonList, "json-list", "the keys of a JSON object, one after the other"},
    {Task::kData, "data", "the questions of a file"},
};
// One of each kind: what evaluations compare that are not about tasks.
inline constexpr Task kBasicTasks[] = {Task::kProse, Task::kNeedle, Task::kJson};
const char* name_of(Task task);
std::optional<Task> parse_task(std::string_view name);
// Tasks that go on with a text instead of answering questions.
constexpr bool continues(Task task) {
  return task == Task::kProse || task == Task::kDrift;
}

// A question whose answer is teacher-forced.  A blank that the tokenizer writes before the number
// is part of the prompt: else no row of a policy's window would look for the digits.
struct Asked {
  Question question;
  std::vector<model::Token> prompt, answer;
};

struct Input {
  std::vector<model::Token> document;
  std::vector<model::Token> continuation;  // tasks that continue()
  std::uint32_t scored = 0;                // the last so many of it are measured
  std::vector<Asked> asked;                // the other tasks
  std::uint32_t shared = 0;                // first tokens of every asked prompt, the same in all
  std::vector<Asked> second;  // [i]: the question after asked[i], as a text that goes on behind its
                              // answer; empty where there is one question only
};

struct InputOptions {
  std::uint32_t tokens = 1024;       // of a document, about (prose: exactly)
  std::uint32_t continuation = 128;  // tokens of prose after it
  std::uint32_t needles = 4;
  std::uint32_t digits = 5;     // of a needle's number
  std::uint32_t questions = 8;  // of a lookup
};

// Of a question with its lead and answer, at most: those of a user's file are looked at.
inline constexpr std::uint32_t kQuestionTokensMost = 240;

class InputMaker {
 public:
  // `data`: Task::kData's documents, borrowed.
  InputMaker(const model::Model& model, std::string_view text, const InputOptions& options,
             const std::vector<Document>& data);

  // How many inputs there are of a task, where `seeds` are asked for.
  std::uint32_t count(Task task, std::uint32_t seeds) const;
  // kInvalidArgument, with the numbers: the text is too short for `seeds` documents of prose, which
  // never overlap; a document of the data is longer than the model's context, or a question than
  // kQuestionTokensMost.
  Status check(const std::vector<Task>& tasks, std::uint32_t seeds) const;
  // REQUIRES: seed < count().
  Input make(Task task, std::uint32_t seed) const;

 private:
  std::vector<model::Token> tokens_of(std::string_view text, bool first) const {
    return model_.tokenize(text, first, false);
  }
  Status check_prose(std::uint32_t seeds) const;
  Status check_data(std::uint32_t seeds) const;
  Document document(Task task, std::uint32_t seed) const;
  Input prose(std::uint32_t seed) const;
  Asked asked(const std::string& before, const Question& question) const;
  void ask(const Document& document, Input& input) const;

  const model::Model& model_;
  const InputOptions options_;
  const std::vector<Document>& data_;
  std::vector<model::Token> text_;
  std::vector<std::string> sentences_;
};

// Tokens that inputs of these tasks have at most: of a document, and of what follows it.
struct InputSizes {
  std::uint32_t document = 0, after = 0;
};
InputSizes sizes_of(const InputMaker& maker, const std::vector<Task>& tasks, std::uint32_t seeds);

}  // namespace quire::eval
