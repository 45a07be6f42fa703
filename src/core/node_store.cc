#include "core/node_store.h"

#include <cstring>

namespace quire {

std::byte* NodeStore::take_headroom() {
  if (spare_ == nullptr) return nullptr;
  std::byte* node = spare_;
  std::memcpy(&spare_, node, sizeof spare_);
  --headroom_;
  return node;
}

bool NodeStore::acquire(std::span<std::byte*> out, NodeUse use) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = use == NodeUse::kEviction ? take_headroom() : nullptr;
    if (out[i] == nullptr) out[i] = pool_.acquire_array(kNodeBytes);
    if (out[i] == nullptr) {
      while (i > 0) release(out[--i]);
      return false;
    }
    std::memset(out[i], 0, kNodeBytes);
  }
  return true;
}

void NodeStore::release(std::byte* node) {
  pool_.release_array(node);
}

bool NodeStore::set_headroom(std::size_t nodes) {
  const std::size_t before = headroom_;
  while (headroom_ < nodes) {
    std::byte* node = pool_.acquire_array(kNodeBytes);
    if (node == nullptr) {
      set_headroom(before);
      return false;
    }
    std::memcpy(node, &spare_, sizeof spare_);
    spare_ = node;
    ++headroom_;
  }
  while (headroom_ > nodes) release(take_headroom());
  return true;
}

}  // namespace quire
