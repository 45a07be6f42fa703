// Where the lanes of a model live: layers by group, groups by visibility and block shape.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/pool.h"
#include "quire/cache.h"
#include "quire/types.h"

namespace quire {

// Layers with the same visibility and the same block shape.  Their lanes grow together, so one
// extent holds a block of each.
struct LayerGroup {
  std::uint32_t window = 0;  // 0: full attention
  std::uint32_t key_size = 0, value_size = 0;
  std::size_t value_offset = 0;  // bytes from block start to V
  std::size_t block_bytes = 0;
  FormatId format{};
  std::uint32_t lanes = 0;       // of one sequence
  std::uint32_t first_lane = 0;  // rank of the group's first lane among all lanes of a sequence
  std::vector<std::uint32_t> layers;
  std::vector<std::uint32_t> query_heads;  // [lanes] that share the lane's KV head
};

// A lane of one sequence: `lane` counts inside the group.
struct LanePlace {
  std::uint32_t group = 0;
  std::uint32_t lane = 0;
};

struct Geometry {
  std::uint32_t block_tokens = 0;
  KvType key_type{}, value_type{};
  std::uint32_t lanes = 0;  // of one sequence, all groups
  std::vector<LayerGroup> groups;
  std::vector<LanePlace> first_lane;  // [layer], of KV head 0
  std::uint32_t query_floats = 0;     // of a sequence with Needs::future: the cache knows of what
  std::uint32_t gate_floats = 0;      // of a row with Needs::gate_rows: queries of full layers

  // REQUIRES: shapes as CacheOptions states them.  Formats are not registered yet.
  static Geometry of(std::span<const LayerShape> layers, KvType key_type, KvType value_type,
                     std::uint32_t block_tokens);

  LanePlace place(std::uint32_t layer, std::uint32_t head) const {
    return {first_lane[layer].group, first_lane[layer].lane + head};
  }
  // Of a lane's rank among all lanes of a sequence.
  std::uint32_t group_of(std::uint32_t lane) const {
    std::uint32_t group = 0;
    while (lane >= groups[group].first_lane + groups[group].lanes) ++group;
    return group;
  }
  std::size_t largest_block() const;
  std::size_t largest_extent() const;
};

}  // namespace quire
