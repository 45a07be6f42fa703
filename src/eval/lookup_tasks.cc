#include "eval/lookup_tasks.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "eval/words.h"
#include "quire/check.h"

namespace quire::eval {
namespace {

constexpr std::size_t kGroup = 10;       // records of an inner object
constexpr std::size_t kListedMost = 16;  // keys of a list that grows with every question

// How a form writes.  @ stands for the key, # for the number of a group.
struct Writing {
  const char *head, *foot;              // of the document
  const char *indent, *nested_indent;   // before a record
  const char* between;                  // records, and groups
  const char *group_begin, *group_end;  // around the records of a group
  const char *record, *blank, *end;     // up to the value, before it, behind it
  const char* join;                     // the words of a key; empty: keys are hexadecimal
  std::uint32_t digits, solved;
  const char *nested_head, *solved_head;
};

constexpr std::array<Writing, 7> kWritings = {{
    {"{\n", "\n}", "  ", "    ", ",\n", "  \"group_#\": {\n", "\n  }", "\"@\":", " ", "", "_", 5, 3,
     "{\n", ""},
    {"{", "}", "", "", ",", "\"group_#\":{", "}", "\"@\":", "", "", "_", 5, 3, "{", ""},
    {"<records>\n", "\n</records>", "  ", "    ", "\n", "  <group_#>\n", "\n  </group_#>", "<@>",
     "", "</@>", "_", 5, 3, "<records>\n", ""},
    {"| key | value |\n|---|---|\n", "", "", "| group_# ", "\n", "", "", "| @ |", " ", " |", "_", 5,
     3, "| group | key | value |\n|---|---|---|\n", ""},
    {"Dictionary:\n", "", "", "", "\n", "", "", "@:", " ", "", " ", 4, 2, "", "Lookup:\n"},
    {"A record of lines:\n\n", "", "", "", "\n", "", "", "line @: REGISTER_CONTENT is <", "", ">",
     "-", 5, 0, "", ""},
    {"", "", "", "", "\n", "", "", "@ :", " ", "", "", 8, 0, "", ""},
}};

std::string with(std::string text, char mark, const std::string& word) {
  for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += word.size()) {
    text.replace(at, 1, word);
  }
  return text;
}

struct Record {
  std::string key, value;
};

std::string begin_of(const Writing& writing, const Record& record) {
  return with(writing.record, '@', record.key);
}
std::string end_of(const Writing& writing, const Record& record) {
  return with(writing.end, '@', record.key);
}
std::string text_of(const Writing& writing, const Record& record) {
  return begin_of(writing, record) + writing.blank + record.value + end_of(writing, record);
}

std::string hexadecimal(std::uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(number));
  return text;
}

// The first `count` records of a stream.
std::vector<Record> records_of(const Writing& writing, std::size_t count, const Stream& stream) {
  const Stream keys = stream.of(0), values = stream.of(1);
  const bool words = *writing.join != '\0';
  std::vector<std::size_t> pairs;
  if (words) pairs = drawn(kAdjectives.size() * kAnimals.size(), count, keys);
  std::vector<Record> records;
  std::set<std::string> used;
  for (std::size_t i = 0; i < count; ++i) {
    std::string key = words ? std::string(kAdjectives[pairs[i] / kAnimals.size()]) + writing.join +
                                  std::string(kAnimals[pairs[i] % kAnimals.size()])
                            : hexadecimal(keys.at(i));
    records.push_back({std::move(key), new_number(values, i, writing.digits, used)});
  }
  return records;
}

std::string document_text(const Writing& writing, const std::vector<Record>& records, bool nested) {
  std::string text = nested ? writing.nested_head : writing.head;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const std::string group = std::to_string(i / kGroup + 1);
    if (nested && i % kGroup == 0) text += with(writing.group_begin, '#', group);
    text += nested ? with(writing.nested_indent, '#', group) : writing.indent;
    text += text_of(writing, records[i]);
    const bool last = i + 1 == records.size();
    if (nested && (last || (i + 1) % kGroup == 0)) text += with(writing.group_end, '#', group);
    if (!last) text += writing.between;
  }
  return text + writing.foot;
}

// How many records the document may have: all documents of a stream begin alike, so the most that
// fit are found by doubling and halving.
std::size_t records_that_fit(const Writing& writing, const LookupShape& shape, const Stream& stream,
                             const TokenCount& count) {
  // Numbers of four digits run out before the pairs of words do.
  const std::size_t pairs = kAdjectives.size() * kAnimals.size();
  const std::size_t most = writing.digits < 5 ? pairs / 3 : pairs;
  const auto fits = [&](std::size_t n) {
    const std::string text = document_text(writing, records_of(writing, n, stream), shape.nested);
    return count(text) <= shape.tokens;
  };
  std::size_t low = std::size_t{writing.solved} + 1, high = low * 2;
  while (high < most && fits(high)) low = high, high = std::min(high * 2, most);
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

// A record that is drawn, as a question.
Question question_of(const Writing& writing, Asks asks, const Record& record) {
  if (asks == Asks::kKey)
    return {.prompt = record.value + ":", .answer = " \"" + record.key + "\""};
  return {.prompt = begin_of(writing, record),
          .answer = writing.blank + record.value,
          .after = end_of(writing, record) + "\n"};
}

// Solved ones first, a line each, then those that are asked.
void ask_records(const Writing& writing, const LookupShape& shape,
                 const std::vector<Record>& records, const Stream& stream, Document& document) {
  document.lead += writing.solved_head;
  const std::size_t chosen =
      std::min(records.size(), writing.solved + std::size_t{shape.questions});
  const std::vector<std::size_t> order = drawn(records.size(), chosen, stream);
  for (std::size_t i = 0; i < order.size(); ++i) {
    Question question = question_of(writing, shape.asks, records[order[i]]);
    if (i < writing.solved) {
      document.lead += question.prompt + question.answer + question.after;
    } else {
      document.questions.push_back(std::move(question));
    }
  }
}

// Every question lists one key more.
void ask_keys(const Writing& writing, const LookupShape& shape, const std::vector<Record>& records,
              Document& document) {
  document.lead += "Keys:\n";
  std::string listed;
  const std::size_t most = std::min<std::size_t>(shape.questions, kListedMost);
  for (std::size_t i = 0; i < records.size() && document.questions.size() < most; ++i) {
    if (i < writing.solved) {
      document.lead += records[i].key + "\n";
      continue;
    }
    document.questions.push_back({.prompt = listed, .answer = records[i].key});
    listed += records[i].key + "\n";
  }
}

}  // namespace

Document lookup_document(const LookupShape& shape, const Stream& stream, const TokenCount& count) {
  const Writing& writing = kWritings[static_cast<std::size_t>(shape.form)];
  QUIRE_CHECK(shape.questions >= 1);
  QUIRE_CHECK(!shape.nested || *writing.nested_head != '\0');
  QUIRE_CHECK(shape.asks == Asks::kValue || shape.form == Form::kIndented);
  const std::size_t fitting = records_that_fit(writing, shape, stream, count);
  const std::vector<Record> records = records_of(writing, fitting, stream);
  Document document{.text = document_text(writing, records, shape.nested), .lead = "\n\n"};
  if (shape.asks == Asks::kNextKey) {
    ask_keys(writing, shape, records, document);
  } else {
    ask_records(writing, shape, records, stream.of(2), document);
  }
  return document;
}

}  // namespace quire::eval
