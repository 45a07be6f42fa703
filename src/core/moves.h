// Repack plans in flight: which entries go where.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/geometry.h"
#include "core/sequence.h"
#include "quire/types.h"

namespace quire {

// A run of neighbouring blocks of a lane on its way into fewer.
struct MovePlan {
  LanePlace at;
  Position first = 0;                 // of the first entry
  std::vector<SequenceId> views;      // that read the blocks, all alike when planned
  std::vector<Row> sources;           // as they were then
  std::vector<std::uint64_t> wanted;  // [source] those of its entries that a view still reads
  std::vector<Row> targets;           // packs, filled in order
  bool copied = false;                // every entry that is wanted

  void clear() {
    views.clear();
    sources.clear();
    wanted.clear();
    targets.clear();
    copied = false;
  }

  // Calls f(source, bits of its slots, target, slot) for the pieces of the sources, ascending: a
  // piece's entries, those that were live when planned, go to the slots from the given one on.
  template <typename F>
  void for_each_piece(F f) const {
    std::uint32_t target = 0, slot = 0;
    for (std::uint32_t s = 0; s < sources.size(); ++s) {
      for (std::uint64_t rest = sources[s].live; rest != 0;) {
        const auto size = static_cast<std::uint32_t>(std::popcount(targets[target].live));
        std::uint64_t later = rest;  // what the target has no slot for
        for (std::uint32_t i = slot; i < size && later != 0; ++i) later &= later - 1;
        f(s, rest & ~later, target, slot);
        slot += static_cast<std::uint32_t>(std::popcount(rest & ~later));
        rest = later;
        if (slot < size) continue;
        ++target;
        slot = 0;
      }
    }
  }
  // Calls f(source, slot, target, slot) for every entry of the pieces.
  template <typename F>
  void for_each_move(F f) const {
    for_each_piece([&](std::uint32_t s, std::uint64_t bits, std::uint32_t t, std::uint32_t to) {
      for (; bits != 0; bits &= bits - 1) {
        f(s, static_cast<std::uint32_t>(std::countr_zero(bits)), t, to++);
      }
    });
  }
};

// Keeps the memory of finished plans for the next: at most as many are ever in flight as fit into
// the bytes that one step may copy.
class Moves {
 public:
  std::span<MovePlan> all() { return {plans_.data(), count_}; }
  std::span<const MovePlan> all() const { return {plans_.data(), count_}; }
  MovePlan& add() {
    if (count_ == plans_.size()) plans_.emplace_back();
    plans_[count_].clear();
    return plans_[count_++];
  }
  void pop() { --count_; }
  // Removes the plans for which gone(plan); the others keep their order.
  template <typename F>
  void remove_if(F gone) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      if (gone(plans_[i])) continue;
      if (kept != i) std::swap(plans_[kept], plans_[i]);
      ++kept;
    }
    count_ = kept;
  }

 private:
  std::vector<MovePlan> plans_;
  std::size_t count_ = 0;
};

}  // namespace quire
