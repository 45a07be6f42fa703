// Working memory of attend(): one slot for each call running at the same time, grown when a step
// needs more and kept, so that a steady state allocates nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/kernels.h"

namespace quire {

// What the work items of a step need at most.
struct ScratchNeed {
  std::size_t kernel_floats = 0;
  std::size_t blocks = 0;  // of one lane
  std::size_t taps = 0;    // sums of one lane

  void raise_to(const ScratchNeed& other);
};

class Scratch {
 public:
  void reserve(const ScratchNeed& need);

  float* kernel() const { return kernel_; }
  kernels::BlockView* blocks() const { return blocks_.get(); }
  std::int64_t* taps() const { return taps_.get(); }

 private:
  ScratchNeed size_;
  std::unique_ptr<float[]> kernel_memory_;
  float* kernel_ = nullptr;  // in kernel_memory_, 64-byte aligned
  std::unique_ptr<kernels::BlockView[]> blocks_;
  std::unique_ptr<std::int64_t[]> taps_;
};

// More calls at once than slots wait for one: no machine this runs on has as many cores.
class ScratchSlots {
 public:
  static constexpr std::uint32_t kSlots = 256;

  // A slot for the time of one call.
  class Use {
   public:
    Use(ScratchSlots& slots, std::uint32_t index) : slots_(slots), index_(index) {}
    ~Use() { slots_.busy_[index_].store(false, std::memory_order_release); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    Scratch& operator*() const { return slots_.scratch_[index_]; }

   private:
    ScratchSlots& slots_;
    std::uint32_t index_;
  };
  Use take(std::uint32_t preferred);  // the same part gets the same slot: its memory is warm

 private:
  std::array<Scratch, kSlots> scratch_;
  std::array<std::atomic<bool>, kSlots> busy_{};
};

}  // namespace quire
