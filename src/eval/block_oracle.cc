#include "eval/block_oracle.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace quire::eval {
namespace {

// A way to go on: what is minimised first, entries moved, and the blocks it leaves.
struct Way {
  std::uint32_t cost = 0;   // four for a block, one for moving a full one
  std::uint32_t moved = 0;  // entries
  std::uint32_t blocks = 0;

  bool operator<(const Way& other) const {
    return std::tuple(cost, moved) < std::tuple(other.cost, other.moved);
  }
};

Way add(Way way, std::uint32_t blocks, bool full, std::uint32_t moved) {
  return {way.cost + 4 * blocks + (full ? 1 : 0), way.moved + moved, way.blocks + blocks};
}

}  // namespace

std::uint32_t fewest_blocks(std::span<const std::uint32_t> fills, std::uint32_t block_tokens,
                            double fullness) {
  const auto limit = static_cast<std::uint32_t>(fullness * block_tokens);
  // From the last block to the first: the best way to go on when `open` slots of the block being
  // filled are free.
  std::vector<Way> next(block_tokens), now(block_tokens);
  for (std::size_t i = fills.size(); i-- > 0;) {
    const std::uint32_t fill = fills[i];
    for (std::uint32_t open = 0; open < block_tokens; ++open) {
      const Way stay = add(next[0], 1, false, 0);
      const std::uint32_t fresh = fill > open ? 1 : 0;
      const std::uint32_t left = open + fresh * block_tokens - fill;
      const Way move = add(next[left], fresh, fill > limit, fill);
      now[open] = move < stay ? move : stay;
    }
    next.swap(now);
  }
  return next[0].blocks;
}

OracleBlocks oracle_blocks(const LanePositions& live, std::uint32_t length,
                           std::uint32_t block_tokens, const RepackOptions& options) {
  OracleBlocks oracle;
  const std::uint32_t blocks = (length + block_tokens - 1) / block_tokens;
  const bool open = length % block_tokens != 0;
  std::uint64_t closed_entries = 0, closed_blocks = 0;
  for (const std::vector<std::vector<Position>>& layer : live) {
    for (const std::vector<Position>& lane : layer) {
      std::vector<std::uint32_t> fill(blocks, 0);
      for (const Position position : lane) ++fill[position / block_tokens];
      const std::uint32_t tail = open && fill.back() > 0 ? 1 : 0;
      if (open) fill.pop_back();
      std::erase(fill, 0u);
      oracle.never += blocks;
      oracle.whole += fill.size() + tail;
      oracle.repack += fewest_blocks(fill, block_tokens, options.fullness) + tail;
      closed_blocks += fill.size();
      for (const std::uint32_t entries : fill) closed_entries += entries;
    }
  }
  if (closed_blocks > 0) {
    oracle.waste = 1 - static_cast<double>(closed_entries) /
                           (static_cast<double>(closed_blocks) * block_tokens);
  }
  if (oracle.waste <= static_cast<double>(options.waste)) oracle.repack = oracle.whole;
  return oracle;
}

}  // namespace quire::eval
