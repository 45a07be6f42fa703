// Repacking: the tables say which entries go where, kernels copy them.
#include <bit>
#include <limits>

#include "cache/paged_cache.h"

namespace quire {
namespace {

constexpr std::size_t kEverything = std::numeric_limits<std::size_t>::max();

}  // namespace

MovesReport PagedCache::plan_moves(std::size_t copy_bytes) {
  if (tables_.growing()) return {};
  return tables_.plan_moves(options_.repack, copy_bytes);
}

std::size_t PagedCache::copy_moves(std::size_t bytes) {
  std::size_t copied = 0;
  for (MovePlan& plan : tables_.moves()) {
    if (plan.copied) continue;
    if (copied >= bytes) break;
    const LayerGroup& group = tables_.geometry().groups[plan.at.group];
    std::size_t entries = 0;
    plan.for_each_piece([&](std::uint32_t source, std::uint64_t slots, std::uint32_t target,
                            std::uint32_t to_slot) {
      // The block may be gone; of one that is there, copying what has died is as good as not.
      if (plan.wanted[source] == 0) return;
      kernels_.copy_entries(pool_.address(plan.sources[source].block), slots,
                            pool_.address(plan.targets[target].block), to_slot,
                            options_.block_tokens, group.value_offset, options_.key_type,
                            options_.value_type, group.key_size, group.value_size);
      entries += static_cast<std::size_t>(std::popcount(slots));
    });
    plan.copied = true;
    // A plan whose entries have all died is work done, too.
    copied += 1 + entries * group.block_bytes / options_.block_tokens;
  }
  return copied;
}

std::size_t PagedCache::repack(std::size_t free_bytes) {
  if (tables_.growing()) return 0;
  const auto finish = [&] {
    while (copy_moves(kEverything) > 0) {
    }
    install_moves();
  };
  finish();
  const std::size_t goal = bytes_free() + free_bytes;
  // Packs have arrays, and arrays take whole slabs, however many blocks are free.
  std::size_t gathered = bytes_free() == 0 ? tables_.empty_slabs(1) : 0;
  // Of a pool without room the packs set aside serve for some of it at a time.
  std::size_t freed = 0;
  while (freed < free_bytes && tables_.plan_room(free_bytes - freed).plans > 0) {
    const std::uint64_t blocks = moved_.blocks;
    finish();
    if (moved_.blocks == blocks) break;
    freed += (moved_.blocks - blocks) * tables_.geometry().largest_block();
  }
  // So does what the room is for, in part or whole.
  if (bytes_free() < goal) {
    gathered += tables_.empty_slabs((goal - bytes_free() - 1) / pool_.slab_bytes() + 1);
  }
  freed += gathered * pool_.slab_bytes();
  return freed > 0 ? freed : tables_.give_headroom();
}

void PagedCache::install_moves() {
  if (tables_.growing()) return;
  const MovesReport done = tables_.install_moves();
  moved_.plans += done.plans;
  moved_.entries += done.entries;
  moved_.bytes += done.bytes;
  moved_.blocks += done.blocks;
}

}  // namespace quire
