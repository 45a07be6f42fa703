// Goal: a row's product has the same bits for any number of rows beside it and any thread count.
// Method: 512 random rows by a random matrix of every weight type; the first n rows alone, for many
// n and 1 to 4 threads, are memcmp-equal to the same rows of the 512; and all are near the product
// of the dequantized weights.

#include "model/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "model/graph_set.h"
#include "support/seed.h"

namespace quire::model {
namespace {

constexpr std::int64_t kIn = 256, kOut = 37;  // a last tile that is not full
constexpr std::int64_t kMost = 512;

class RowLinearTest : public testing::TestWithParam<ggml_type> {
 protected:
  RowLinearTest() : seed_(test::seed()), random_(seed_) {
    weights_.resize(static_cast<std::size_t>(kIn * kOut));
    x_.resize(static_cast<std::size_t>(kIn * kMost));
    std::normal_distribution<float> normal(0, 1);
    for (float& value : weights_) value = normal(random_);
    for (float& value : x_) value = normal(random_);
    packed_.resize(ggml_row_size(GetParam(), kIn) * static_cast<std::size_t>(kOut));
    ggml_quantize_chunk(GetParam(), weights_.data(), packed_.data(), 0, kOut, kIn, nullptr);
  }

  std::vector<float> product(std::int64_t rows, std::uint32_t threads) {
    const ggml_context_ptr context(ggml_init({.mem_size = (std::size_t{1} << 20) + 16 * kIn * kMost,
                                              .mem_buffer = nullptr,
                                              .no_alloc = false}));
    ggml_tensor* weight = ggml_new_tensor_2d(context.get(), GetParam(), kIn, kOut);
    ggml_tensor* x = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, kIn, rows);
    std::memcpy(weight->data, packed_.data(), packed_.size());
    std::memcpy(x->data, x_.data(), ggml_nbytes(x));
    const Linear linear{.weight = weight};
    const LinearSet set{.linears = {&linear}};
    const ModelShape shape;
    ggml_tensor* y = LayerNodes(context.get(), shape, true).products(set, {.x = x})[0];
    ggml_cgraph* graph = ggml_new_graph(context.get());
    ggml_build_forward_expand(graph, y);
    Threads(threads).run(graph);
    const auto* values = static_cast<const float*>(y->data);
    return {values, values + rows * kOut};
  }

  std::uint64_t seed_;
  std::mt19937_64 random_;
  std::vector<float> weights_, x_;
  std::vector<char> packed_;
};

TEST_P(RowLinearTest, RowsAreIndependent) {
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed_);
  const std::vector<float> all = product(kMost, 1);
  for (std::int64_t rows = 1; rows <= kMost; rows += rows < 40 ? 1 : 59) {
    const auto threads = static_cast<std::uint32_t>(1 + rows % 4);
    const std::vector<float> some = product(rows, threads);
    ASSERT_EQ(std::memcmp(some.data(), all.data(), some.size() * sizeof(float)), 0)
        << rows << " rows, " << threads << " threads";
  }
}

TEST_P(RowLinearTest, IsTheProduct) {
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed_);
  std::vector<float> dequantized = weights_;
  if (GetParam() != GGML_TYPE_F32) {
    ggml_get_type_traits(GetParam())->to_float(packed_.data(), dequantized.data(), kIn * kOut);
  }
  const std::vector<float> got = product(9, 2);
  for (std::int64_t row = 0; row < 9; ++row) {
    for (std::int64_t column = 0; column < kOut; ++column) {
      double want = 0;
      for (std::int64_t i = 0; i < kIn; ++i) {
        want += double{dequantized[static_cast<std::size_t>(column * kIn + i)]} *
                x_[static_cast<std::size_t>(row * kIn + i)];
      }
      // Activations of 8 bits: an error of 1/254 of the largest of a group, each, at random.
      ASSERT_NEAR(got[static_cast<std::size_t>(row * kOut + column)], want, 0.8);
    }
  }
}

// Panels hold what the file's blocks stand for: no code or scale is rounded again.
TEST(PanelsTest, HoldTheWeightsOfTheFile) {
  constexpr std::pair<ggml_type, linear::Format> kFormats[] = {
      {GGML_TYPE_Q4_0, linear::Format::kQ4_0}, {GGML_TYPE_Q4_1, linear::Format::kQ4_1},
      {GGML_TYPE_Q5_0, linear::Format::kQ5_0}, {GGML_TYPE_Q5_1, linear::Format::kQ5_1},
      {GGML_TYPE_Q8_0, linear::Format::kQ8_0}, {GGML_TYPE_Q4_K, linear::Format::kQ4_K},
      {GGML_TYPE_Q5_K, linear::Format::kQ5_K}, {GGML_TYPE_Q6_K, linear::Format::kQ6_K}};
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 1);
  constexpr std::uint32_t kInputs = 2 * kIn, kOutputs = kOut;
  std::vector<float> weights(kInputs * kOutputs), want(kInputs), got(kInputs);
  for (float& value : weights) value = normal(random);
  for (const auto& [type, format] : kFormats) {
    const std::size_t row_bytes = ggml_row_size(type, kInputs);
    ASSERT_EQ(linear::source_bytes(format, kInputs), row_bytes);
    std::vector<std::byte> file(row_bytes * kOutputs);
    ggml_quantize_chunk(type, weights.data(), file.data(), 0, kOutputs, kInputs, nullptr);
    std::vector<std::byte> panels(linear::matrix_bytes(format, kInputs, kOutputs));
    for (std::uint32_t p = 0; p < linear::panels(kOutputs); ++p) {
      linear::pack_panel(format, file.data(), kInputs, kOutputs, p, panels.data());
    }
    const linear::Matrix matrix{
        .data = panels.data(), .format = format, .inputs = kInputs, .outputs = kOutputs};
    for (std::uint32_t n = 0; n < kOutputs; ++n) {
      ggml_get_type_traits(type)->to_float(file.data() + n * row_bytes, want.data(), kInputs);
      linear::unpack_output(matrix, n, got.data());
      for (std::uint32_t i = 0; i < kInputs; ++i) {
        // ggml may fuse a multiplication with an addition.
        ASSERT_NEAR(got[i], want[i], 1e-6f * std::abs(want[i]) + 1e-6f)
            << ggml_type_name(type) << ", output " << n << ", input " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, RowLinearTest,
                         testing::Values(GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0,
                                         GGML_TYPE_Q8_0, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K,
                                         GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_F32),
                         [](const auto& entry) {
                           return std::string(ggml_type_name(entry.param));
                         });

}  // namespace
}  // namespace quire::model
