// Goal: the attention sums that policies score by are the model's own attention.
// Method: a prompt of 300 tokens; per layer, KV head and key, the sum over rows of the mean over
// the group's query heads, against libllama's kq_soft_max tensors (flash attention off).  Once with
// libllama's own q, k, v given to the cache, where only the softmax can differ; once with our whole
// model, whose activations are rounded to 8 bits in every matmul: a last bit's difference grows.

#include <gtest/gtest.h>

#include <cstdio>
#include <map>

#include "model/oracle.h"
#include "model/real_model.h"
#include "model/running.h"

namespace quire {
namespace {

constexpr std::size_t kTokens = 300;
constexpr double kTolerance = 1e-3;       // of a key's sum over up to 300 rows
constexpr double kModelTolerance = 2e-2;  // of a key's mean attention per row

using Sums = std::map<std::uint32_t, std::vector<double>>;  // layer -> [query heads][keys]

void add_rows(Sums& sums, std::uint32_t layer, const ggml_tensor* node) {
  ASSERT_EQ(node->type, GGML_TYPE_F32);
  std::vector<double>& sum = sums[layer];
  sum.resize(static_cast<std::size_t>(node->ne[2]) * kTokens);
  for (std::int64_t head = 0; head < node->ne[2]; ++head) {
    for (std::int64_t row = 0; row < node->ne[1]; ++row) {
      const auto* p = reinterpret_cast<const float*>(static_cast<const char*>(node->data) +
                                                     static_cast<std::size_t>(head) * node->nb[2] +
                                                     static_cast<std::size_t>(row) * node->nb[1]);
      for (std::size_t key = 0; key < kTokens; ++key) {
        sum[static_cast<std::size_t>(head) * kTokens + key] += double{p[key]};
      }
    }
  }
}

// [heads, head size] of every row, dense.
std::vector<float> dense(const ggml_tensor* node) {
  std::vector<float> values;
  for (std::int64_t row = 0; row < node->ne[2]; ++row) {
    for (std::int64_t head = 0; head < node->ne[1]; ++head) {
      const auto* first = reinterpret_cast<const float*>(
          static_cast<const char*>(node->data) + static_cast<std::size_t>(row) * node->nb[2] +
          static_cast<std::size_t>(head) * node->nb[1]);
      values.insert(values.end(), first, first + node->ne[0]);
    }
  }
  return values;
}

struct Difference {
  double sum = 0;      // largest of a key's sum
  double per_row = 0;  // largest of a key's sum, divided by the rows that see the key
};

Difference largest_difference(const Cache& cache, SequenceId sequence, const Sums& sums) {
  Difference largest;
  const auto& layers = cache.options().layers;
  EXPECT_EQ(sums.size(), layers.size());
  for (const auto& [layer, sum] : sums) {
    const std::uint32_t group = layers[layer].query_heads / layers[layer].kv_heads;
    for (std::uint32_t head = 0; head < layers[layer].kv_heads; ++head) {
      const auto tap = cache.tap(sequence, layer, head);
      EXPECT_TRUE(tap.ok() && tap->size() == kTokens);
      for (std::size_t key = 0; tap.ok() && key < tap->size(); ++key) {
        double want = 0;
        for (std::uint32_t g = 0; g < group; ++g) {
          want += sum[(head * group + g) * kTokens + key] / group;
        }
        const double difference = std::fabs(double{(*tap)[key]} - want);
        largest.sum = std::max(largest.sum, difference);
        largest.per_row =
            std::max(largest.per_row, difference / static_cast<double>(kTokens - key));
      }
    }
  }
  return largest;
}

class TapSlow : public testing::TestWithParam<const char*> {
 protected:
  void open() {
    path_ = test::real_model(GetParam());
    ours_ = test::run_model(
        {.path = path_, .threads = test::test_threads(), .plain_weights = true},
        {.budget_bytes = 96u << 20, .key_type = KvType::kF32, .value_type = KvType::kF32});
    ASSERT_NE(ours_.cache, nullptr);
    tokens_ = ours_.model->tokenize(test::real_text(0, 8 * kTokens), true, false);
    ASSERT_GE(tokens_.size(), kTokens);
    tokens_.resize(kTokens);
    sequence_ = ours_.start({.tap = Tap::kAllRows, .group = Reduce::kMean});
  }
  // Runs libllama over the prompt; on_node sees the watched nodes.
  void run_libllama(
      std::vector<std::string> watched,
      std::function<void(const std::string&, std::uint32_t, const ggml_tensor*)> on_node) const {
    test::Oracle libllama(path_, {.kv_type = GGML_TYPE_F32,
                                  .context = 512,
                                  .threads = static_cast<std::int32_t>(test::test_threads()),
                                  .watched = std::move(watched),
                                  .on_node = std::move(on_node)});
    ASSERT_TRUE(libllama.ok());
    ASSERT_FALSE(libllama.logits(tokens_, 1).empty());
  }

  std::string path_;
  test::Running ours_;
  std::vector<model::Token> tokens_;
  SequenceId sequence_{};
};

TEST_P(TapSlow, OfLibllamasQueriesAndKeys) {
  QUIRE_NEED(test::real_model(GetParam()));
  open();
  Cache& cache = *ours_.cache;
  Sums sums;
  std::map<std::string, std::vector<float>> last;
  double largest_output = 0;
  std::vector<float> out;
  const Segment segment{.sequence = sequence_, .rows = kTokens};
  ASSERT_TRUE(cache.begin({&segment, 1}).ok());
  run_libllama({"Qcur", "Kcur", "Vcur", "kq_soft_max", "kqv_out"},
               [&](const std::string& name, std::uint32_t layer, const ggml_tensor* node) {
                 if (name == "kq_soft_max") {
                   add_rows(sums, layer, node);
                   out.assign(last["Qcur"].size(), 0);
                   cache.append(layer, last["Kcur"].data(), last["Vcur"].data(), 0, 1);
                   cache.attend(layer, last["Qcur"].data(), out.data(), 0, 1);
                 } else if (name == "kqv_out") {
                   const auto* theirs = static_cast<const float*>(node->data);
                   for (std::size_t i = 0; i < out.size(); ++i) {
                     largest_output =
                         std::max<double>(largest_output, std::fabs(out[i] - theirs[i]));
                   }
                 } else {
                   last[name] = dense(node);
                 }
               });
  cache.commit();
  const Difference largest = largest_difference(cache, sequence_, sums);
  std::printf("  largest difference: %.1e of a sum, %.1e of an output\n", largest.sum,
              largest_output);
  EXPECT_LE(largest.sum, kTolerance);
  EXPECT_LE(largest_output, kTolerance);
  EXPECT_GT(largest.sum, 0);  // two programs: an exact zero would mean nothing was compared
}

TEST_P(TapSlow, OfTheWholeModel) {
  QUIRE_NEED(test::real_model(GetParam()));
  open();
  (void)ours_.read(sequence_, tokens_, 128, 1);
  Sums sums;
  run_libllama({"kq_soft_max"}, [&](const std::string&, std::uint32_t layer,
                                    const ggml_tensor* node) { add_rows(sums, layer, node); });
  const Difference largest = largest_difference(*ours_.cache, sequence_, sums);
  std::printf("  largest difference: %.1e of a mean, %.1e of a sum\n", largest.per_row,
              largest.sum);
  EXPECT_LE(largest.per_row, kModelTolerance);
  EXPECT_GT(largest.per_row, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, TapSlow, testing::Values(test::kSmolLm, test::kQwenCoder),
                         [](const auto& entry) {
                           return entry.param == test::kSmolLm ? "SmolLm" : "QwenCoder";
                         });

}  // namespace
}  // namespace quire
