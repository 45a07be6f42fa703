// Documents with questions, made from a seed or brought by a user.  The formats of those that are
// made are such that models of 135 M parameters can do them with a full cache; a question in words
// they cannot answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "eval/random.h"

namespace quire::eval {

// Read behind the document and its lead; the model should go on with `answer`.
struct Question {
  std::string prompt, answer;
  std::string after = "\n";  // what stands between the answer and another question
};

struct Document {
  std::string text;
  std::string lead;  // before every question: solved ones, mostly; read once for all of them
  std::vector<Question> questions;
  // Instead of questions: what follows, of which only `scored` is measured.
  std::string continuation{}, scored{};
};

using TokenCount = std::function<std::size_t(std::string_view)>;

// Whether a completion begins with the answer: blanks, the answer, and not another digit (letter
// or digit) behind its last digit (letter).
bool answers(const Question& question, std::string_view completion);

// A number of so many digits, the first not 0, that is not in `used`, to which it is added: one
// length for every answer, and none of them twice.  REQUIRES: used is far from full.
std::string new_number(const Stream& stream, std::uint64_t i, std::uint32_t digits,
                       std::set<std::string>& used);

// The first `count` of 0 ... n - 1 in random order (Fisher and Yates).
std::vector<std::size_t> drawn(std::size_t n, std::size_t count, const Stream& stream);

}  // namespace quire::eval
