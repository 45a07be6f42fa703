// Goal: on q, k and v of a real model policies keep exactly what a separate program computes from
//   their formulas.
// Method: the recorded rows (test/oracles) are read into a cache, reviewed as the goldens say, and
//   live positions compared lane by lane, on every instruction set of the machine.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "cache/rig.h"

namespace quire {
namespace {

struct Recorded {
  std::uint32_t layers = 0, tokens = 0, query_heads = 0, kv_heads = 0, size = 0;
  std::vector<std::vector<float>> q, k, v;  // [layer][tokens * heads * size]
};

Recorded read_recorded(const std::string& path) {
  Recorded r;
  std::ifstream in(path, std::ios::binary);
  std::string line, word;
  std::getline(in, line);
  std::istringstream head(line);
  head >> word >> word >> word >> r.layers >> word >> r.tokens >> word >> r.query_heads >> word >>
      r.kv_heads >> word >> r.size;
  const std::string body{std::istreambuf_iterator<char>(in), {}};
  const auto* halves = reinterpret_cast<const std::byte*>(body.data());
  std::size_t at = 0;
  const auto take = [&](std::uint32_t heads) {
    std::vector<float> values(std::size_t{r.tokens} * heads * r.size);
    EXPECT_LE((at + values.size()) * 2, body.size());
    for (float& value : values) value = kernels::load_element(halves, KvType::kF16, at++);
    return values;
  };
  for (std::uint32_t l = 0; l < r.layers; ++l) {
    r.q.push_back(take(r.query_heads));
    r.k.push_back(take(r.kv_heads));
    r.v.push_back(take(r.kv_heads));
  }
  EXPECT_EQ(at * 2, body.size());
  return r;
}

struct Golden {
  std::string spec;
  std::uint32_t keep = 0, prompt = 0;
  std::vector<std::vector<Position>> lanes;
};

std::vector<Golden> read_goldens(const std::string& path) {
  std::vector<Golden> goldens;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string word;
    if (line.starts_with("#")) continue;
    if (line.starts_with("case ")) {
      Golden golden;
      words >> word >> golden.spec >> word >> golden.keep >> word >> golden.prompt;
      goldens.push_back(golden);
      continue;
    }
    words >> word >> word;
    std::vector<Position> lane;
    for (Position p = 0; words >> p;) lane.push_back(p);
    goldens.back().lanes.push_back(lane);
  }
  return goldens;
}

// Rows [first, first + rows) in one step.
void read_rows(Cache& cache, SequenceId id, const Recorded& r, std::uint32_t first,
               std::uint32_t rows, bool answer, std::uint32_t window_rows) {
  const std::vector<Segment> step{{id, rows, answer, window_rows}};
  ASSERT_TRUE(cache.begin(step).ok());
  std::vector<float> out(std::size_t{rows} * r.query_heads * r.size);
  for (std::uint32_t l = 0; l < r.layers; ++l) {
    const std::size_t kv = std::size_t{first} * r.kv_heads * r.size;
    cache.append(l, r.k[l].data() + kv, r.v[l].data() + kv, 0, 1);
    cache.attend(l, r.q[l].data() + std::size_t{first} * r.query_heads * r.size, out.data(), 0, 1);
  }
  cache.commit();
}

// The model turns neighbouring values as pairs, by a base of 100,000.
RopeShape recorded_rope(std::uint32_t size) {
  RopeShape rope;
  for (std::uint32_t i = 0; i < size / 2; ++i) {
    rope.frequency.push_back(static_cast<float>(std::pow(100'000.0, -2.0 * i / size)));
  }
  return rope;
}

// As test/oracles/kept.py makes them up.
std::vector<Role> made_up_roles(std::uint32_t tokens) {
  std::vector<Role> roles;
  for (Position p = 0; p < tokens; ++p) roles.push_back(static_cast<Role>((p * p + p / 3) % 6));
  return roles;
}

TEST(OracleTest, PoliciesKeepWhatTheirFormulasSayOfARealModel) {
  const Recorded recorded = read_recorded("test/oracles/smollm2.qkv");
  ASSERT_EQ(recorded.layers, 2u) << "tests run in the repository root";
  const std::vector<Golden> goldens = read_goldens("test/oracles/kept.txt");
  ASSERT_GE(goldens.size(), 20u);
  for (const Isa isa : test::machine_levels()) {
    const std::unique_ptr<Cache> cache = test::open_cache(
        {.layers = std::vector<LayerShape>(recorded.layers, {.kv_heads = recorded.kv_heads,
                                                             .query_heads = recorded.query_heads,
                                                             .key_size = recorded.size,
                                                             .value_size = recorded.size,
                                                             .rope = recorded_rope(recorded.size)}),
         .budget_bytes = 16 << 20,
         .isa = isa});
    for (const Golden& golden : goldens) {
      SCOPED_TRACE(golden.spec + " keep " + std::to_string(golden.keep) + " prompt " +
                   std::to_string(golden.prompt) + " " + name_of(isa));
      const Result<Policy> policy = make_policy(golden.spec);
      ASSERT_TRUE(policy.ok()) << policy.status().message();
      const SequenceId id = test::start(*cache, policy->needs);
      if (policy->needs.roles) {
        ASSERT_TRUE(cache->set_roles(id, 0, made_up_roles(recorded.tokens)).ok());
      }
      const std::uint32_t window = std::min(policy->needs.window, golden.prompt);
      read_rows(*cache, id, recorded, 0, golden.prompt, false, window);
      ASSERT_TRUE(cache->shrink(id, *policy, golden.keep).ok());
      for (Position p = golden.prompt; p < recorded.tokens; ++p) {
        const std::uint32_t left = 16 - (p - golden.prompt) % 16;  // rows to the next review
        const bool watched = policy->needs.answer_window && left <= window;
        read_rows(*cache, id, recorded, p, 1, true, watched ? 1 : 0);
        if (left == 1) {
          ASSERT_TRUE(cache->shrink(id, *policy, golden.keep).ok());
        }
      }
      ASSERT_EQ(golden.lanes.size(), recorded.layers * recorded.kv_heads);
      for (std::uint32_t lane = 0; lane < golden.lanes.size(); ++lane) {
        EXPECT_EQ(*cache->positions(id, lane / recorded.kv_heads, lane % recorded.kv_heads),
                  golden.lanes[lane])
            << "lane " << lane;
      }
      ASSERT_TRUE(cache->drop(id).ok());
    }
  }
}

}  // namespace
}  // namespace quire
