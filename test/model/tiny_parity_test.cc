// Goal: our graph computes what libllama computes, for every feature of an architecture.
// Method: tiny random models with f32 weights and KV, one per feature; the logits of 60 rows read
// in uneven chunks differ from libllama's by at most a thousandth of the largest one.

#include <gtest/gtest.h>

#include <random>

#include "model/oracle.h"
#include "model/running.h"
#include "support/tiny_model.h"

namespace quire {
namespace {

constexpr double kTolerance = 1e-3;  // of the largest |logit|

struct Case {
  const char* name;
  test::TinyModel tiny;
};

class TinyParity : public testing::TestWithParam<Case> {};

std::vector<model::Token> random_tokens(std::size_t count, std::uint32_t vocabulary) {
  std::mt19937 random(7);
  std::vector<model::Token> tokens(count);
  for (auto& token : tokens) token = static_cast<model::Token>(random() % vocabulary);
  return tokens;
}

TEST_P(TinyParity, LogitsAreLibllamas) {
  const test::TempFile file("tiny-parity-" + std::string(GetParam().name) + ".gguf");
  ASSERT_TRUE(test::write_tiny_model(GetParam().tiny, file.path()));
  for (const bool deterministic : {false, true}) {
    const test::Running ours = test::run_model(
        {.path = file.path(), .threads = 1, .deterministic = deterministic, .plain_weights = true},
        {.budget_bytes = 16u << 20, .key_type = KvType::kF32, .value_type = KvType::kF32});
    ASSERT_NE(ours.cache, nullptr);
    test::Oracle libllama(file.path(), {.kv_type = GGML_TYPE_F32, .context = 512, .threads = 1});
    ASSERT_TRUE(libllama.ok());

    constexpr std::size_t kRows = 60;
    const auto tokens = random_tokens(kRows, ours.vocabulary());
    const auto got = ours.read(ours.start(), tokens, 13, kRows);
    const auto want = libllama.logits(tokens, kRows);
    ASSERT_EQ(got.size(), want.size());
    double largest = 0, difference = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      largest = std::max<double>(largest, std::fabs(want[i]));
      difference = std::max<double>(difference, std::fabs(got[i] - want[i]));
    }
    EXPECT_GT(largest, 1);
    EXPECT_LE(difference, kTolerance * largest);
    RecordProperty(deterministic ? "row_by_row" : "ggml", std::to_string(difference / largest));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, TinyParity,
    testing::Values(
        Case{"Llama", {}}, Case{"LlamaTied", {.tied = true}}, Case{"LlamaOneLayer", {.layers = 1}},
        Case{"LlamaHeads80", {.heads = 3, .kv_heads = 3, .head_size = 80}},
        Case{"LlamaHeads128Group8", {.heads = 8, .kv_heads = 1, .head_size = 128}},
        Case{"Llama3Factors", {.rope_factors = true}},
        Case{"LlamaLinearScaling", {.rope_scaling = "linear", .rope_factor = 4}},
        Case{"LlamaYarn", {.rope_scaling = "yarn", .rope_factor = 4, .rope_original_context = 256}},
        Case{"Qwen2", {.architecture = "qwen2"}},
        Case{"Qwen2Tied", {.architecture = "qwen2", .heads = 7, .kv_heads = 1, .tied = true}},
        Case{"Qwen2Yarn",
             {.architecture = "qwen2",
              .rope_scaling = "yarn",
              .rope_factor = 2,
              .rope_original_context = 512}}),
    [](const auto& entry) { return std::string(entry.param.name); });

}  // namespace
}  // namespace quire
