#include "core/repack.h"

#include <algorithm>
#include <limits>

#include "quire/check.h"

namespace quire {
namespace {

// What a block costs, against 1 for moving an entry: a copy is cheap beside the block it frees.
constexpr std::uint32_t kBlockCost = 1 << 16;
constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

}  // namespace

// A shortest path over the blocks.  Its state is the level of the block being filled:
// `block_tokens` when none is open (or the last is full), else the entries in it.  A block is left
// where it is, which closes the open one, or its entries are moved into the open one and, when that
// is full, the next.
std::span<const RepackRun> RepackPlanner::runs(std::span<const Fill> blocks,
                                               std::uint32_t block_tokens, double fullness) {
  const std::uint32_t levels = block_tokens + 1;
  constexpr std::uint8_t kStayed = 0x80;
  const auto apart = static_cast<std::uint8_t>(block_tokens);
  const auto sparse = static_cast<std::uint32_t>(fullness * block_tokens);
  QUIRE_CHECK(blocks.size() < kNever / kBlockCost);
  cost_.assign(levels, kNever);
  cost_[apart] = 0;
  from_.assign(blocks.size() * levels, 0);
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    std::uint8_t* from = &from_[b * levels];
    next_.assign(levels, kNever);
    const auto reach = [&](std::uint32_t level, std::uint32_t cost, std::uint32_t came) {
      if (cost >= next_[level]) return;
      next_[level] = cost;
      from[level] = static_cast<std::uint8_t>(came);
    };
    const auto best = static_cast<std::uint32_t>(std::ranges::min_element(cost_) - cost_.begin());
    reach(apart, cost_[best] + kBlockCost, best | kStayed);
    if (blocks[b] != kFixed) {
      const std::uint32_t entries = blocks[b];
      const std::uint32_t copying = entries > sparse ? kBlockCost / 4 + entries : entries;
      for (std::uint32_t level = 1; level <= block_tokens; ++level) {
        if (cost_[level] == kNever) continue;
        const bool opens = level + entries > block_tokens;
        const std::uint32_t after = opens ? level + entries - block_tokens : level + entries;
        reach(after, cost_[level] + copying + (opens ? kBlockCost : 0), level);
      }
    }
    cost_.swap(next_);
  }

  runs_.clear();
  auto level = static_cast<std::uint32_t>(std::ranges::min_element(cost_) - cost_.begin());
  for (std::size_t b = blocks.size(); b-- > 0;) {
    const std::uint8_t came = from_[b * levels + level];
    level = came & ~kStayed;
    if ((came & kStayed) != 0) continue;
    if (runs_.empty() || runs_.back().first != b + 1) runs_.push_back({});
    RepackRun& run = runs_.back();
    run.first = static_cast<std::uint32_t>(b);
    ++run.count;
    run.entries += blocks[b];
  }
  std::ranges::reverse(runs_);
  std::erase_if(runs_, [&](RepackRun& run) {
    run.targets = (run.entries + block_tokens - 1) / block_tokens;
    return run.targets >= run.count;
  });
  return runs_;
}

}  // namespace quire
