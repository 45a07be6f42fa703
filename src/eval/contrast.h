// Two arms of the same inputs, pair by pair: which is better, and how sure that is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "eval/measure.h"
#include "eval/statistics.h"

namespace quire::eval {

// What is compared of a pair.
enum class Compare : std::uint8_t {
  kNats,   // NLL of a text that goes on, log-probability of answers
  kKl,     // the divergence from the full cache
  kRight,  // answers that are right (not of a text that goes on)
};

// Which pairs are looked at; what is not set is taken together.
struct Pairs {
  Task task = Task::kProse;
  View view = View::kBlind;  // of answers
  Compare of = Compare::kNats;
  std::optional<std::uint32_t> block_tokens{};
  std::optional<double> keep{};
};

// By how much the arm of label `better` is better than `other`, the mean over questions or texts:
// above 0 it is.  The interval draws whole documents (seeds), with all their cells.  NaN: there is
// no such pair.
Estimate contrast(const std::vector<InputResult>& results, const std::string& better,
                  const std::string& other, const Pairs& pairs);

// +1: the interval lies above 0; -1: below; 0: neither, or there is none.
int sign_of(const Estimate& estimate);

}  // namespace quire::eval
