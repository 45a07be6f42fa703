// Goal: a commit that the system refuses is out of memory for that one call and changes nothing
//   else, wherever in a history it happens.
// Method: one recorded history of every kind of allocation is replayed with its n-th commit refused
//   for n = 1, 2, 3 ... until none is left to refuse: once alone, once with all commits after it.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "core/pool.h"
#include "support/fake_memory.h"

namespace quire {
namespace {

using test::FakeMemory;

constexpr std::size_t kSlab = 8192;

void expect_same(const PoolBytes& a, const PoolBytes& b) {
  EXPECT_EQ(a.committed, b.committed);
  EXPECT_EQ(a.blocks, b.blocks);
  EXPECT_EQ(a.arrays, b.arrays);
}

struct History {
  FakeMemory memory{24 * kSlab};
  Pool pool{memory, {.slab_bytes = kSlab}};
  FormatId large = pool.add_format(4096), small = pool.add_format(700);
  std::vector<BlockId> blocks;
  std::vector<std::byte*> arrays;
  int refusals = 0;

  // Runs one allocation, which fails only when the memory refused a commit during it: many blocks
  // may still fit the slabs there are.
  template <typename F>
  void attempt(F allocate) {
    const PoolBytes before = pool.bytes();
    const std::size_t acquirable = pool.acquirable(small);
    const std::uint64_t refused = memory.refused();
    const bool done = allocate();
    EXPECT_TRUE(done || memory.refused() > refused);
    if (!done) {
      ++refusals;
      expect_same(pool.bytes(), before);
      EXPECT_EQ(pool.acquirable(small), acquirable);
    }
    EXPECT_EQ(memory.committed_bytes(), pool.bytes().committed);
    pool.check_invariants();
  }
  void block(FormatId format) {
    attempt([&] {
      const BlockId id = pool.acquire(format);
      if (id != kNoBlock) blocks.push_back(id);
      return id != kNoBlock;
    });
  }
  void extent(FormatId format, std::size_t count) {
    attempt([&] {
      std::vector<BlockId> out(count);
      const bool done = pool.acquire(format, out);
      if (done) blocks.insert(blocks.end(), out.begin(), out.end());
      return done;
    });
  }
  void array(std::size_t bytes) {
    attempt([&] {
      std::byte* data = pool.acquire_array(bytes);
      if (data != nullptr) arrays.push_back(data);
      return data != nullptr;
    });
  }
  void release_every_other() {
    std::vector<BlockId> rest;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (i % 2 == 0) {
        pool.release(blocks[i]);
      } else {
        rest.push_back(blocks[i]);
      }
    }
    blocks = rest;
    pool.check_invariants();
  }

  void run() {
    for (int i = 0; i < 5; ++i) block(large);
    array(500);
    extent(small, 25);
    array(3 * kSlab - 10);
    release_every_other();
    extent(large, 7);
    for (int i = 0; i < 30; ++i) array(600);
    extent(small, 17);
    for (BlockId id : blocks) pool.release(id);
    for (std::byte* data : arrays) pool.release_array(data);
    pool.check_invariants();
    EXPECT_EQ(memory.committed_bytes(), 0u);
    EXPECT_TRUE(memory.released_is_untouched());
  }
};

void refuse_each_in_turn(std::uint64_t count) {
  History whole;
  whole.run();
  ASSERT_EQ(whole.refusals, 0);
  ASSERT_GE(whole.memory.commits(), 10u);
  int failed = 0;
  for (std::uint64_t n = 1;; ++n) {
    SCOPED_TRACE("commit " + std::to_string(n));
    History history;
    history.memory.refuse_commit(n, count);
    history.run();
    if (history.memory.refused() == 0) {
      EXPECT_GT(n, whole.memory.commits());
      EXPECT_GE(failed, 10);  // histories
      return;
    }
    failed += history.refusals > 0;
  }
}

TEST(PoolCommitTest, OneRefusedCommitFailsOneAllocationOnly) {
  refuse_each_in_turn(1);
}

TEST(PoolCommitTest, AllCommitsRefusedFromTheNthOn) {
  refuse_each_in_turn(std::numeric_limits<std::uint32_t>::max());
}

}  // namespace
}  // namespace quire
