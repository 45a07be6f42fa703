// Memory for benchmarks.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace quire::bench {

// In huge pages where the system gives them.
template <typename T>
class Buffer {
 public:
  explicit Buffer(std::size_t count) {
    constexpr std::size_t kHuge = std::size_t{2} << 20;
    const std::size_t bytes = (count * sizeof(T) + kHuge - 1) / kHuge * kHuge;
    data_.reset(static_cast<T*>(std::aligned_alloc(kHuge, bytes)));
#ifdef __linux__
    madvise(data_.get(), bytes, MADV_HUGEPAGE);
#endif
  }
  T* get() const {
    return data_.get();
  }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };
  std::unique_ptr<T, Free> data_;
};

}  // namespace quire::bench
