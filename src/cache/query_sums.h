// Statistics of the prompt's queries, for policies that ask what later ones are expected to find
// (Needs::future): of every query head of the full-attention layers, before its rotation.
//
// The cache sees queries after their rotation, so they are turned back by their positions.  A
// head's rows of a step are added in order by one thread, so that neither chunks nor threads nor
// neighbours change a bit of the sums, which are floats: Sequence::queries, layout by kernels.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/scratch.h"
#include "cache/work.h"
#include "kernels/kernels.h"
#include "quire/cache.h"

namespace quire {

class QuerySums {
 public:
  explicit QuerySums(std::span<const LayerShape> layers);

  // More statistics of a sequence are refused: 8 GiB.
  static constexpr std::uint64_t kFloatsMost = std::uint64_t{1} << 31;

  std::uint64_t floats() const { return floats_; }  // of a sequence
  // Where a head's statistics begin in Sequence::queries; of full-attention layers.
  std::uint32_t offset(std::uint32_t layer, std::uint32_t query_head) const {
    const LayerShape& shape = layers_[layer];
    return offset_[layer] + query_head * kernels::query_floats(shape.key_size);
  }
  // Copies a head's statistics, [kernels::query_floats()].
  void read(const Sequence& sequence, std::uint32_t layer, std::uint32_t query_head,
            float* to) const;

  // Rows [query_begin, rows) of the segments are to be added.  After the tables grew for them.
  void open(std::span<const StepSegment> segments);
  // Adds rows of the layer, q as attend() gets it; by any threads at once, until none are left.
  void add(std::uint32_t layer, const float* q, const kernels::Kernels& kernels, Scratch& scratch);
  // What the running step added was never there; sequences that had no statistics before it have
  // none again.
  void restore() const;

 private:
  struct Added {
    const StepSegment* segment;
    std::size_t first_turn;  // of its rows among all that are added
  };
  void make_turns();

  std::span<const LayerShape> layers_;
  std::vector<std::uint32_t> offset_;      // [layer]
  std::vector<std::uint32_t> turn_layer_;  // [layer] the first layer with the same rotation
  std::uint64_t floats_ = 0;

  // Of the running step.
  std::vector<Added> added_;
  std::size_t rows_ = 0;                                 // over all of added_
  std::vector<float> turns_;                             // [rotation][row][2][key_size]
  std::vector<std::size_t> first_float_;                 // [layer] of its rotation in turns_
  std::unique_ptr<std::atomic<std::uint32_t>[]> taken_;  // [layer]
  std::unique_ptr<float[]> kept_;                        // [added][floats_]: what was there before
  std::size_t kept_floats_ = 0;
};

}  // namespace quire
