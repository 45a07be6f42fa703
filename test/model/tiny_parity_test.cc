// Goal: our graph computes what libllama computes, for every feature of an architecture.
// Method: tiny random models with f32 weights and KV, one per feature; the logits of 60 rows (or of
// more than three windows) read in uneven chunks differ from libllama's by at most a thousandth of
// the largest one.

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
  std::size_t rows = 60;
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

    const std::size_t rows = GetParam().rows;
    const auto tokens = random_tokens(rows, ours.vocabulary());
    const auto got = ours.read(ours.start(), tokens, 13, rows);
    const auto want = libllama.logits(tokens, rows);
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

// 4 window layers and 2 full ones, whose rotations differ.
test::TinyModel tiny_gemma3(std::function<void(gguf_context*)> edit = {}) {
  return {.architecture = "gemma3",
          .layers = 6,
          .heads = 4,
          .kv_heads = 1,
          .width = 160,
          .window = 32,
          .tied = true,
          .edit = [edit = std::move(edit)](gguf_context* file) {
            gguf_set_val_u32(file, "gemma3.attention.sliding_window_pattern", 3);
            gguf_set_val_f32(file, "gemma3.rope.freq_base", 1e6f);
            if (edit) edit(file);
          }};
}

void linear_scaling(gguf_context* file) {
  gguf_set_val_str(file, "gemma3.rope.scaling.type", "linear");
  gguf_set_val_f32(file, "gemma3.rope.scaling.factor", 8);
}

void flags_and_local_base(gguf_context* file) {
  constexpr bool kWindowed[] = {false, true, true, false, true, true};
  gguf_set_arr_data(file, "gemma3.attention.sliding_window_pattern", GGUF_TYPE_BOOL, kWindowed, 6);
  gguf_set_val_f32(file, "gemma3.rope.freq_base_swa", 500);
  gguf_set_val_f32(file, "gemma3.final_logit_softcapping", 30);
}

void no_window(gguf_context* file) {
  gguf_remove_key(file, "gemma3.attention.sliding_window");
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
              .rope_original_context = 512}},
        Case{"Qwen3", {.architecture = "qwen3"}},
        Case{"Qwen3WideHeads",
             {.architecture = "qwen3",
              .heads = 4,
              .kv_heads = 2,
              .head_size = 128,
              .width = 192,
              .tied = true}},
        Case{"Gemma3", tiny_gemma3(), 110}, Case{"Gemma3Scaled", tiny_gemma3(linear_scaling), 110},
        Case{"Gemma3Flags", tiny_gemma3(flags_and_local_base), 110},
        Case{"Gemma3NoWindow", tiny_gemma3(no_window), 110},
        // The size with another scale; and no pattern in the file: each sixth layer is full.
        Case{"Gemma3Of62Layers",
             {.architecture = "gemma3",
              .layers = 62,
              .heads = 2,
              .kv_heads = 1,
              .width = 96,
              .window = 32,
              .feed_forward = 96},
             80},
        Case{"Exaone", {.architecture = "exaone", .rope_factors = true}},
        Case{"InternLm2", {.architecture = "internlm2"}}),
    [](const auto& entry) { return std::string(entry.param.name); });

}  // namespace
}  // namespace quire
