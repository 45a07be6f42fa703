// Goal: what a model tells its cache beyond the sizes is true: how queries and keys were rotated,
// and the weights of the output projection. Method: rows that ggml rotated, with every scaling it
// knows, are turned back by the frequencies; weights against the tensors of a file, in panels and
// as they are.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "gguf.h"
#include "model/architecture.h"
#include "model/running.h"
#include "support/tiny_model.h"

namespace quire::model {
namespace {

constexpr std::uint32_t kSize = 64;

// ggml's rotation of one head at each position: [position][kSize].
std::vector<float> rotated(const Rope& rope, const std::vector<float>& head,
                           const std::vector<std::int32_t>& positions,
                           const std::vector<float>& factors) {
  const ggml_context_ptr context(
      ggml_init({.mem_size = 4u << 20, .mem_buffer = nullptr, .no_alloc = false}));
  const auto rows = static_cast<std::int64_t>(positions.size());
  ggml_tensor* x = ggml_new_tensor_3d(context.get(), GGML_TYPE_F32, kSize, 1, rows);
  for (std::int64_t r = 0; r < rows; ++r) {
    std::copy(head.begin(), head.end(), static_cast<float*>(x->data) + r * kSize);
  }
  ggml_tensor* at = ggml_new_tensor_1d(context.get(), GGML_TYPE_I32, rows);
  std::copy(positions.begin(), positions.end(), static_cast<std::int32_t*>(at->data));
  ggml_tensor* divisors = nullptr;
  if (!factors.empty()) {
    divisors = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, kSize / 2);
    std::copy(factors.begin(), factors.end(), static_cast<float*>(divisors->data));
  }
  ggml_tensor* y =
      ggml_rope_ext(context.get(), x, at, divisors, static_cast<int>(rope.dims), rope.type,
                    static_cast<int>(rope.original_context), rope.base, rope.frequency_scale,
                    rope.extrapolation, rope.magnitude, kYarnBetaFast, kYarnBetaSlow);
  ggml_cgraph* graph = ggml_new_graph(context.get());
  ggml_build_forward_expand(graph, y);
  ggml_graph_compute_with_ctx(context.get(), graph, 1);
  const auto* values = static_cast<const float*>(y->data);
  return {values, values + rows * kSize};
}

TEST(RopeTest, FrequenciesTurnBackWhatGgmlRotated) {
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> head(kSize), factors(kSize / 2);
  for (float& x : head) x = normal(random);
  for (float& x : factors) x = 2 + std::abs(normal(random));
  const std::vector<std::int32_t> positions = {0, 1, 17, 300, 2000};
  const Rope plain{.dims = kSize, .original_context = 512};
  Rope scaled = plain, yarn = plain;
  scaled.frequency_scale = 0.25f;
  yarn.frequency_scale = 0.25f, yarn.extrapolation = 1, yarn.base = 100'000;
  for (Rope rope : {plain, scaled, yarn}) {
    for (const int type : {GGML_ROPE_TYPE_NORMAL, GGML_ROPE_TYPE_NEOX}) {
      for (const bool divided : {false, true}) {
        rope.type = type;
        const std::vector<float> none;
        const std::vector<float> y = rotated(rope, head, positions, divided ? factors : none);
        const std::vector<float> frequency = rope.frequencies(divided ? factors.data() : nullptr);
        ASSERT_EQ(frequency.size(), kSize / 2);
        const float magnitude = y[0] / head[0];  // position 0 is not turned
        for (std::size_t p = 0; p < positions.size(); ++p) {
          for (std::uint32_t i = 0; i < kSize / 2; ++i) {
            const std::uint32_t low = rope.halves() ? i : 2 * i;
            const std::uint32_t high = rope.halves() ? i + kSize / 2 : 2 * i + 1;
            const double angle = -double{frequency[i]} * positions[p];
            const double a = y[p * kSize + low], b = y[p * kSize + high];
            EXPECT_NEAR(std::cos(angle) * a - std::sin(angle) * b, magnitude * head[low], 2e-3)
                << "pair " << i << " at " << positions[p] << ", yarn " << rope.extrapolation;
            EXPECT_NEAR(std::sin(angle) * a + std::cos(angle) * b, magnitude * head[high], 2e-3);
          }
        }
      }
    }
  }
}

TEST(RopeTest, AModelSaysHowItsLayersTurn) {
  const test::TempFile file("rope-test.gguf");
  for (const char* architecture : {"llama", "qwen2", "gemma3"}) {
    test::TinyModel tiny{.architecture = architecture, .rope_factors = true};
    if (tiny.gemma()) tiny.layers = 6, tiny.window = 16;
    ASSERT_TRUE(test::write_tiny_model(tiny, file.path()));
    const auto running =
        test::run_model({.path = file.path(), .threads = 1}, {.budget_bytes = 32u << 20});
    const std::vector<LayerShape>& layers = running.model->info().attention;
    for (const LayerShape& layer : layers) {
      EXPECT_EQ(layer.rope.halves, std::string(architecture) != "llama");
      ASSERT_EQ(layer.rope.frequency.size(), layer.key_size / 2);
      EXPECT_LT(layer.rope.frequency[0], 1.0f) << "divided by the file's factors, about 3";
    }
    EXPECT_TRUE(running.cache->start({.future = 512}).ok());
  }
}

TEST(OutputRowsTest, AreTheWeightsOfTheFile) {
  const test::TempFile file("output-test.gguf");
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q4_1, GGML_TYPE_Q6_K}) {
    ASSERT_TRUE(test::write_tiny_model({.feed_forward = 256, .type = type}, file.path()));
    ggml_context* tensors = nullptr;
    const gguf_context_ptr opened(
        gguf_init_from_file(file.path().c_str(), {.no_alloc = false, .ctx = &tensors}));
    const ggml_context_ptr owner(tensors);
    const ggml_tensor* weight = ggml_get_tensor(tensors, "blk.1.attn_output.weight");
    ASSERT_NE(weight, nullptr);
    const auto inputs = static_cast<std::size_t>(weight->ne[0]);
    std::vector<float> expected(inputs * 5), rows(expected);
    for (std::size_t n = 0; n < 5; ++n) {
      const auto* from = static_cast<const std::byte*>(weight->data) + (n + 30) * weight->nb[1];
      if (type == GGML_TYPE_F32) {
        std::memcpy(&expected[n * inputs], from, inputs * sizeof(float));
      } else {
        ggml_get_type_traits(type)->to_float(from, &expected[n * inputs], weight->ne[0]);
      }
    }
    for (const bool plain : {false, true}) {
      const auto model = Model::load({.path = file.path(), .threads = 1, .plain_weights = plain});
      ASSERT_TRUE(model.ok()) << model.status().message();
      const LayerShape& layer = (*model)->info().attention[1];
      EXPECT_EQ(layer.output.size, (*model)->info().embedding);
      layer.output.rows(30, 35, rows.data());
      for (std::size_t i = 0; i < rows.size(); ++i) {
        ASSERT_NEAR(rows[i], expected[i], 1e-6) << ggml_type_name(type) << ", plain " << plain;
      }
    }
  }
}

}  // namespace
}  // namespace quire::model
