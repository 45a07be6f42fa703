// Goal: after any history of acquires, releases and refused commits the pool's blocks and arrays
//   are disjoint, inside committed memory and keep their contents, every count is right, with and
//   without what is idle, a refusal is given exactly when there is no room, and blocks come from
//   the fullest slab.
// Method: random histories beside a naive model (a map of intervals, one record per slab), compared
//   after every operation; every interval is filled at acquire and read back at release.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/pool.h"
#include "support/fake_memory.h"
#include "support/seed.h"

namespace quire {
namespace {

using test::FakeMemory;

constexpr std::size_t kLargest = 256;               // of arrays whose room is asked for
constexpr int kFree = -1, kArrays = -2, kRun = -3;  // owners of a slab beside formats 0, 1, ...

struct Interval {
  std::size_t bytes;  // as charged
  int owner;          // a format, kArrays or kRun
  int fill;           // every byte of it
  bool idle = false;
};
struct SlabModel {
  int owner = kFree;
  std::size_t count = 0;  // intervals that touch it
  std::size_t idle = 0;   // of those

  bool only_idle() const { return count > 0 && idle == count; }
};

struct Config {
  std::size_t slab_bytes, slab_count, odd_bytes;
  std::vector<std::size_t> block_bytes;
  std::size_t array_bytes_max;
};

class Model {
 public:
  Model(const Config& config, std::uint64_t seed)
      : config_(config),
        random_(seed),
        memory_(config.slab_bytes * config.slab_count + config.odd_bytes),
        pool_(memory_, {.slab_bytes = config.slab_bytes}),
        slabs_(config.slab_count) {
    for (std::size_t bytes : config.block_bytes) {
      pool_.add_format(bytes);
      const FormatId format{static_cast<std::uint8_t>(slots_.size())};
      slots_.push_back(pool_.acquirable(format) / config.slab_count);
    }
  }

  void run(int operations) {
    for (int i = 0; i < operations && !::testing::Test::HasFatalFailure(); ++i) {
      if (i % 400 == 0) fill_percent_ = below(120);  // drift between empty and overfull
      SCOPED_TRACE("operation " + std::to_string(i));
      const bool refuse = below(50) == 0;
      if (refuse) memory_.refuse_commit(1);
      step(refuse);
      memory_.refuse_nothing();
      compare(i % 64 == 0);
    }
    while (!live_.empty() && !::testing::Test::HasFatalFailure()) release(live_.begin()->first);
    compare(true);
    EXPECT_EQ(memory_.committed_bytes(), 0u);
    EXPECT_TRUE(memory_.released_is_untouched());
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  std::size_t free_slabs() const {
    return static_cast<std::size_t>(std::count_if(
        slabs_.begin(), slabs_.end(), [](const SlabModel& s) { return s.owner == kFree; }));
  }
  std::size_t acquirable(std::size_t format) const {
    std::size_t blocks = free_slabs() * slots_[format];
    for (const SlabModel& slab : slabs_) {
      if (slab.owner == static_cast<int>(format)) blocks += slots_[format] - slab.count;
    }
    return blocks;
  }

  void step(bool refuse) {
    if (!live_.empty() && below(4) == 0) return toggle_idle();
    const std::size_t used = config_.slab_count - free_slabs();
    if (!live_.empty() && used * 100 > fill_percent_ * config_.slab_count && below(5) != 0) {
      release_any();
    } else if (!live_.empty() && below(4) == 0) {
      release_any();
    } else if (below(3) == 0) {
      acquire_array(refuse);
    } else if (below(8) == 0) {
      acquire_many(below(slots_.size()), refuse);
    } else {
      acquire_block(below(slots_.size()), refuse);
    }
  }

  void acquire_block(std::size_t format, bool refuse) {
    const std::size_t room = acquirable(format);
    const bool partial = room > free_slabs() * slots_[format];
    const BlockId block = pool_.acquire(FormatId{static_cast<std::uint8_t>(format)});
    ASSERT_EQ(block == kNoBlock, room == 0 || (refuse && !partial));
    if (block == kNoBlock) return;
    const std::size_t slab = offset_of(block) / config_.slab_bytes;
    ASSERT_LT(slab, slabs_.size());
    ASSERT_EQ(slabs_[slab].owner == kFree, !partial) << "a new slab although one had room";
    for (const SlabModel& other : slabs_) {
      if (other.owner != static_cast<int>(format) || other.count == slots_[format]) continue;
      ASSERT_LE(fullness(other.count, format), fullness(slabs_[slab].count, format));
    }
    add_block(block, format);
  }

  void acquire_many(std::size_t format, bool refuse) {
    std::vector<BlockId> out(1 + below(3 * slots_[format]));
    const std::size_t room = acquirable(format);
    const std::size_t inside = room - free_slabs() * slots_[format];
    const bool done = pool_.acquire(FormatId{static_cast<std::uint8_t>(format)}, out);
    ASSERT_EQ(done, out.size() <= (refuse ? inside : room));
    for (BlockId block : out) {
      ASSERT_EQ(block != kNoBlock, done);
      if (done) add_block(block, format);
    }
  }

  void acquire_array(bool refuse) {
    const std::size_t bytes = below(6) == 0 ? below(config_.array_bytes_max) : 1 + below(2000);
    const std::size_t charged = Pool::array_bytes(bytes);
    std::byte* array = pool_.acquire_array(bytes);
    if (array == nullptr) {
      ASSERT_TRUE(refuse || !array_fits(charged)) << bytes << " bytes";
      return;
    }
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(array) % 64, 0u);
    const bool run = charged > config_.slab_bytes - bitmap_bytes();
    add(static_cast<std::size_t>(array - memory_.base()), charged, run ? kRun : kArrays);
  }

  // A slab of arrays keeps 3/512 of itself, in whole words and grains, for its bitmaps.
  std::size_t bitmap_bytes() const {
    return (3 * ((config_.slab_bytes / 64 + 63) / 64) * 8 + 63) / 64 * 64;
  }

  bool array_fits(std::size_t charged) const {
    std::size_t longest = 0, current = 0;
    for (const SlabModel& slab : slabs_) {
      current = slab.owner == kFree ? current + 1 : 0;
      longest = std::max(longest, current);
    }
    const std::size_t inside = config_.slab_bytes - bitmap_bytes();
    if (charged > inside) return longest * config_.slab_bytes >= charged;
    if (longest > 0) return true;
    for (std::size_t slab = 0; slab < slabs_.size(); ++slab) {
      if (slabs_[slab].owner != kArrays) continue;
      std::size_t end = slab * config_.slab_bytes;
      const std::size_t slab_end = end + inside;
      for (auto it = live_.lower_bound(end); it != live_.end() && it->first < slab_end; ++it) {
        if (it->first - end >= charged) return true;
        end = it->first + it->second.bytes;
      }
      if (slab_end - end >= charged) return true;
    }
    return false;
  }

  std::size_t fullness(std::size_t count, std::size_t format) const {
    return count * 64 / slots_[format];  // the pool tells slabs apart to 1/64
  }
  std::size_t offset_of(BlockId block) const { return static_cast<std::size_t>(block) * 64; }

  void add_block(BlockId block, std::size_t format) {
    ASSERT_EQ(pool_.format_of(block), FormatId{static_cast<std::uint8_t>(format)});
    ASSERT_EQ(pool_.address(block), memory_.base() + offset_of(block));
    add(offset_of(block), (config_.block_bytes[format] + 63) / 64 * 64, static_cast<int>(format));
  }

  void add(std::size_t offset, std::size_t bytes, int owner) {
    const auto after = live_.lower_bound(offset);
    ASSERT_TRUE(after == live_.end() || offset + bytes <= after->first) << "overlaps the next";
    if (after != live_.begin()) {
      const auto before = std::prev(after);
      ASSERT_LE(before->first + before->second.bytes, offset) << "overlaps the one before";
    }
    ASSERT_TRUE(memory_.is_committed(memory_.base() + offset, bytes));
    const int fill = static_cast<int>(below(256));
    std::memset(memory_.base() + offset, fill, bytes);
    live_[offset] = {bytes, owner, fill};
    (owner < 0 ? arrays_ : blocks_) += bytes;
    for (std::size_t slab = offset / config_.slab_bytes; slab * config_.slab_bytes < offset + bytes;
         ++slab) {
      ASSERT_TRUE(slabs_[slab].owner == kFree || slabs_[slab].owner == owner);
      slabs_[slab].owner = owner;
      ++slabs_[slab].count;
    }
  }

  void toggle_idle() {
    auto it = live_.lower_bound(below(memory_.bytes()));
    if (it == live_.end()) it = live_.begin();
    set_idle(it->first, !it->second.idle);
  }

  void set_idle(std::size_t offset, bool idle) {
    Interval& interval = live_.at(offset);
    interval.idle = idle;
    if (interval.owner >= 0) {
      pool_.set_idle(BlockId{static_cast<std::uint32_t>(offset / 64)}, idle);
    } else {
      pool_.set_idle(memory_.base() + offset, idle);
    }
    idle_ += idle ? interval.bytes : 0 - interval.bytes;
    for (std::size_t slab = offset / config_.slab_bytes;
         slab * config_.slab_bytes < offset + interval.bytes; ++slab) {
      slabs_[slab].idle += idle ? 1 : std::size_t{0} - 1;
    }
  }

  // What there would be room for without what is idle.
  void compare_without_idle() {
    std::size_t free = free_slabs(), room = 0;
    for (std::size_t slab = 0; slab < slabs_.size(); ++slab) {
      free += slabs_[slab].only_idle() ? 1 : 0;
      if (slabs_[slab].owner == kArrays && !slabs_[slab].only_idle()) room += array_room(slab);
    }
    ASSERT_EQ(pool_.free_slabs(Idle::kGone), free);
    ASSERT_EQ(pool_.free_slabs(Idle::kThere), free_slabs());
    ASSERT_EQ(pool_.array_room(kLargest, Idle::kGone), room);
    for (std::size_t f = 0; f < slots_.size(); ++f) {
      std::size_t blocks = 0;
      for (const SlabModel& slab : slabs_) {
        const bool counts = slab.owner == static_cast<int>(f) && !slab.only_idle();
        if (counts) blocks += slots_[f] - slab.count + slab.idle;
      }
      ASSERT_EQ(pool_.block_room(FormatId{static_cast<std::uint8_t>(f)}, Idle::kGone), blocks);
    }
  }

  // Of a slab of arrays, in arrays of kLargest at most.
  std::size_t array_room(std::size_t slab) const {
    std::size_t room = 0, end = slab * config_.slab_bytes;
    const std::size_t slab_end = end + config_.slab_bytes - bitmap_bytes();
    const auto hole = [&](std::size_t next) {
      if (next >= end + kLargest) room += next - end - (kLargest - 64);
    };
    for (auto it = live_.lower_bound(end); it != live_.end() && it->first < slab_end; ++it) {
      if (it->second.idle) continue;
      hole(it->first);
      end = it->first + it->second.bytes;
    }
    hole(slab_end);
    return room;
  }

  void release_any() {
    // Half of the time a neighbour of the last one, so that slabs also empty.
    if (below(2) == 0) last_ = below(memory_.bytes());
    auto it = live_.lower_bound(last_);
    if (it == live_.end()) it = live_.begin();
    last_ = it->first;
    release(it->first);
  }

  void release(std::size_t offset) {
    if (live_.at(offset).idle) set_idle(offset, false);
    const Interval interval = live_.at(offset);
    const std::byte* data = memory_.base() + offset;
    ASSERT_EQ(data[0], static_cast<std::byte>(interval.fill));
    ASSERT_EQ(std::memcmp(data, data + 1, interval.bytes - 1), 0) << "someone else wrote here";
    if (interval.owner >= 0) {
      pool_.release(BlockId{static_cast<std::uint32_t>(offset / 64)});
    } else {
      pool_.release_array(memory_.base() + offset);
    }
    live_.erase(offset);
    (interval.owner < 0 ? arrays_ : blocks_) -= interval.bytes;
    for (std::size_t slab = offset / config_.slab_bytes;
         slab * config_.slab_bytes < offset + interval.bytes; ++slab) {
      if (--slabs_[slab].count == 0) slabs_[slab].owner = kFree;
    }
  }

  void compare(bool deep) {
    const PoolBytes bytes = pool_.bytes();
    const std::size_t committed = (config_.slab_count - free_slabs()) * config_.slab_bytes;
    ASSERT_EQ(bytes.budget, memory_.bytes());
    ASSERT_EQ(bytes.committed, committed);
    ASSERT_EQ(bytes.blocks, blocks_);
    ASSERT_EQ(bytes.arrays, arrays_);
    ASSERT_EQ(bytes.idle, idle_);
    ASSERT_EQ(bytes.stranded, committed - blocks_ - arrays_);
    ASSERT_EQ(bytes.peak, memory_.peak_bytes());
    ASSERT_LE(bytes.peak, bytes.budget);
    ASSERT_EQ(memory_.committed_bytes(), committed);
    for (std::size_t format = 0; format < slots_.size(); ++format) {
      ASSERT_EQ(pool_.acquirable(FormatId{static_cast<std::uint8_t>(format)}), acquirable(format));
    }
    if (!deep) return;
    pool_.check_invariants();
    compare_without_idle();
  }

  Config config_;
  std::mt19937_64 random_;
  FakeMemory memory_;
  Pool pool_;
  std::vector<std::size_t> slots_;        // [format] blocks of a slab
  std::map<std::size_t, Interval> live_;  // by offset
  std::vector<SlabModel> slabs_;
  std::size_t blocks_ = 0, arrays_ = 0, idle_ = 0;  // bytes
  std::size_t fill_percent_ = 0, last_ = 0;
};

void run_model(const Config& config, int histories, int operations) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE("QUIRE_SEED=" + std::to_string(seed));
  for (int i = 0; i < histories && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("history " + std::to_string(i));
    Model(config, seed + static_cast<std::uint64_t>(i)).run(operations);
  }
}

TEST(PoolModelTest, TinySlabs) {
  run_model({.slab_bytes = 4096,
             .slab_count = 50,
             .odd_bytes = 0,
             .block_bytes = {4096, 64, 1000, 2048, 100},
             .array_bytes_max = 20000},
            12, 3000);
}

TEST(PoolModelTest, OneSlab) {
  run_model({.slab_bytes = 8192,
             .slab_count = 1,
             .odd_bytes = 4096,
             .block_bytes = {1344, 4096},
             .array_bytes_max = 9000},
            12, 1500);
}

TEST(PoolModelTest, ThreeBlockFormatsAndArrays) {
  run_model({.slab_bytes = 65536,
             .slab_count = 20,
             .odd_bytes = 777,
             .block_bytes = {4096, 2304, 1344},
             .array_bytes_max = 300000},
            6, 4000);
}

TEST(PoolModelTest, LargeSlabsWithBitmapsOfTheirOwn) {
  run_model({.slab_bytes = 90 * 4096,
             .slab_count = 5,
             .odd_bytes = 64,
             .block_bytes = {4096, 640, 60, 100000},
             .array_bytes_max = 900000},
            4, 4000);
}

}  // namespace
}  // namespace quire
