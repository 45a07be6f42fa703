// A list in nodes of the pool: a tree of node pointers over leaves of items.
//
//   height 0: root -> leaf          height 1: root -> 32 pointers -> leaves        ...
//
// Growing moves nothing, and the nodes a list holds are a function of its size, so that growing by
// one or by a thousand costs the budget the same.  All zero bytes are an empty list; it owns its
// nodes and must be resized to 0 before its own memory goes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/node_store.h"
#include "quire/check.h"

namespace quire {

class NodeTree {
 public:
  static constexpr std::uint32_t kFanout = kNodeBytes / sizeof(std::byte*);

  static std::size_t nodes_for(std::size_t leaves);

  bool push_leaf(NodeStore& nodes, std::uint32_t leaves, NodeUse use);  // leaves: before
  void pop_leaf(NodeStore& nodes, std::uint32_t leaves);
  std::byte* leaf(std::uint32_t index) const {
    std::byte* node = root_;
    for (std::uint32_t level = height_; level > 0; --level) node = *child(node, index, level);
    return node;
  }

 private:
  static std::byte** child(std::byte* node, std::uint32_t leaf, std::uint32_t level) {
    const std::uint32_t shift = 5 * (level - 1);
    return reinterpret_cast<std::byte**>(node) + (leaf >> shift) % kFanout;
  }

  std::byte* root_ = nullptr;
  std::uint32_t height_ = 0;  // levels of pointers above the leaves
};
static_assert(NodeTree::kFanout == 32, "child() shifts by 5");

template <typename T>
class PagedList {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kNodeBytes);

 public:
  static constexpr std::uint32_t kLeafItems = kNodeBytes / sizeof(T);

  static std::uint32_t leaves_for(std::size_t items) {
    return static_cast<std::uint32_t>((items + kLeafItems - 1) / kLeafItems);
  }
  static std::size_t nodes_for(std::size_t items) { return NodeTree::nodes_for(leaves_for(items)); }

  std::uint32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](std::uint32_t i) const {
    return reinterpret_cast<T*>(tree_.leaf(i / kLeafItems))[i % kLeafItems];
  }
  T& back() const { return (*this)[size_ - 1]; }

  // New items are zero.  False: no room, and nothing changed.  Fewer than now always succeeds.
  bool resize(NodeStore& nodes, std::uint32_t items, NodeUse use = NodeUse::kGrowth) {
    const std::uint32_t before = leaves_for(size_), after = leaves_for(items);
    for (std::uint32_t leaves = before; leaves < after; ++leaves) {
      if (tree_.push_leaf(nodes, leaves, use)) continue;
      while (leaves > before) tree_.pop_leaf(nodes, leaves--);
      return false;
    }
    for (std::uint32_t leaves = before; leaves > after; --leaves) tree_.pop_leaf(nodes, leaves);
    // Only the leaf that was open holds old items: new leaves come zeroed.
    const std::uint32_t stale = std::min(items, before * kLeafItems);
    for (std::uint32_t i = size_; i < stale; ++i) (*this)[i] = T{};
    size_ = items;
    return true;
  }

  // Calls f(first, items, count) for the runs of items that cover [begin, end), leaf by leaf.
  template <typename F>
  void for_each_run(std::uint32_t begin, std::uint32_t end, F f) const {
    QUIRE_CHECK(end <= size_);
    while (begin < end) {
      const std::uint32_t count = std::min(end - begin, kLeafItems - begin % kLeafItems);
      f(begin, &(*this)[begin], count);
      begin += count;
    }
  }

  // Copies items [from, from + count) to [to, to + count), leaf by leaf.  REQUIRES: to <= from.
  void move_down(std::uint32_t from, std::uint32_t to, std::uint32_t count) const {
    while (count > 0) {
      const std::uint32_t piece =
          std::min({count, kLeafItems - from % kLeafItems, kLeafItems - to % kLeafItems});
      std::memmove(&(*this)[to], &(*this)[from], piece * sizeof(T));
      from += piece, to += piece, count -= piece;
    }
  }

  // Removes the first `count` items.
  void erase_front(NodeStore& nodes, std::uint32_t count) {
    for (std::uint32_t i = count; i < size_; ++i) (*this)[i - count] = (*this)[i];
    resize(nodes, size_ - count);
  }

 private:
  NodeTree tree_;
  std::uint32_t size_ = 0;
};

}  // namespace quire
