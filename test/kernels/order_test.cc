// Goal: what must not matter does not: tiles merged by hand, where blocks lie in memory, holes or
// none, how many rows are read together, the taps being on.
// Method: random lanes; every variant is compared bit for bit at every level.
#include "kernels/lane_case.h"

namespace quire::kernels::test {
namespace {

constexpr int kCases = 40;

using OrderTest = KernelTest;

// Tiles [borders[i], borders[i + 1]) in separate calls, as threads would take them, last one first.
Attended attend_in_parts(const Kernels& level, const LaneView& lane, QueryView rows,
                         const std::vector<std::uint32_t>& borders) {
  Attended result;
  result.out.assign(std::size_t{rows.tokens} * rows.group * lane.value_size, -1.0f);
  rows.out = result.out.data();
  const std::uint32_t tiles = borders.back() - borders.front();
  const std::size_t stride = tiles * partial_floats(lane.value_size);
  std::vector<float> partial(std::size_t{rows.tokens} * rows.group * stride, -1.0f);
  const Aligned<float> scratch(scratch_floats(lane.key_size, lane.value_size, rows.group, 0));
  for (std::size_t i = borders.size() - 1; i > 0; --i) {
    float* part = partial.data() + (borders[i - 1] - borders[0]) * partial_floats(lane.value_size);
    level.attend_tiles(lane, rows, borders[i - 1], borders[i], part, stride, scratch.get());
  }
  level.merge(rows, lane.value_size, partial.data(), stride, tiles);
  return result;
}

Case long_case(Random& random) {
  Case c = random_case(random);
  c.key_size = c.value_size = pick_of(random, {16u, 32u, 64u});
  c.group = pick(random, 1, 4);
  c.length = pick(random, 1, 3000);
  c.tokens = std::min(c.length, pick(random, 1, 6));
  c.dropped_blocks = 0;
  if (c.window > 0) {
    const std::uint32_t first_row = c.length - c.tokens;
    if (first_row > c.window) c.dropped_blocks = (first_row + 1 - c.window) / c.block_tokens;
  }
  return c;
}

TEST_F(OrderTest, TilesMergedEqualAttend) {
  for (int i = 0; i < kCases && !HasFailure(); ++i) {
    const Case c = long_case(random);
    SCOPED_TRACE(::testing::Message() << c);
    const Text text(c, random);
    const Lane lane = Lane::as_appended(c, text, reference_kernels(), random);
    if (lane.view().live == 0) continue;
    std::vector<std::uint32_t> borders = {first_tile(lane.view())};
    for (std::uint32_t t = borders[0] + 1; t < end_tile(lane.view()); ++t) {
      if (pick(random, 0, 1) == 0) borders.push_back(t);
    }
    borders.push_back(end_tile(lane.view()));
    const QueryView rows = rows_of(c, text, nullptr);
    for (const Kernels* level : levels()) {
      EXPECT_EQ(attend_in_parts(*level, lane.view(), rows, borders),
                attend(*level, lane.view(), rows))
          << name_of(level->isa);
    }
  }
}

TEST_F(OrderTest, PartialsEqualTheReference) {
  for (int i = 0; i < 12 && !HasFailure(); ++i) {
    Case c = long_case(random);
    c.length = std::min(c.length, 1200u);
    c.tokens = std::min(c.tokens, c.length);
    c.dropped_blocks = 0;
    SCOPED_TRACE(::testing::Message() << c);
    const Text text(c, random);
    const Lane lane = Lane::as_appended(c, text, reference_kernels(), random);
    const QueryView rows = rows_of(c, text, nullptr);
    const std::uint32_t tiles = end_tile(lane.view());
    const std::size_t stride = tiles * partial_floats(c.value_size) + 3;
    const auto partials = [&](const Kernels& level) {
      std::vector<float> partial(std::size_t{c.tokens} * c.group * stride, 7.0f);
      const Aligned<float> scratch(scratch_floats(c.key_size, c.value_size, c.group, 0));
      level.attend_tiles(lane.view(), rows, 0, tiles, partial.data(), stride, scratch.get());
      return partial;
    };
    const std::vector<float> expected = partials(reference_kernels());
    for (const Kernels* level : levels()) {
      const std::vector<float> found = partials(*level);
      EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0)
          << name_of(level->isa);
    }
  }
}

TEST_F(OrderTest, WhereBlocksLieAndHolesDoNotMatter) {
  for (int i = 0; i < kCases && !HasFailure(); ++i) {
    Case c = random_case(random);
    c.dropped_blocks = 0;
    SCOPED_TRACE(::testing::Message() << c);
    const Text text(c, random);
    for (const Kernels* level : levels()) {
      SCOPED_TRACE(name_of(level->isa));
      Lane lane = Lane::as_appended(c, text, *level, random);
      const QueryView rows = rows_of(c, text, nullptr);
      const Attended expected = attend(*level, lane.view(), rows);
      lane.move_blocks(random);
      EXPECT_EQ(attend(*level, lane.view(), rows), expected) << "moved";
      const Lane dense = Lane::repacked(c, text, *level, random);
      EXPECT_EQ(attend(*level, dense.view(), rows), expected) << "repacked";
      Case other = c;
      for (other.block_tokens = 8; other.block_tokens <= 64; other.block_tokens *= 2) {
        const Lane resized = Lane::as_appended(other, text, *level, random);
        EXPECT_EQ(attend(*level, resized.view(), rows), expected) << other.block_tokens;
      }
    }
  }
}

// Row i of a chunk is row i of any smaller chunk, also of one that ends with it: the blocks are
// then still filling.
TEST_F(OrderTest, ChunksAndSingleRowsAgree) {
  for (int i = 0; i < 40 && !HasFailure(); ++i) {
    Case c = random_case(random);
    c.length = pick(random, 1, 900);
    c.tokens = std::min(c.length, pick(random, 2, 60));
    c.group = pick(random, 1, 5);
    if (c.key_size > 64) c.key_size = c.value_size = 48;
    c.dropped_blocks = 0;
    SCOPED_TRACE(::testing::Message() << c);
    const Text text(c, random);
    for (const Kernels* level : levels()) {
      SCOPED_TRACE(name_of(level->isa));
      const Lane lane = Lane::as_appended(c, text, *level, random);
      const QueryView rows = rows_of(c, text, nullptr);
      const Attended whole = attend(*level, lane.view(), rows);
      const std::size_t row_floats = std::size_t{c.group} * c.value_size;
      for (std::uint32_t t = 0; t < c.tokens;) {
        Case part = c;
        part.tokens = std::min(c.tokens - t, pick_of(random, {1u, 1u, 2u, 7u, 16u, 40u}));
        part.length = c.length - c.tokens + t + part.tokens;
        QueryView some = rows_of(part, text, nullptr);
        some.q = rows.q + t * rows.q_stride;
        const Lane filling = Lane::as_appended(part, text, *level, random);
        const Attended result = attend(*level, filling.view(), some);
        EXPECT_EQ(std::memcmp(result.out.data(), whole.out.data() + t * row_floats,
                              result.out.size() * sizeof(float)),
                  0)
            << "token " << t << " of " << part.tokens;
        t += part.tokens;
      }
    }
  }
}

}  // namespace
}  // namespace quire::kernels::test
