#include "cache/scratch.h"

#include <algorithm>
#include <thread>

namespace quire {
namespace {

// A quarter more than asked for: lanes grow by a token a step.
std::size_t roomy(std::size_t count) {
  return count + count / 4;
}

}  // namespace

void ScratchNeed::raise_to(const ScratchNeed& other) {
  kernel_floats = std::max(kernel_floats, other.kernel_floats);
  blocks = std::max(blocks, other.blocks);
  taps = std::max(taps, other.taps);
}

void Scratch::reserve(const ScratchNeed& need) {
  if (need.kernel_floats > size_.kernel_floats) {
    size_.kernel_floats = roomy(need.kernel_floats);
    std::size_t bytes = (size_.kernel_floats + 16) * sizeof(float);
    kernel_memory_.reset(new float[size_.kernel_floats + 16]);
    void* aligned = kernel_memory_.get();
    kernel_ =
        static_cast<float*>(std::align(64, size_.kernel_floats * sizeof(float), aligned, bytes));
  }
  if (need.blocks > size_.blocks) {
    size_.blocks = roomy(need.blocks);
    blocks_.reset(new kernels::BlockView[size_.blocks]);
  }
  if (need.taps > size_.taps) {
    size_.taps = roomy(need.taps);
    taps_.reset(new std::int64_t[size_.taps]);
  }
}

ScratchSlots::Use ScratchSlots::take(std::uint32_t preferred) {
  for (std::uint32_t index = preferred % kSlots;; index = (index + 1) % kSlots) {
    if (!busy_[index].exchange(true, std::memory_order_acquire)) return {*this, index};
    if (index == preferred % kSlots) std::this_thread::yield();
  }
}

}  // namespace quire
