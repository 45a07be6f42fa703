// Which blocks of a lane to repack: a pure function of how full they are.
//
// Blocks keep their order, so entries stay ascending in position and attention adds in the same
// order as before, bit for bit.  A run is a stretch of neighbouring blocks whose live entries move
// together into fewer blocks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quire {

// How full a block is; kFixed: it may not move (shared, or still filling).
using Fill = std::uint8_t;
constexpr Fill kFixed = 0xFF;

struct RepackRun {
  std::uint32_t first = 0, count = 0;  // blocks
  std::uint32_t entries = 0;           // live in them
  std::uint32_t targets = 0;           // blocks they need: fewer than count
};

class RepackPlanner {
 public:
  // The runs that leave the fewest blocks, ascending.  Blocks fuller than `fullness` (0 to 1) are
  // moved only where that frees another block, fewer than four of them for each.
  std::span<const RepackRun> runs(std::span<const Fill> blocks, std::uint32_t block_tokens,
                                  double fullness);

 private:
  std::vector<std::uint32_t> cost_, next_;
  std::vector<std::uint8_t> from_;  // [block][level] the level before, kApart = none was open
  std::vector<RepackRun> runs_;
};

}  // namespace quire
