// Goal: in the deterministic mode an answer's logits are the same to the bit cold and behind what
//   others left, in chunks of any size, beside others, preempted, and read again after an eviction;
//   in the default mode they differ by rounding, and by how much is known.
// Method: small random models with the projections of real ones (whole and windowed attention,
//   weights with and without panels), random schedules in pools that are too small (exact_runs.h).

#include "engine/exact_runs.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "support/seed.h"
#include "support/tiny_model.h"

namespace quire {
namespace {

using test::ExactCounts;
using test::ExactRuns;

struct Kind {
  const char* name;
  test::TinyModel model;
};

std::vector<Kind> kinds() {
  return {{"llama, Q8_0", {.type = GGML_TYPE_Q8_0}},
          {"llama, F32", {}},
          {"gemma3, windows of 40, Q4_0",
           {.architecture = "gemma3", .layers = 7, .window = 40, .type = GGML_TYPE_Q4_0}}};
}

std::vector<model::Token> text_of(std::uint32_t length, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<model::Token> tokens(length);
  for (model::Token& token : tokens) token = 3 + static_cast<model::Token>(random() % 250);
  return tokens;
}

ExactCounts run(const Kind& kind, bool deterministic) {
  const test::TempFile file("exact.gguf");
  EXPECT_TRUE(test::write_tiny_model(kind.model, file.path()));
  ExactRuns runs({.path = file.path(), .threads = 1, .deterministic = deterministic},
                 {.budget_bytes = 8u << 20});
  ExactCounts counts;
  if (!runs.open()) return counts;
  const std::vector<model::Token> stem = text_of(70, 1);
  for (std::uint32_t i = 0; i < 5; ++i) {
    std::vector<model::Token> prompt(stem.begin(), stem.begin() + 20 + 12 * i);
    const std::vector<model::Token> own = text_of(10 + 25 * (i % 3), 10 + i);
    prompt.insert(prompt.end(), own.begin(), own.end());
    runs.first(std::move(prompt), 36);
  }
  const std::uint64_t first = test::seed();
  const std::size_t text = (kind.model.layers * kind.model.kv_heads * std::size_t{256} * 160);
  for (std::uint64_t seed = first; seed < first + 12; ++seed) {
    // Every other pool holds a text and a half.
    runs.schedule(seed, seed % 2 == 0 ? text * 3 / 2 : 16 * text, 14, counts);
    if (testing::Test::HasFatalFailure()) break;
  }
  return counts;
}

TEST(Exact, TheDeterministicModeIsBitEqualUnderEverySchedule) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const ExactCounts counts = run(kind, true);
    EXPECT_EQ(counts.difference, 0) << "bits differ";
    EXPECT_EQ(counts.answers, 12 * 14u);
    EXPECT_GT(counts.cached, counts.answers / 4);
    EXPECT_GT(counts.evicted, 0u);
    EXPECT_GT(counts.preemptions, 0u);
  }
}

TEST(Exact, TheDefaultModeDiffersByRounding) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const ExactCounts counts = run(kind, false);
    std::printf("%-30s largest difference %.2g of a row's largest logit\n", kind.name,
                counts.difference);
    // A row of F32 weights rounds at 2^-24; behind 8-bit activations a flipped rounding is 1/127 of
    // a group's largest, a few layers deep.
    EXPECT_LT(counts.difference, 0.2);
    EXPECT_GT(counts.cached, 0u);
  }
}

}  // namespace
}  // namespace quire
