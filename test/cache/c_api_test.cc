// Goal: the C interface says and does what the C++ one does.
// Method: the same text through both, compared bit for bit; refusals by code and message.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "cache/rig.h"
#include "quire/quire.h"

namespace quire {
namespace {

using namespace test;

const quire_layer kLayer{.kv_heads = 2, .query_heads = 6, .key_size = 64, .value_size = 64};
const quire_options kOptions{.layers = &kLayer, .layer_count = 1, .budget_bytes = 4 << 20};

quire_cache* open_c() {
  quire_cache* cache = nullptr;
  quire_error error;
  EXPECT_EQ(quire_open(QUIRE_ABI, &kOptions, &cache, &error), QUIRE_OK) << error.message;
  return cache;
}

std::vector<float> rows(Kind kind, std::uint32_t count, std::uint32_t size) {
  std::vector<float> result;
  for (std::uint32_t p = 0; p < count; ++p) {
    const std::span<const float> row = row_of(5, kind, 0, p, size);
    result.insert(result.end(), row.begin(), row.end());
  }
  return result;
}

TEST(CApiTest, GivesTheBitsOfTheCxxInterface) {
  const std::unique_ptr<Cache> cxx =
      open_cache({.layers = {{.kv_heads = 2, .query_heads = 6, .key_size = 64, .value_size = 64}},
                  .budget_bytes = 4 << 20});
  Outputs expected;
  read(*cxx, start(*cxx), 5, 0, 40, 40, &expected);

  quire_cache* cache = open_c();
  quire_sequence sequence = 0, child = 0;
  ASSERT_EQ(quire_start(cache, "h2o", &sequence, nullptr), QUIRE_OK);
  const quire_segment segment{.sequence = sequence, .rows = 40};
  ASSERT_EQ(quire_begin(cache, &segment, 1, nullptr), QUIRE_OK);
  const std::vector<float> q = rows(Kind::kQuery, 40, 6 * 64), k = rows(Kind::kKey, 40, 2 * 64),
                           v = rows(Kind::kValue, 40, 2 * 64);
  std::vector<float> out(q.size());
  for (std::uint32_t part = 0; part < 2; ++part) {
    quire_append(cache, 0, k.data(), v.data(), part, 2);
  }
  for (std::uint32_t part = 0; part < 2; ++part) {
    quire_attend(cache, 0, q.data(), out.data(), part, 2);
  }
  quire_commit(cache);
  EXPECT_EQ(std::memcmp(out.data(), expected[0].data(), out.size() * sizeof(float)), 0);

  ASSERT_EQ(quire_fork(cache, sequence, &child, nullptr), QUIRE_OK);
  quire_shrink_report report{};
  ASSERT_EQ(quire_shrink(cache, child, "h2o:recent=4", 20, &report, nullptr), QUIRE_OK);
  EXPECT_EQ(report.entries_dropped, 40u);
  const std::uint32_t victims[] = {0, 1};
  ASSERT_EQ(quire_evict(cache, sequence, 0, 1, victims, 2, nullptr), QUIRE_OK);
  std::vector<std::uint32_t> positions(50);
  std::size_t count = 0;
  ASSERT_EQ(quire_positions(cache, sequence, 0, 1, positions.data(), 50, &count, nullptr),
            QUIRE_OK);
  EXPECT_EQ(count, 38u);
  EXPECT_EQ(positions[0], 2u);
  std::vector<float> sums(10);
  ASSERT_EQ(quire_tap(cache, child, 0, 0, sums.data(), 10, &count, nullptr), QUIRE_OK);
  EXPECT_EQ(count, 20u);
  EXPECT_GT(sums[9], 0.0f);
  quire_sequence_stats of{};
  ASSERT_EQ(quire_stats_of(cache, child, &of, nullptr), QUIRE_OK);
  EXPECT_EQ(of.tokens_seen, 40u);
  EXPECT_EQ(of.tokens_kept_min, 20u);
  quire_cache_stats stats{};
  quire_stats(cache, &stats);
  EXPECT_EQ(stats.sequences, 2u);
  EXPECT_EQ(stats.budget_bytes, std::size_t{4} << 20);
  EXPECT_GT(quire_bytes_free(cache), quire_bytes_needed(cache, child, 16));
  EXPECT_GT(quire_tokens_that_fit(cache, nullptr), quire_tokens_that_fit(cache, "h2o"));
  EXPECT_EQ(quire_tokens_that_fit(cache, "nonsense"), 0u);
  EXPECT_EQ(quire_drop(cache, sequence, nullptr), QUIRE_OK);
  quire_close(cache);
}

TEST(CApiTest, RolesReachAPolicy) {
  quire_cache* cache = open_c();
  quire_sequence sequence = 0;
  quire_error error{};
  const char* const policy = "role-conditional:score=knorm,sinks=0,recent=0";
  ASSERT_EQ(quire_start(cache, policy, &sequence, nullptr), QUIRE_OK);
  const quire_segment segment{.sequence = sequence, .rows = 40};
  ASSERT_EQ(quire_begin(cache, &segment, 1, nullptr), QUIRE_OK);
  quire_commit(cache);
  std::vector<std::uint8_t> roles(40, 5);
  for (std::size_t i = 10; i < 20; ++i) roles[i] = 3;
  ASSERT_EQ(quire_set_roles(cache, sequence, 0, roles.data(), roles.size(), &error), QUIRE_OK);
  ASSERT_EQ(quire_shrink(cache, sequence, policy, 10, nullptr, nullptr), QUIRE_OK);
  std::vector<std::uint32_t> positions(10);
  std::size_t count = 0;
  ASSERT_EQ(quire_positions(cache, sequence, 0, 0, positions.data(), 10, &count, nullptr),
            QUIRE_OK);
  ASSERT_EQ(count, 10u);
  EXPECT_EQ(std::ranges::count_if(positions, [](auto p) { return 10 <= p && p < 20; }), 10);
  EXPECT_EQ(quire_set_roles(cache, sequence, 0, nullptr, 1, &error), QUIRE_INVALID_ARGUMENT);
  roles[0] = 6;
  EXPECT_EQ(quire_set_roles(cache, sequence, 0, roles.data(), 1, &error), QUIRE_INVALID_ARGUMENT);
  quire_close(cache);
}

TEST(CApiTest, RefusalsCarryCodeAndMessage) {
  quire_error error{};
  quire_cache* none = nullptr;
  EXPECT_EQ(quire_open(QUIRE_ABI + 1, &kOptions, &none, &error), QUIRE_UNSUPPORTED);
  EXPECT_EQ(error.code, QUIRE_UNSUPPORTED);
  EXPECT_EQ(std::string(error.message).find("abi"), 0u);
  EXPECT_EQ(quire_open(QUIRE_ABI, nullptr, &none, &error), QUIRE_INVALID_ARGUMENT);
  quire_options wrong = kOptions;
  wrong.block_tokens = 5;
  EXPECT_EQ(quire_open(QUIRE_ABI, &wrong, &none, &error), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(error.message).find("block_tokens"), 0u);
  EXPECT_EQ(none, nullptr);

  quire_cache* cache = open_c();
  quire_sequence sequence = 0;
  EXPECT_EQ(quire_start(cache, "nonsense", &sequence, &error), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(quire_drop(cache, 77, &error), QUIRE_NOT_FOUND);
  ASSERT_EQ(quire_start(cache, nullptr, &sequence, &error), QUIRE_OK);
  EXPECT_EQ(quire_shrink(cache, sequence, nullptr, 5, nullptr, &error), QUIRE_INVALID_ARGUMENT);
  EXPECT_EQ(quire_shrink(cache, sequence, "h2o", 5, nullptr, &error), QUIRE_INVALID_ARGUMENT);
  quire_segment segment{.sequence = sequence, .rows = 512};
  std::uint32_t steps = 0;
  while (quire_begin(cache, &segment, 1, &error) == QUIRE_OK) {
    quire_commit(cache);
    ++steps;
  }
  EXPECT_EQ(error.code, QUIRE_OUT_OF_MEMORY);
  EXPECT_NE(std::string(error.message).find("bytes needed"), std::string::npos);
  EXPECT_GT(steps, 3u);
  quire_cancel(cache);
  quire_close(cache);
  quire_close(nullptr);
}

TEST(CApiTest, NamesEveryPolicy) {
  const std::vector<PolicyInfo> policies = list_policies();
  for (std::size_t i = 0; i < policies.size(); ++i) {
    EXPECT_EQ(quire_policy_name(i), policies[i].name);
  }
  EXPECT_EQ(quire_policy_name(policies.size()), nullptr);
}

}  // namespace
}  // namespace quire
