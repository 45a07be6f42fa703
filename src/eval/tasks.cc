#include "eval/tasks.h"

#include <numeric>

namespace quire::eval {
namespace {

bool is_blank(char letter) {
  return letter == ' ' || letter == '\n' || letter == '\t';
}
bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}
bool is_letter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
}

// Whether `next` makes another word of one that ends with `last`.
bool goes_on(char last, char next) {
  if (is_digit(last)) return is_digit(next);
  return is_letter(last) && (is_letter(next) || is_digit(next));
}

}  // namespace

bool answers(const Question& question, std::string_view completion) {
  std::string_view expected = question.answer;
  while (!expected.empty() && is_blank(expected.front())) expected.remove_prefix(1);
  while (!completion.empty() && is_blank(completion.front())) completion.remove_prefix(1);
  if (expected.empty() || !completion.starts_with(expected)) return false;
  return completion.size() == expected.size() ||
         !goes_on(expected.back(), completion[expected.size()]);
}

std::string new_number(const Stream& stream, std::uint64_t i, std::uint32_t digits,
                       std::set<std::string>& used) {
  std::uint64_t least = 1;
  for (std::uint32_t d = 1; d < digits; ++d) least *= 10;
  const Stream own = stream.of(i);
  for (std::uint64_t attempt = 0;; ++attempt) {
    std::string number = std::to_string(least + own.below(9 * least, attempt));
    if (used.insert(number).second) return number;
  }
}

std::vector<std::size_t> drawn(std::size_t n, std::size_t count, const Stream& stream) {
  std::vector<std::size_t> all(n);
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (std::size_t i = 0; i < count; ++i) std::swap(all[i], all[i + stream.below(n - i, i)]);
  all.resize(count);
  return all;
}

}  // namespace quire::eval
