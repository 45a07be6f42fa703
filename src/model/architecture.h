// What distinguishes one dense decoder from another.  A new architecture is one entry of the table
// in architecture.cc, and a `refine` function when its file has keys that no other has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ggml.h"
#include "linear/linear.h"
#include "model/gguf_table.h"
#include "quire/cache.h"
#include "quire/status.h"

namespace quire::model {

constexpr float kYarnBetaFast = 32, kYarnBetaSlow = 1;  // arXiv 2309.00071, section 3.2

// Arguments of ggml_rope_ext().
struct Rope {
  int type = 0;  // GGML_ROPE_TYPE_NORMAL: adjacent pairs; GGML_ROPE_TYPE_NEOX: halves
  std::uint32_t dims = 0;
  std::uint32_t original_context = 0;  // yarn only
  float base = 10'000;
  float frequency_scale = 1;
  float extrapolation = 0;  // yarn's mix, 1 = on
  float magnitude = 1;

  // Radians a position by which ggml_rope_ext() turns each pair; factors: its divisors, or null.
  std::vector<float> frequencies(const float* factors) const;

  bool operator==(const Rope&) const = default;
  bool halves() const { return type != GGML_ROPE_TYPE_NORMAL; }
};

struct LayerConfig {
  std::uint32_t query_heads = 0, kv_heads = 0, feed_forward = 0;
  std::uint32_t window = 0;  // sliding window, 0 = none
  float scale = 0;           // of q.k; 0 = 1 / sqrt(key size)
  float softcap = 0;         // of q.k; 0 = none
  Rope rope;
};

using linear::Activation;

struct Architecture;

// A model's hyper-parameters, as the graph needs them.
struct ModelShape {
  const Architecture* architecture = nullptr;
  std::uint32_t embedding = 0, vocabulary = 0, context = 0;
  std::uint32_t key_size = 0, value_size = 0;  // of one head
  float norm_epsilon = 0;
  float embedding_scale = 1;
  float logit_softcap = 0;
  std::vector<LayerConfig> layers;

  // For CacheOptions::layers.  rope_factors [key_size / 2]: Llama 3's divisors, or null.
  std::vector<LayerShape> attention(const float* rope_factors) const;
};

struct Architecture {
  const char* name;  // general.architecture
  int rope_type;
  bool query_key_norm = false;  // every head of q and k is RMS-normed before its rotation
  bool post_norms = false;      // a norm after attention and after the feed-forward, too
  Activation activation = Activation::kSilu;
  // Reads what only this architecture has; may be null.
  Status (*refine)(const GgufTable& keys, ModelShape& shape) = nullptr;
};

// kUnsupported: an architecture, rope scaling or shape this build cannot run (the message says what
// it can); kCorrupt: keys missing or contradicting each other.
Result<ModelShape> read_shape(const GgufTable& keys);

}  // namespace quire::model
