#include "core/paged_list.h"

#include <array>

namespace quire {
namespace {

constexpr std::uint32_t kHeightMax = 7;  // 32^7 leaves: more than 32-bit item counts

}  // namespace

std::size_t NodeTree::nodes_for(std::size_t leaves) {
  std::size_t nodes = leaves;
  while (leaves > 1) {
    leaves = (leaves + kFanout - 1) / kFanout;
    nodes += leaves;
  }
  return nodes;
}

bool NodeTree::push_leaf(NodeStore& nodes, std::uint32_t leaves, NodeUse use) {
  const bool taller = leaves > 0 && leaves == std::uint64_t{1} << (5 * height_);
  std::array<std::byte*, kHeightMax + 1> fresh{};
  const std::size_t count = nodes_for(std::size_t{leaves} + 1) - nodes_for(leaves);
  if (!nodes.acquire({fresh.data(), count}, use)) return false;
  std::size_t next = 0;
  if (leaves == 0) {
    root_ = fresh[next];
    return true;
  }
  if (taller) {
    std::byte* root = fresh[next++];
    *child(root, 0, ++height_) = root_;
    root_ = root;
  }
  std::byte* node = root_;
  for (std::uint32_t level = height_; level > 0; --level) {
    std::byte** slot = child(node, leaves, level);
    if (*slot == nullptr) *slot = fresh[next++];
    node = *slot;
  }
  QUIRE_CHECK(next == count);
  return true;
}

void NodeTree::pop_leaf(NodeStore& nodes, std::uint32_t leaves) {
  const std::uint32_t last = leaves - 1;
  std::array<std::byte**, kHeightMax + 1> path{};  // [level] slot of the node at that level
  std::byte** slot = &root_;
  for (std::uint32_t level = height_; level > 0; --level) {
    path[level] = slot;
    slot = child(*slot, last, level);
  }
  nodes.release(*slot);
  *slot = nullptr;
  // A pointer node goes when the leaf was its first.
  for (std::uint32_t level = 1; level <= height_; ++level) {
    if (last % (std::uint64_t{1} << (5 * level)) != 0) break;
    nodes.release(*path[level]);
    *path[level] = nullptr;
  }
  while (height_ > 0 && last <= std::uint64_t{1} << (5 * (height_ - 1))) {
    std::byte* root = root_;
    if (root == nullptr) break;
    root_ = *child(root, 0, height_--);
    nodes.release(root);
  }
  if (root_ == nullptr) height_ = 0;
}

}  // namespace quire
