// How fast sequences decode together once a policy has cut them, reviews included, where memory is
// ample: what fewer entries save in attention, less what reviews cost.
//
// Keys and values before the cut are random numbers, put into the cache without a forward pass:
// times depend on where entries lie and how many there are, not on what they say.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "eval/log.h"
#include "model/model.h"

namespace quire::eval {

struct RateOptions {
  std::vector<std::string> policies;  // specs of make_policy; the full cache always runs
  std::vector<std::uint32_t> keeps;   // entries a lane after each review
  std::vector<std::uint32_t> blocks;  // tokens of a block
  std::uint32_t depth = 4608, sequences = 4;
  std::uint32_t steps = 32;  // timed; a review of every sequence each `block` steps
  std::uint32_t rounds = 2;  // each of all rows, one after the other
  std::string log_path;      // as of the other evaluations; empty: none
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(double share, const std::string& doing)> on_progress{};
};

struct RateCell {
  std::string policy;
  std::uint32_t block_tokens = 16, keep = 0;  // keep: entries; of the full cache its depth
  std::vector<double> tok_s{};                // a round each, all sequences together
  double bytes = 0, blocks = 0;               // of a sequence after the cut, the last round's
  double review_share = 0;                    // of the time of the steps, likewise
};

// The model is left without a cache.  kUnsupported: a model with window layers.
Result<std::vector<RateCell>> measure_decode_rates(model::Model& model, const CacheOptions& like,
                                                   const RateOptions& options);

}  // namespace quire::eval
