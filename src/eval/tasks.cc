#include "eval/tasks.h"

#include <algorithm>
#include <numeric>

#include "eval/words.h"
#include "quire/check.h"

namespace quire::eval {
namespace {

constexpr std::uint32_t kSolved = 3;         // lookups before the one asked
constexpr std::uint32_t kNestedFields = 10;  // of one inner object

// Five digits, the first not 0: one length for every answer.
std::string number_at(const Stream& stream, std::uint64_t i) {
  return std::to_string(10000 + stream.below(90000, i));
}

// The first `count` of 0 ... n - 1 in random order (Fisher and Yates).
std::vector<std::size_t> drawn(std::size_t n, std::size_t count, const Stream& stream) {
  std::vector<std::size_t> all(n);
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (std::size_t i = 0; i < count; ++i) std::swap(all[i], all[i + stream.below(n - i, i)]);
  all.resize(count);
  return all;
}

bool is_blank(char letter) {
  return letter == ' ' || letter == '\n' || letter == '\t';
}
bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

std::string needle_prompt(const std::string& thing) {
  return "The special magic number for " + thing + " is";
}

struct Field {
  std::string key, value;
  std::string line() const { return "\"" + key + "\": " + value; }
};

std::vector<Field> fields_of(std::size_t count, const Stream& stream) {
  const Stream keys = stream.of(0), values = stream.of(1);
  std::vector<Field> fields;
  for (const std::size_t pair : drawn(kAdjectives.size() * kAnimals.size(), count, keys)) {
    fields.push_back({std::string(kAdjectives[pair / kAnimals.size()]) + "_" +
                          std::string(kAnimals[pair % kAnimals.size()]),
                      number_at(values, fields.size())});
  }
  return fields;
}

std::string object_text(const std::vector<Field>& fields, bool nested) {
  std::string text = "{\n";
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const bool last = i + 1 == fields.size();
    if (!nested) {
      text += "  " + fields[i].line() + (last ? "\n" : ",\n");
      continue;
    }
    const bool closes = last || (i + 1) % kNestedFields == 0;
    if (i % kNestedFields == 0) {
      text += "  \"group_" + std::to_string(i / kNestedFields + 1) + "\": {\n";
    }
    text += "    " + fields[i].line() + (closes ? "\n" : ",\n");
    if (closes) text += last ? "  }\n" : "  },\n";
  }
  return text + "}";
}

}  // namespace

std::vector<std::string> sentences(std::string_view text) {
  std::vector<std::string> found;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool stop = text[i] == '.' || text[i] == '!' || text[i] == '?';
    const bool border = text[i] == '\n' || (stop && i + 1 < text.size() && text[i + 1] == ' ');
    if (!border) continue;
    const std::size_t end = text[i] == '\n' ? i + 1 : i + 2;
    if (end - begin > 1) found.emplace_back(text.substr(begin, end - begin));
    begin = end;
    i = end - 1;
  }
  if (begin < text.size()) found.emplace_back(text.substr(begin));
  return found;
}

Document needle_document(const std::vector<std::string>& filler, std::size_t first,
                         std::size_t tokens, std::uint32_t needles, Stream stream,
                         const TokenCount& count) {
  QUIRE_CHECK(!filler.empty() && needles >= 1 && needles <= kNeedlesMost);
  Document document;
  std::size_t used = 0;
  const Stream numbers = stream.of(1);
  for (const std::size_t thing : drawn(kThings.size(), needles, stream.of(0))) {
    const std::string number = number_at(numbers, document.questions.size());
    document.questions.push_back({needle_prompt(std::string(kThings[thing])), " " + number});
    used += count(document.questions.back().prompt + " " + number + ". ");
  }
  std::vector<std::string> parts;
  for (std::size_t i = first; used < tokens || parts.size() < needles; ++i) {
    parts.push_back(filler[i % filler.size()]);
    used += count(parts.back());
  }
  // One needle in each of as many equal parts, at a random sentence of it.
  std::vector<std::size_t> before;
  for (std::uint32_t n = 0; n < needles; ++n) {
    const std::size_t begin = parts.size() * n / needles, end = parts.size() * (n + 1) / needles;
    before.push_back(begin + stream.of(2).below(end - begin, n));
  }
  for (std::size_t i = 0, next = 0; i < parts.size(); ++i) {
    if (next < before.size() && before[next] == i) {
      const Question& question = document.questions[next++];
      document.text += question.prompt + question.answer + ". ";
    }
    document.text += parts[i];
  }
  while (!document.text.empty() && is_blank(document.text.back())) document.text.pop_back();
  for (Question& question : document.questions) question.prompt.insert(0, "\n\n");
  return document;
}

Document json_document(std::size_t tokens, std::uint32_t questions, bool nested, Stream stream,
                       const TokenCount& count) {
  QUIRE_CHECK(questions >= 1);
  // All documents of a stream begin alike; the longest that fits is found by doubling and halving.
  const std::size_t most = kAdjectives.size() * kAnimals.size();
  const std::size_t least = std::size_t{kSolved} + 1;
  const auto fits = [&](std::size_t n) {
    return count(object_text(fields_of(n, stream), nested)) <= tokens;
  };
  std::size_t low = least, high = least * 2;
  while (high < most && fits(high)) low = high, high = std::min(high * 2, most);
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  const std::vector<Field> fields = fields_of(low, stream);
  Document document{.text = object_text(fields, nested)};
  const std::size_t asked = std::min<std::size_t>(questions, fields.size());
  const std::vector<std::size_t> keys = drawn(fields.size(), asked, stream.of(2));
  for (std::size_t q = 0; q < keys.size(); ++q) {
    std::string prompt = "\n\n";
    std::uint32_t solved = 0;
    for (const std::size_t other : drawn(fields.size(), kSolved + 1, stream.of(3 + q))) {
      if (other == keys[q] || solved == kSolved) continue;
      prompt += fields[other].line() + "\n";
      ++solved;
    }
    document.questions.push_back(
        {prompt + "\"" + fields[keys[q]].key + "\":", " " + fields[keys[q]].value});
  }
  return document;
}

bool answers(const Question& question, std::string_view completion) {
  std::string_view expected = question.answer;
  while (!expected.empty() && is_blank(expected.front())) expected.remove_prefix(1);
  while (!completion.empty() && is_blank(completion.front())) completion.remove_prefix(1);
  if (expected.empty() || !completion.starts_with(expected)) return false;
  return completion.size() == expected.size() || !is_digit(completion[expected.size()]);
}

}  // namespace quire::eval
