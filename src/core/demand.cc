#include "core/demand.h"

#include <algorithm>
#include <numeric>

#include "core/node_store.h"
#include "core/sequence.h"

namespace quire {

Demand::Blocks& Demand::of_format(std::uint32_t group) {
  return formats_[static_cast<std::size_t>(geometry_.groups[group].format)];
}

void Demand::add_extents(std::uint32_t group, std::size_t count) {
  const LayerGroup& shape = geometry_.groups[group];
  const std::size_t per_slab = pool_.blocks_per_slab(shape.format);
  Blocks& blocks = of_format(group);
  blocks.whole_slabs += count * (shape.lanes / per_slab);
  blocks.rest += count * (shape.lanes % per_slab);
  add_arrays(Extent::bytes(shape), count);
}

void Demand::add_arrays(std::size_t bytes, std::size_t count) {
  if (count == 0) return;
  const std::size_t charged = Pool::array_bytes(bytes);
  arrays_ += charged * count;
  largest_ = std::max(largest_, charged);
  grain_ = std::gcd(grain_, charged);
}

void Demand::add_first_array(std::size_t bytes) {
  arrays_ += Pool::array_bytes(bytes);
  grain_ = std::gcd(grain_, Pool::array_bytes(bytes));
}

void Demand::add_nodes(std::size_t count) {
  add_arrays(kNodeBytes, count);
  nodes_ += Pool::array_bytes(kNodeBytes) * count;
}

SlabNeed Demand::need() const {
  const std::size_t spread = slabs(BlockPlacing::kSpread, false);
  if (spread <= pool_.free_slabs(idle_)) return {spread, BlockPlacing::kSpread};
  return {slabs(BlockPlacing::kPacked, false), BlockPlacing::kPacked};
}

std::size_t Demand::slabs(BlockPlacing placing, bool empty) const {
  std::size_t total = array_slabs(empty);
  for (std::size_t f = 0; f < formats_.size(); ++f) {
    const Blocks& blocks = formats_[f];
    if (blocks.whole_slabs + blocks.rest == 0) continue;
    const FormatId format{static_cast<std::uint8_t>(f)};
    const std::size_t per_slab = pool_.blocks_per_slab(format);
    const std::size_t room = empty ? 0 : pool_.block_room(format, idle_);
    const bool spread = placing == BlockPlacing::kSpread;
    const std::size_t whole = spread ? blocks.whole_slabs : 0;
    const std::size_t rest = blocks.rest + (spread ? 0 : blocks.whole_slabs * per_slab);
    total += whole + (rest > room ? (rest - room + per_slab - 1) / per_slab : 0);
  }
  return total;
}

std::size_t Demand::array_slabs(bool empty) const {
  if (arrays_ == 0) return 0;
  if (largest_ > pool_.array_slab_bytes()) {  // runs of whole slabs, each with its own tail
    return (arrays_ + pool_.slab_bytes() - 1) / pool_.slab_bytes() + arrays_ / largest_;
  }
  if (empty && nodes_ > arrays_ / 2) {
    // What is left of a slab when a larger array does not fit is filled by nodes, the most frequent
    // and the smallest; only the last such rest may stay.
    const std::size_t whole = pool_.array_slab_bytes() / grain_ * grain_;
    const std::size_t sure = whole - (Pool::array_bytes(kNodeBytes) - grain_);
    return (arrays_ + largest_ + sure - 1) / sure;
  }
  // A slab is left for the next only when an array does not fit its rest.
  const std::size_t sure = pool_.array_slab_bytes() - (largest_ - kBlockGrain);
  const std::size_t room = empty ? 0 : pool_.array_room(largest_, idle_);
  return arrays_ > room ? (arrays_ - room + sure - 1) / sure : 0;
}

}  // namespace quire
