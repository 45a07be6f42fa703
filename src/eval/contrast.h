// Two arms of the same inputs, pair by pair: which is better, and how sure that is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "eval/measure.h"
#include "eval/statistics.h"

namespace quire::eval {

// Which pairs are looked at; what is not set is taken together.
struct Pairs {
  Task task = Task::kProse;  // prose: NLL of its rows; else log-probability of blind answers
  bool kl = false;           // the divergence from the full cache instead
  std::optional<std::uint32_t> block_tokens{};
  std::optional<double> keep{};
};

// Nats by which `better` is better than `other`, the mean over documents: above 0 it is.  The
// interval draws whole documents (seeds), with all their cells.  NaN: there is no such pair.
Estimate contrast(const std::vector<InputResult>& results, const std::string& better,
                  const std::string& other, const Pairs& pairs);

// +1: the interval lies above 0; -1: below; 0: neither, or there is none.
int sign_of(const Estimate& estimate);

}  // namespace quire::eval
