// Who goes first when room is needed: the order of cached things, behind an interface.
#pragma once

#include <cstdint>
#include <memory>

#include "core/tree.h"

namespace quire {

// A cached thing as its order sees it; part of its owner's record.
struct Resident {
  TreeLinks<Resident> links;
  std::uint64_t last_use;  // by a clock that is passed in; not changed while it is in an order
  std::uint32_t depth;     // prefix units before it in its text
};

// Every call takes O(log n).
class Residency {
 public:
  virtual ~Residency() = default;
  virtual void insert(Resident& item) = 0;
  virtual void erase(Resident& item) = 0;  // REQUIRES: it is in
  virtual Resident* victim() const = 0;    // the next to go; null: none is in
  void touch(Resident& item, std::uint64_t now) {
    erase(item);
    item.last_use = now;
    insert(item);
  }
};

// Least recently used first; of those used together, the deepest.
std::unique_ptr<Residency> make_lru_order();

}  // namespace quire
