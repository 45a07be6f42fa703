// Scratch memory for one call: taken front to back, given back all at once.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "quire/check.h"

namespace quire {

class Arena {
 public:
  explicit Arena(std::size_t bytes) : memory_(new std::byte[bytes]), bytes_(bytes) {}

  // Uninitialised.  A request beyond the arena's size is a bug of the caller, who knew the sizes.
  template <typename T>
  std::span<T> take(std::size_t count) {
    used_ = (used_ + alignof(T) - 1) / alignof(T) * alignof(T);
    QUIRE_CHECK(count <= (bytes_ - used_) / sizeof(T) && used_ <= bytes_);
    T* first = reinterpret_cast<T*>(memory_.get() + used_);
    used_ += count * sizeof(T);
    return {first, count};
  }

  void reset() { used_ = 0; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t bytes_;
  std::size_t used_ = 0;
};

}  // namespace quire
