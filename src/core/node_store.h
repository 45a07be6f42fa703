// Nodes: the one size in which every table of a sequence grows, so that tables never move when they
// grow and what they hold depends only on how many items they have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/pool.h"

namespace quire {

// 16 table rows, 16 extents, 32 tap sums or 32 child pointers.  Larger wastes more of a short
// lane's last node (128 bytes a lane now), smaller pays more in pointers (8 / 256 now).
constexpr std::size_t kNodeBytes = 256;

// Who asks for nodes: an eviction may use the headroom, because it is what makes room.
enum class NodeUse : std::uint8_t { kGrowth, kEviction };

class NodeStore {
 public:
  explicit NodeStore(Pool& pool) : pool_(pool) {}
  ~NodeStore() { set_headroom(0); }
  NodeStore(const NodeStore&) = delete;
  NodeStore& operator=(const NodeStore&) = delete;

  // All of `out`, zeroed, or false and none.
  bool acquire(std::span<std::byte*> out, NodeUse use);
  void release(std::byte* node);

  // Nodes set aside for evictions.  False: the budget has no room, and nothing changed.  Fewer than
  // now always succeeds.
  bool set_headroom(std::size_t nodes);
  std::size_t headroom() const { return headroom_; }

 private:
  std::byte* take_headroom();

  Pool& pool_;
  std::byte* spare_ = nullptr;  // a list through the nodes' first bytes
  std::size_t headroom_ = 0;    // its length
};

}  // namespace quire
