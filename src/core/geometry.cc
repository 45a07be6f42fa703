#include "core/geometry.h"

#include <algorithm>

namespace quire {
namespace {

bool same_group(const LayerGroup& group, const LayerShape& layer) {
  return group.window == layer.window && group.key_size == layer.key_size &&
         group.value_size == layer.value_size;
}

}  // namespace

Geometry Geometry::of(std::span<const LayerShape> layers, KvType key_type, KvType value_type,
                      std::uint32_t block_tokens) {
  Geometry geometry{.block_tokens = block_tokens, .key_type = key_type, .value_type = value_type};
  for (std::uint32_t l = 0; l < layers.size(); ++l) {
    const LayerShape& layer = layers[l];
    auto group = std::ranges::find_if(geometry.groups,
                                      [&](const LayerGroup& g) { return same_group(g, layer); });
    if (group == geometry.groups.end()) {
      const std::size_t key_bytes = block_tokens * layer.key_size * bytes_of(key_type);
      const std::size_t value_bytes = block_tokens * layer.value_size * bytes_of(value_type);
      group = geometry.groups.insert(group, {.window = layer.window,
                                             .key_size = layer.key_size,
                                             .value_size = layer.value_size,
                                             .value_offset = key_bytes,
                                             .block_bytes = key_bytes + value_bytes});
    }
    geometry.first_lane.push_back(
        {static_cast<std::uint32_t>(group - geometry.groups.begin()), group->lanes});
    group->lanes += layer.kv_heads;
    group->layers.push_back(l);
    group->query_heads.resize(group->lanes, layer.query_heads / layer.kv_heads);
  }
  for (LayerGroup& group : geometry.groups) {
    group.first_lane = geometry.lanes;
    geometry.lanes += group.lanes;
  }
  return geometry;
}

std::size_t Geometry::largest_block() const {
  std::size_t bytes = 0;
  for (const LayerGroup& group : groups) bytes = std::max(bytes, group.block_bytes);
  return bytes;
}

std::size_t Geometry::largest_extent() const {
  std::size_t bytes = 0;
  for (const LayerGroup& group : groups) {
    bytes = std::max(bytes, group.block_bytes * group.lanes);
  }
  return bytes;
}

}  // namespace quire
