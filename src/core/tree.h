// An ordered set whose links are part of its items, so that it allocates nothing: a treap.
//
//   insert, erase, first, last_before, first_from     O(log n) expected
//
// An item's priority is given by who makes it, differs from every other's and looks random.
#pragma once

#include <cstdint>

#include "quire/check.h"

namespace quire {

template <typename T>
struct TreeLinks {
  T* low;
  T* high;
  std::uint64_t priority;
};

// Looks random, and is different for different numbers.
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ x >> 27) * 0x94D049BB133111EBull;
  return x ^ x >> 31;
}

// Before: a strict total order of the items.
template <typename T, TreeLinks<T> T::*kLinks, typename Before>
class Tree {
 public:
  bool empty() const { return root_ == nullptr; }

  void insert(T& item) {
    TreeLinks<T>& links = item.*kLinks;
    T** slot = &root_;
    while (*slot != nullptr && ((*slot)->*kLinks).priority > links.priority) {
      slot = Before()(item, **slot) ? &((*slot)->*kLinks).low : &((*slot)->*kLinks).high;
    }
    T* rest = *slot;  // goes below the item, on two sides
    *slot = &item;
    T **low = &links.low, **high = &links.high;
    while (rest != nullptr) {
      if (Before()(*rest, item)) {
        *low = rest;
        low = &(rest->*kLinks).high;
        rest = *low;
      } else {
        *high = rest;
        high = &(rest->*kLinks).low;
        rest = *high;
      }
    }
    *low = *high = nullptr;
  }

  // REQUIRES: the item is in the set.
  void erase(T& item) {
    T** slot = &root_;
    while (*slot != &item) {
      QUIRE_CHECK(*slot != nullptr);
      slot = Before()(item, **slot) ? &((*slot)->*kLinks).low : &((*slot)->*kLinks).high;
    }
    T *low = (item.*kLinks).low, *high = (item.*kLinks).high;
    while (low != nullptr && high != nullptr) {
      if ((low->*kLinks).priority > (high->*kLinks).priority) {
        *slot = low;
        slot = &(low->*kLinks).high;
        low = *slot;
      } else {
        *slot = high;
        slot = &(high->*kLinks).low;
        high = *slot;
      }
    }
    *slot = low != nullptr ? low : high;
  }

  T* first() const {
    return first_from([](const T&) { return false; });
  }
  // The first item for which not before(item), null: none; and the last for which before(item).
  // REQUIRES: before is true for a beginning of the order.
  template <typename F>
  T* first_from(F before) const {
    T* found = nullptr;
    for (T* item = root_; item != nullptr;) {
      if (before(*item)) {
        item = (item->*kLinks).high;
      } else {
        found = item;
        item = (item->*kLinks).low;
      }
    }
    return found;
  }
  template <typename F>
  T* last_before(F before) const {
    T* found = nullptr;
    for (T* item = root_; item != nullptr;) {
      if (before(*item)) {
        found = item;
        item = (item->*kLinks).high;
      } else {
        item = (item->*kLinks).low;
      }
    }
    return found;
  }

  // Calls f(item) in order.
  template <typename F>
  void for_each(F f) const {
    for_each(root_, f);
  }

 private:
  template <typename F>
  static void for_each(T* item, F& f) {
    if (item == nullptr) return;
    for_each((item->*kLinks).low, f);
    f(*item);
    for_each((item->*kLinks).high, f);
  }

  T* root_ = nullptr;
};

}  // namespace quire
