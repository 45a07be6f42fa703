// Goal: the pool keeps its contract at its borders: slab sizes, rounding, exact capacity, arrays of
//   whole slabs, all-or-none, refused commits, and bugs of the caller are caught.
// Method: small pools over a fake memory, filled to the last byte; death tests for misuse.
#include "core/pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "support/fake_memory.h"

namespace quire {
namespace {

using test::FakeMemory;

constexpr std::size_t kKiB = 1024, kMiB = 1024 * kKiB;

std::vector<BlockId> acquire_all(Pool& pool, FormatId format) {
  std::vector<BlockId> blocks;
  for (BlockId b = pool.acquire(format); b != kNoBlock; b = pool.acquire(format)) {
    blocks.push_back(b);
  }
  return blocks;
}

TEST(PoolTest, SlabBytesArePartsOfAnExtentWithinOne128thOfTheBudget) {
  EXPECT_EQ(Pool::slab_bytes_for(64 * kMiB, 16 * kKiB, 4096), 64 * kKiB);
  EXPECT_EQ(Pool::slab_bytes_for(64 * kMiB, 90 * 4096, 4096), std::size_t{18 * 4096});
  EXPECT_EQ(Pool::slab_bytes_for(64 * kMiB, 48 * 4096, 4096), std::size_t{16 * 4096});
  EXPECT_EQ(Pool::slab_bytes_for(64 * kMiB, 256 * 5120, 5120), std::size_t{16 * 5120});
  EXPECT_EQ(Pool::slab_bytes_for(64 * kMiB, 2 * kMiB, 128 * kKiB), 128 * kKiB);
  EXPECT_EQ(Pool::slab_bytes_for(1 * kMiB, 2 * kMiB, 4096), 8 * kKiB);
  EXPECT_EQ(Pool::slab_bytes_for(1 * kMiB, 2 * kMiB, 12 * kKiB), 12 * kKiB);
  EXPECT_EQ(Pool::slab_bytes_for(0, 0, 0), std::size_t{4096});
  for (std::size_t budget : {100 * kKiB, 3 * kMiB + 17, 64 * kMiB, 5000 * kMiB}) {
    for (std::size_t block : {64, 1344, 2304, 4096, 5120, 33 * 1024, 100 * 1024}) {
      for (std::size_t extent : {block, block * 7, block * 90, block * 1000}) {
        SCOPED_TRACE(::testing::Message() << budget << " " << extent << " " << block);
        const std::size_t slab = Pool::slab_bytes_for(budget, extent, block);
        EXPECT_EQ(slab % 4096, 0u);
        EXPECT_GE(slab, block);
        EXPECT_LE((slab % block) * 15, slab);
        EXPECT_TRUE(budget < 64 * kMiB || slab <= budget / 128);
      }
    }
  }
}

TEST(PoolTest, ArrayRoundingWastesAtMostOneEighthOfWholeGrains) {
  std::size_t previous = 0;
  for (std::size_t bytes = 1; bytes < 300 * kKiB; bytes += 1 + bytes / 200) {
    const std::size_t charged = Pool::array_bytes(bytes);
    const std::size_t grains = (bytes + kBlockGrain - 1) / kBlockGrain * kBlockGrain;
    EXPECT_EQ(charged % kBlockGrain, 0u) << bytes;
    EXPECT_GE(charged, grains) << bytes;
    EXPECT_LE(charged - grains, grains / 8) << bytes;
    EXPECT_GE(charged, previous) << bytes;
    EXPECT_EQ(Pool::array_bytes(charged), charged) << bytes;
    previous = charged;
  }
  EXPECT_EQ(Pool::array_bytes(0), kBlockGrain);
}

TEST(PoolTest, HoldsExactlyWhatTheBudgetHolds) {
  FakeMemory memory(10 * 64 * kKiB + 5000);  // the odd bytes are too few for a slab
  Pool pool(memory, {.slab_bytes = 64 * kKiB});
  const FormatId format = pool.add_format(2300);  // stride 2304, 28 a slab
  EXPECT_EQ(pool.acquirable(format), 280u);
  EXPECT_EQ(pool.bytes().budget, memory.bytes());
  const std::vector<BlockId> blocks = acquire_all(pool, format);
  EXPECT_EQ(blocks.size(), 280u);
  EXPECT_EQ(pool.acquirable(format), 0u);
  EXPECT_EQ(pool.bytes().committed, 10 * 64 * kKiB);
  EXPECT_EQ(pool.bytes().blocks, 280u * 2304);
  EXPECT_EQ(pool.bytes().stranded, 10 * 64 * kKiB - 280 * 2304);
  pool.check_invariants();
  for (BlockId block : blocks) {
    EXPECT_EQ(pool.format_of(block), format);
    pool.release(block);
  }
  EXPECT_EQ(pool.bytes().committed, 0u);
  EXPECT_EQ(pool.bytes().peak, 10 * 64 * kKiB);
  EXPECT_EQ(memory.committed_bytes(), 0u);
  pool.check_invariants();
}

TEST(PoolTest, BlocksOfAnySizeUpToASlab) {
  for (std::size_t slab_bytes : {4 * kKiB, 64 * kKiB, 360 * kKiB}) {
    FakeMemory memory(6 * slab_bytes);
    Pool pool(memory, {.slab_bytes = slab_bytes});
    for (std::size_t bytes : {std::size_t{1}, std::size_t{64}, std::size_t{127}, slab_bytes / 9,
                              slab_bytes / 2 + 1, slab_bytes - 1, slab_bytes}) {
      SCOPED_TRACE(::testing::Message() << "slab " << slab_bytes << " block " << bytes);
      const FormatId format = pool.add_format(bytes);
      const std::size_t fits = pool.acquirable(format);
      const std::size_t stride = (bytes + 63) / 64 * 64;
      EXPECT_LE(fits * stride, memory.bytes());
      const std::size_t whole = 6 * (slab_bytes / stride);  // less the bitmaps of tiny blocks
      EXPECT_GE(fits + whole / 512 + 6, whole);
      EXPECT_TRUE(fits == whole || whole / 6 > 512);
      const std::vector<BlockId> blocks = acquire_all(pool, format);
      ASSERT_EQ(blocks.size(), fits);
      pool.check_invariants();
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        std::memset(pool.address(blocks[i]), static_cast<int>(i), bytes);
      }
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        const std::byte* data = pool.address(blocks[i]);
        ASSERT_EQ(data[0], static_cast<std::byte>(i));
        ASSERT_EQ(std::memcmp(data, data + 1, bytes - 1), 0);
      }
      for (BlockId block : blocks) pool.release(block);
      EXPECT_EQ(pool.bytes().committed, 0u);
    }
    EXPECT_TRUE(memory.released_is_untouched());
  }
}

TEST(PoolTest, ABudgetBelowOneSlabHasNoRoom) {
  FakeMemory memory(4096);
  Pool pool(memory, {.slab_bytes = 8192});
  const FormatId format = pool.add_format(512);
  EXPECT_EQ(pool.acquirable(format), 0u);
  EXPECT_EQ(pool.acquire(format), kNoBlock);
  EXPECT_EQ(pool.acquire_array(64), nullptr);
  EXPECT_EQ(pool.acquire_array(8192), nullptr);
  EXPECT_EQ(memory.commits(), 0u);
  pool.check_invariants();
}

TEST(PoolTest, LargeArraysAreContiguousSlabs) {
  FakeMemory memory(10 * 8192);
  Pool pool(memory, {.slab_bytes = 8192});
  std::byte* three = pool.acquire_array(2 * 8192 + 1);
  ASSERT_NE(three, nullptr);
  std::memset(three, 1, 2 * 8192 + 1);
  EXPECT_EQ(pool.bytes().committed, 3u * 8192);
  EXPECT_EQ(pool.bytes().arrays, Pool::array_bytes(2 * 8192 + 1));
  EXPECT_EQ(pool.acquire_array(8 * 8192), nullptr);
  EXPECT_EQ(pool.acquire_array(~std::size_t{0}), nullptr);
  std::byte* seven = pool.acquire_array(7 * 8192);
  ASSERT_NE(seven, nullptr);
  EXPECT_EQ(pool.acquire_array(1), nullptr);
  pool.check_invariants();
  pool.release_array(three);
  EXPECT_NE(pool.acquire_array(100), nullptr);
  pool.check_invariants();
  pool.release_array(seven);
  EXPECT_EQ(pool.bytes().committed, 8192u);
}

TEST(PoolTest, ArraysOfAllSizesShareSlabs) {
  FakeMemory memory(16 * 64 * kKiB);
  Pool pool(memory, {.slab_bytes = 64 * kKiB});
  std::size_t charged = 0;
  for (std::size_t bytes = 64; charged + Pool::array_bytes(bytes) < 63 * kKiB; bytes += 192) {
    ASSERT_NE(pool.acquire_array(bytes), nullptr);
    charged += Pool::array_bytes(bytes);
  }
  EXPECT_EQ(pool.bytes().arrays, charged);
  EXPECT_EQ(pool.bytes().committed, 64 * kKiB);
  pool.check_invariants();
}

TEST(PoolTest, ArraysTakeTheSmallestHoleThatFits) {
  FakeMemory memory(8192);
  Pool pool(memory, {.slab_bytes = 8192});
  std::byte* large = pool.acquire_array(1024);
  ASSERT_NE(pool.acquire_array(64), nullptr);
  std::byte* small = pool.acquire_array(256);
  ASSERT_NE(pool.acquire_array(64), nullptr);
  pool.release_array(large);
  pool.release_array(small);
  EXPECT_EQ(pool.acquire_array(200), small);
  EXPECT_EQ(pool.acquire_array(1000), large);
  pool.check_invariants();
}

TEST(PoolTest, AcquiresAllOrNone) {
  FakeMemory memory(4 * 16 * kKiB);
  Pool pool(memory, {.slab_bytes = 16 * kKiB});
  const FormatId format = pool.add_format(4096);
  std::vector<BlockId> out(17);
  EXPECT_FALSE(pool.acquire(format, out));
  EXPECT_EQ(out, std::vector<BlockId>(17, kNoBlock));
  EXPECT_EQ(memory.commits(), 0u) << "what cannot fit must not be tried";
  out.resize(16);
  EXPECT_TRUE(pool.acquire(format, out));
  EXPECT_FALSE(pool.acquire(format, std::span(out).first(1)));
  EXPECT_TRUE(pool.acquire(format, std::span<BlockId>()));
  pool.check_invariants();
}

TEST(PoolTest, PrefersTheFullestSlabSoThatSlabsEmpty) {
  FakeMemory memory(4 * 16 * kKiB);
  Pool pool(memory, {.slab_bytes = 16 * kKiB});
  const FormatId format = pool.add_format(4096);
  std::vector<BlockId> blocks(16);  // 4 slabs of 4, in order
  ASSERT_TRUE(pool.acquire(format, blocks));
  for (int i : {0, 1, 2, 4, 5, 8}) pool.release(blocks[static_cast<std::size_t>(i)]);
  EXPECT_EQ(pool.acquire(format), blocks[8]);  // slab 2 had one hole, slab 1 two, slab 0 three
  EXPECT_EQ(pool.acquire(format), blocks[4]);
  EXPECT_EQ(pool.acquire(format), blocks[5]);
  pool.release(blocks[3]);
  EXPECT_EQ(pool.bytes().committed, 3u * 16 * kKiB);
  pool.check_invariants();
}

TEST(PoolTest, ClosesTheEmptiestSlabsWhoseBlocksFindRoomInOthers) {
  FakeMemory memory(4 * 16 * kKiB);
  Pool pool(memory, {.slab_bytes = 16 * kKiB});
  const FormatId format = pool.add_format(4096);
  std::vector<BlockId> blocks(16);  // 4 slabs of 4, in order
  ASSERT_TRUE(pool.acquire(format, blocks));
  EXPECT_EQ(pool.close_emptiest(4), 0u) << "full slabs have no room for others' blocks";
  for (int i : {0, 1, 2, 4, 5, 8}) pool.release(blocks[static_cast<std::size_t>(i)]);
  pool.set_idle(blocks[3], true);

  EXPECT_EQ(pool.close_emptiest(4), 1u) << "6 free blocks: those of one slab, beside its own";
  EXPECT_TRUE(pool.closed(blocks[3]));
  EXPECT_FALSE(pool.closed(blocks[6]));
  const BlockId moved = pool.acquire(format);
  EXPECT_FALSE(pool.closed(moved));
  pool.set_idle(blocks[3], false);
  pool.release(blocks[3]);
  EXPECT_TRUE(pool.closed(blocks[3])) << "until slabs are opened";
  pool.open_slabs();
  pool.check_invariants();
  EXPECT_EQ(pool.free_slabs(Idle::kThere), 1u);

  EXPECT_EQ(pool.close_emptiest(1), 0u) << "2 free blocks are less than a slab's";
  pool.release(moved);
  pool.release(blocks[12]);
  EXPECT_EQ(pool.close_emptiest(1), 1u);
  EXPECT_TRUE(pool.closed(blocks[6]));
  pool.open_slabs();  // with its blocks where they were
  pool.check_invariants();
  EXPECT_EQ(pool.acquirable(format), 4u + 4);
}

TEST(PoolTest, ReusesMemoryOnlyAfterRelease) {
  FakeMemory memory(2 * 8192);
  Pool pool(memory, {.slab_bytes = 8192});
  const FormatId format = pool.add_format(4096);
  const BlockId first = pool.acquire(format), second = pool.acquire(format);
  std::byte* data = pool.address(second);
  std::memset(data, 0x11, 4096);
  pool.release(first);
  EXPECT_EQ(data[4095], std::byte{0x11}) << "a slab in use keeps its memory";
  EXPECT_TRUE(memory.is_committed(data, 4096));
  pool.release(second);
  EXPECT_FALSE(memory.is_committed(data, 4096)) << "an empty slab gives its memory back";
  EXPECT_TRUE(memory.released_is_untouched());
  const BlockId again = pool.acquire(format);
  EXPECT_NE(pool.address(again)[0], std::byte{0x11});
  EXPECT_NE(pool.address(again)[0], std::byte{FakeMemory::kReleased});
}

TEST(PoolTest, GivesAllMemoryBackWhenItEnds) {
  FakeMemory memory(8 * 8192);
  {
    Pool pool(memory, {.slab_bytes = 8192});
    ASSERT_NE(pool.acquire(pool.add_format(1000)), kNoBlock);
    ASSERT_NE(pool.acquire_array(100), nullptr);
    ASSERT_NE(pool.acquire_array(3 * 8192), nullptr);
    EXPECT_EQ(memory.committed_bytes(), 5u * 8192);
  }
  EXPECT_EQ(memory.committed_bytes(), 0u);
}

TEST(PoolTest, BookkeepingIsSmallAndFixed) {
  FakeMemory memory(16 * kMiB);
  Pool pool(memory, {.slab_bytes = 64 * kKiB});
  const FormatId format = pool.add_format(4096);
  const std::size_t before = pool.bytes().bookkeeping;
  EXPECT_LT(before, 256u * 90 + 16 * kKiB);
  acquire_all(pool, format);
  EXPECT_EQ(pool.bytes().bookkeeping, before);
}

class PoolDeathTest : public ::testing::Test {
 protected:
  FakeMemory memory_{8 * 8192};
  Pool pool_{memory_, {.slab_bytes = 8192}};
  FormatId format_ = pool_.add_format(1024);
};

TEST_F(PoolDeathTest, SecondRelease) {
  const BlockId a = pool_.acquire(format_), b = pool_.acquire(format_);
  pool_.release(a);
  EXPECT_DEATH(pool_.release(a), "QUIRE_CHECK failed");  // its slab still lives
  pool_.release(b);
  EXPECT_DEATH(pool_.release(b), "QUIRE_CHECK failed");  // its slab is gone
}

TEST_F(PoolDeathTest, ForeignIds) {
  const BlockId a = pool_.acquire(format_);
  EXPECT_DEATH(pool_.release(kNoBlock), "QUIRE_CHECK failed");
  EXPECT_DEATH(pool_.address(kNoBlock), "QUIRE_CHECK failed");
  EXPECT_DEATH(pool_.release(BlockId{static_cast<std::uint32_t>(a) + 1}), "QUIRE_CHECK failed");
  EXPECT_DEATH(pool_.format_of(BlockId{static_cast<std::uint32_t>(a) + 16}), "QUIRE_CHECK failed");
  EXPECT_DEATH(pool_.acquire(FormatId{7}), "QUIRE_CHECK failed");
}

TEST_F(PoolDeathTest, ForeignArrays) {
  std::byte* small = pool_.acquire_array(256);
  std::byte* other = pool_.acquire_array(256);
  std::byte* large = pool_.acquire_array(2 * 8192);
  const BlockId block = pool_.acquire(format_);
  std::byte local{};
  EXPECT_DEATH(pool_.release_array(nullptr), "QUIRE_CHECK failed");
  EXPECT_DEATH(pool_.release_array(&local), "QUIRE_CHECK failed");
  EXPECT_DEATH(pool_.release_array(small + 1), "QUIRE_CHECK failed");
  EXPECT_DEATH(pool_.release_array(small + 64), "QUIRE_CHECK failed");
  EXPECT_DEATH(pool_.release_array(large + 64), "QUIRE_CHECK failed");
  EXPECT_DEATH(pool_.release_array(large + 8192), "QUIRE_CHECK failed");
  EXPECT_DEATH(pool_.release_array(pool_.address(block)), "QUIRE_CHECK failed");
  pool_.release_array(small);
  EXPECT_DEATH(pool_.release_array(small), "QUIRE_CHECK failed");
  pool_.release_array(other);
  EXPECT_DEATH(pool_.release_array(other), "QUIRE_CHECK failed");
  pool_.release_array(large);
  EXPECT_DEATH(pool_.release_array(large), "QUIRE_CHECK failed");
}

TEST_F(PoolDeathTest, WrongFormats) {
  EXPECT_DEATH(pool_.add_format(0), "QUIRE_CHECK failed");
  EXPECT_DEATH(pool_.add_format(8193), "QUIRE_CHECK failed");
  EXPECT_DEATH(Pool(memory_, {.slab_bytes = 5000}), "QUIRE_CHECK failed");
}

}  // namespace
}  // namespace quire
