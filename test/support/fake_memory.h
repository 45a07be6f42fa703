// A Memory over the heap that makes mistakes visible: committed bytes are garbage, released bytes
// are poison (and unaddressable under AddressSanitizer), and the n-th commit can be refused.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "core/pool.h"

#if defined(__SANITIZE_ADDRESS__)
#define QUIRE_TEST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define QUIRE_TEST_ASAN 1
#endif
#endif
#ifdef QUIRE_TEST_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace quire::test {

class FakeMemory final : public Memory {
 public:
  static constexpr std::size_t kPage = 4096;
  static constexpr int kReleased = 0xDD;  // every byte outside committed ranges

  explicit FakeMemory(std::size_t bytes)
      : bytes_(bytes),
        pages_((bytes + kPage - 1) / kPage, false),
        base_(static_cast<std::byte*>(
            ::operator new(std::max(pages_.size(), std::size_t{1}) * kPage, kAlignment))) {
    std::memset(base_, kReleased, pages_.size() * kPage);
    poison(base_, pages_.size() * kPage, true);
  }
  ~FakeMemory() override {
    poison(base_, pages_.size() * kPage, false);
    ::operator delete(base_, kAlignment);
  }
  FakeMemory(const FakeMemory&) = delete;
  FakeMemory& operator=(const FakeMemory&) = delete;

  std::byte* base() const override { return base_; }
  std::size_t bytes() const override { return bytes_; }

  bool commit(std::size_t offset, std::size_t bytes) override {
    ++commits_;
    if (refuse_from_ != 0 && commits_ >= refuse_from_ && commits_ < refuse_to_) {
      ++refused_;
      return false;
    }
    mark(offset, bytes, true);
    // Garbage that differs from commit to commit: nothing may rely on what was there, or on zeros.
    std::memset(base_ + offset, static_cast<int>(0x5A + commits_ * 37 % 64), bytes);
    return true;
  }
  void release(std::size_t offset, std::size_t bytes) override {
    ++releases_;
    mark(offset, bytes, false);
  }

  // Refuses the n-th commit from now on (1 = the next one), and `count` - 1 after it.
  void refuse_commit(std::uint64_t n, std::uint64_t count = 1) {
    refuse_from_ = commits_ + n;
    refuse_to_ = refuse_from_ + count;
  }
  void refuse_nothing() { refuse_from_ = 0; }

  std::uint64_t commits() const { return commits_; }  // calls, refused ones included
  std::uint64_t refused() const { return refused_; }
  std::uint64_t releases() const { return releases_; }
  std::size_t committed_bytes() const { return committed_bytes_; }
  std::size_t peak_bytes() const { return peak_bytes_; }  // highest committed_bytes() ever
  bool is_committed(const std::byte* first, std::size_t bytes) const {
    if (first < base_ || first + bytes > base_ + bytes_) return false;
    const auto offset = static_cast<std::size_t>(first - base_);
    for (std::size_t page = offset / kPage; page * kPage < offset + bytes; ++page) {
      if (!pages_[page]) return false;
    }
    return true;
  }
  // Every byte outside committed ranges still is poison: nobody wrote to memory it gave back.
  bool released_is_untouched() {
    for (std::size_t page = 0; page < pages_.size(); ++page) {
      if (pages_[page]) continue;
      std::byte* first = base_ + page * kPage;
      poison(first, kPage, false);
      const bool same =
          std::all_of(first, first + kPage, [](std::byte b) { return b == std::byte{kReleased}; });
      poison(first, kPage, true);
      if (!same) return false;
    }
    return true;
  }

 private:
  static constexpr std::align_val_t kAlignment{kPage};

  static void poison([[maybe_unused]] std::byte* first, [[maybe_unused]] std::size_t bytes,
                     [[maybe_unused]] bool on) {
#ifdef QUIRE_TEST_ASAN
    if (on) {
      __asan_poison_memory_region(first, bytes);
    } else {
      __asan_unpoison_memory_region(first, bytes);
    }
#endif
  }

  void mark(std::size_t offset, std::size_t bytes, bool committed) {
    ASSERT_TRUE(offset % kPage == 0 && bytes % kPage == 0 && bytes > 0) << offset << " " << bytes;
    ASSERT_LE(offset + bytes, bytes_);
    for (std::size_t page = offset / kPage; page < (offset + bytes) / kPage; ++page) {
      ASSERT_NE(pages_[page], committed) << (committed ? "committed" : "released") << " twice";
      pages_[page] = committed;
    }
    committed_bytes_ += committed ? bytes : -bytes;
    peak_bytes_ = std::max(peak_bytes_, committed_bytes_);
    if (!committed) std::memset(base_ + offset, kReleased, bytes);
    poison(base_ + offset, bytes, !committed);
  }

  std::size_t bytes_;
  std::vector<bool> pages_;  // committed?
  std::byte* base_;
  std::size_t committed_bytes_ = 0, peak_bytes_ = 0;
  std::uint64_t commits_ = 0, refused_ = 0, releases_ = 0;
  std::uint64_t refuse_from_ = 0, refuse_to_ = 0;  // commit numbers, half-open; 0 = none
};

}  // namespace quire::test
