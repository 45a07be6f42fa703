// How attention cuts its rows, and what scratch that takes.  Nothing here can change a bit of a
// result: a row's sequence of operations does not depend on the rows beside it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace quire::kernels {

// Rows that share one conversion of a tile's K and V to f32, which costs as much as 2 rows.
constexpr std::uint32_t kRowBlock = 256;
// Rows of one pass over a tile: their scores stay in the first-level cache from q . k to P . V.
constexpr std::size_t kStripRows = 8;
// Up to this many rows read K and V as stored: conversion would not pay.
constexpr std::uint32_t kDirectRows = 8;
constexpr std::uint32_t kMaxGroup = 16;  // query heads that share a KV head
// A row's scores of one tile, with room for the 16 slots that straddle each border.
constexpr std::size_t kScorePad = 16;
constexpr std::size_t kScoreStride = kScorePad + kTileOrdinals + kScorePad;
constexpr std::uint32_t kKeyGroup = 64;  // ordinals of converted K side by side
// Floats of p that a block of rows keeps for its taps: blocks shrink, down to one token, to stay
// below.  2 MiB, about a level-2 cache.
constexpr std::size_t kTapFloats = 512 * 1024;

[[maybe_unused]] static constexpr std::size_t tap_tiles(std::uint32_t live) {
  return live / kTileOrdinals + 2;  // a lane's first tile may begin before its first entry
}

// Tokens whose rows make one block; tap_live = 0: no taps.
[[maybe_unused]] static constexpr std::uint32_t block_of_tokens(std::uint32_t group,
                                                                std::uint32_t tap_live) {
  const std::uint32_t most = kRowBlock / group;
  if (tap_live == 0) return most;
  const std::size_t kept = kTapFloats / (group * tap_tiles(tap_live) * kTileOrdinals);
  return kept >= most ? most : kept == 0 ? 1 : static_cast<std::uint32_t>(kept);
}

// Where each part of the scratch begins, in floats, all multiples of 16.
struct ScratchPlan {
  std::size_t queries = 0;   // [strips][key_size][rows of a strip]
  std::size_t keys = 0;      // [kTileOrdinals / kKeyGroup][key_size][kKeyGroup]
  std::size_t values = 0;    // [kTileOrdinals][value_size]
  std::size_t scores = 0;    // [kStripRows][kScoreStride]
  std::size_t tile_out = 0;  // [kStripRows][value_size]
  std::size_t row_out = 0;   // [rows][value_size]
  std::size_t tap_p = 0;     // [rows][tap_tiles][kTileOrdinals]
  std::size_t tap_m = 0;     // [rows][tap_tiles]
  std::size_t total = 0;
};

[[maybe_unused]] static constexpr ScratchPlan plan_scratch(std::uint32_t key_size,
                                                           std::uint32_t value_size,
                                                           std::uint32_t group,
                                                           std::uint32_t tap_live) {
  const std::size_t tap_rows =
      tap_live == 0 ? 0 : std::size_t{group} * block_of_tokens(group, tap_live);
  ScratchPlan plan;
  plan.keys = plan.queries + (kRowBlock + kStripRows) * key_size;
  plan.values = plan.keys + kTileOrdinals * key_size + 16;
  plan.scores = plan.values + kTileOrdinals * value_size;
  plan.tile_out = plan.scores + kStripRows * kScoreStride;
  plan.row_out = plan.tile_out + kStripRows * value_size;
  plan.tap_p = plan.row_out + std::size_t{kRowBlock} * value_size;
  plan.tap_m = plan.tap_p + tap_rows * tap_tiles(tap_live) * kTileOrdinals;
  plan.total = plan.tap_m + (tap_rows * tap_tiles(tap_live) + 15) / 16 * 16;
  return plan;
}

// Where the chunk kernels' own parts begin, behind ScratchPlan::total, in floats.  Two bf16 take
// the room of one float, and everything is there as high and low.
struct ChunkScratch {
  std::size_t queries = 0;  // [kRowBlock][key_size, up to 32]
  std::size_t keys = 0;     // [kTileOrdinals][key_size, up to 32]
  std::size_t values = 0;   // [kTileOrdinals][value_size]
  std::size_t p = 0;        // [16][kTileOrdinals] bf16
  std::size_t scores = 0;   // [16][kScoreStride]
  std::size_t out = 0;      // [16][value_size]
  std::size_t total = 0;
};

[[maybe_unused]] static constexpr ChunkScratch plan_chunk(std::uint32_t key_size,
                                                          std::uint32_t value_size) {
  const std::size_t depth = (key_size + std::size_t{31}) / 32 * 32;
  ChunkScratch plan;
  plan.keys = plan.queries + kRowBlock * depth;
  plan.values = plan.keys + kTileOrdinals * depth;
  plan.p = plan.values + std::size_t{kTileOrdinals} * value_size;
  plan.scores = plan.p + 8 * kTileOrdinals;
  plan.out = plan.scores + 16 * kScoreStride;
  plan.total = plan.out + std::size_t{16} * value_size;
  return plan;
}

}  // namespace quire::kernels
