#include "model/architecture.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quire::model {
namespace {

Status refine_gemma3(const GgufTable& keys, ModelShape& shape);

// Pairing of rotated values: a wrong one gives fluent nonsense.  Llama files store q and k permuted
// so that pairs are adjacent.  Biases need no entry: they are used wherever the file has them.
constexpr Architecture kArchitectures[] = {
    {.name = "llama", .rope_type = GGML_ROPE_TYPE_NORMAL},  // SmolLM, Llama 1-3, Mistral
    {.name = "qwen2", .rope_type = GGML_ROPE_TYPE_NEOX},
    {.name = "qwen3", .rope_type = GGML_ROPE_TYPE_NEOX, .query_key_norm = true},
    {.name = "gemma3",
     .rope_type = GGML_ROPE_TYPE_NEOX,
     .query_key_norm = true,
     .post_norms = true,
     .activation = Activation::kGelu,
     .refine = refine_gemma3},
    {.name = "exaone", .rope_type = GGML_ROPE_TYPE_NEOX},  // EXAONE 3
    {.name = "internlm2", .rope_type = GGML_ROPE_TYPE_NORMAL},
};

constexpr std::uint32_t kMaxLayers = 512;
constexpr std::uint32_t kMaxWidth = 1u << 20;    // of embedding and feed-forward
constexpr std::uint32_t kMaxContext = 1u << 30;  // positions are 32-bit, signed in ggml
// What quire::Cache serves (quire/cache.h, LayerShape).
constexpr std::uint32_t kMinHead = 64, kMaxHead = 256, kHeadGrain = 16, kMaxGroup = 16;

const Architecture* find_architecture(const std::string& name) {
  for (const Architecture& entry : kArchitectures) {
    if (name == entry.name) return &entry;
  }
  return nullptr;
}

std::string known_architectures() {
  std::string names;
  for (const Architecture& entry : kArchitectures) {
    if (!names.empty()) names += ", ";
    names += entry.name;
  }
  return names;
}

// Takes typed values out of the table and remembers the first that was refused.
class Keys {
 public:
  Keys(const GgufTable& table, const char* architecture)
      : table_(table), prefix_(std::string(architecture) + ".") {}

  std::uint32_t u32(const char* key) { return keep(table_.u32(prefix_ + key)); }
  std::uint32_t u32(const char* key, std::uint32_t fallback) {
    return keep(table_.u32(prefix_ + key, fallback));
  }
  float f32(const char* key) { return keep(table_.f32(prefix_ + key)); }
  float f32(const char* key, float fallback) { return keep(table_.f32(prefix_ + key, fallback)); }
  std::string text(const char* key, const std::string& fallback) {
    return keep(table_.text(prefix_ + key, fallback));
  }
  std::vector<std::uint32_t> per_layer(const char* key, std::uint32_t layers) {
    std::vector<std::uint32_t> numbers = keep(table_.per_layer(prefix_ + key, layers));
    numbers.resize(layers);
    return numbers;
  }
  bool has(const char* key) const { return table_.find(prefix_ + key) != nullptr; }
  bool is_list(const char* key) const {
    const GgufValue* value = table_.find(prefix_ + key);
    return value != nullptr && value->type == GGUF_TYPE_ARRAY;
  }

  // The number must be in [low, high].
  std::uint32_t in_range(const char* key, std::uint32_t value, std::uint32_t low,
                         std::uint32_t high) {
    if (value < low || value > high) {
      refuse(Code::kUnsupported, "key '" + prefix_ + key + "' is " + std::to_string(value) +
                                     "; this build runs " + std::to_string(low) + " to " +
                                     std::to_string(high));
    }
    return value;
  }
  void refuse(Code code, const std::string& what) {
    if (status_.ok()) status_ = table_.fault(code, what);
  }
  const std::string& prefix() const { return prefix_; }
  const Status& status() const { return status_; }

 private:
  template <typename T>
  T keep(Result<T> result) {
    if (result.ok()) return *std::move(result);
    if (status_.ok()) status_ = result.status();
    return T{};
  }

  const GgufTable& table_;
  std::string prefix_;
  Status status_;
};

// As libllama reads them: "linear" is the default type, factor 0 or none means unscaled, and yarn's
// magnitude is divided by the one ggml_rope_ext() multiplies in by itself.  YaRN: arXiv 2309.00071.
Rope read_rope(Keys& keys, const Architecture& architecture, std::uint32_t key_size,
               std::uint32_t context) {
  Rope rope{.type = architecture.rope_type};
  rope.dims = keys.u32("rope.dimension_count", key_size);
  rope.original_context =
      keys.in_range("rope.scaling.original_context_length",
                    keys.u32("rope.scaling.original_context_length", context), 1, kMaxContext);
  rope.base = keys.f32("rope.freq_base", rope.base);
  const std::string scaling = keys.text("rope.scaling.type", "linear");
  const float factor = keys.has("rope.scaling.factor") ? keys.f32("rope.scaling.factor")
                                                       : keys.f32("rope.scale_linear", 0);
  if (!(rope.base > 0) || !(factor >= 0)) {
    keys.refuse(Code::kCorrupt, "keys '" + keys.prefix() + "rope.freq_base' and '" + keys.prefix() +
                                    "rope.scaling.factor' must be positive");
    return rope;
  }
  if (scaling != "none" && scaling != "linear" && scaling != "yarn") {
    keys.refuse(Code::kUnsupported, "key '" + keys.prefix() + "rope.scaling.type' is '" + scaling +
                                        "'; this build knows none, linear, yarn");
  }
  if (scaling != "none" && factor > 0) rope.frequency_scale = 1 / factor;
  rope.magnitude = keys.f32("rope.scaling.attn_factor", 1);
  if (scaling == "yarn") {
    rope.extrapolation = 1;
    const float stretch = 1 / rope.frequency_scale;
    const float wanted = stretch <= 1 ? 1 : 0.1f * std::log(stretch) + 1;
    rope.magnitude *= wanted / (1 + 0.1f * std::log(stretch));
  }
  if (rope.dims != key_size) {
    keys.refuse(Code::kUnsupported, "key '" + keys.prefix() + "rope.dimension_count' is " +
                                        std::to_string(rope.dims) + " for heads of " +
                                        std::to_string(key_size));
  }
  return rope;
}

void read_layers(Keys& keys, const Architecture& architecture, std::uint32_t layers,
                 ModelShape& shape) {
  const auto query_heads = keys.per_layer("attention.head_count", layers);
  const auto kv_heads = keys.has("attention.head_count_kv")
                            ? keys.per_layer("attention.head_count_kv", layers)
                            : query_heads;
  const auto feed_forward = keys.per_layer("feed_forward_length", layers);
  if (!keys.status().ok()) return;
  const std::uint32_t head = query_heads[0] > 0 ? shape.embedding / query_heads[0] : 0;
  shape.key_size = keys.u32("attention.key_length", head);
  shape.value_size = keys.u32("attention.value_length", head);
  for (const std::uint32_t size : {shape.key_size, shape.value_size}) {
    if (size < kMinHead || size > kMaxHead || size % kHeadGrain != 0) {
      keys.refuse(Code::kUnsupported,
                  "heads of " + std::to_string(size) +
                      " values (keys 'attention.key_length', 'attention.value_length'); the cache "
                      "serves multiples of 16 from 64 to 256");
    }
  }
  const Rope rope = read_rope(keys, architecture, shape.key_size, shape.context);
  for (std::uint32_t i = 0; i < layers; ++i) {
    const std::uint32_t query = query_heads[i], kv = kv_heads[i];
    if (kv == 0 || query == 0 || query % kv != 0 || query / kv > kMaxGroup ||
        query > kMaxWidth / kMaxHead) {
      keys.refuse(Code::kUnsupported, "layer " + std::to_string(i) + " has " +
                                          std::to_string(query) + " query and " +
                                          std::to_string(kv) +
                                          " KV heads (key 'attention.head_count'); the cache "
                                          "serves groups of 1 to 16");
    }
    keys.in_range("feed_forward_length", feed_forward[i], 1, kMaxWidth);
    shape.layers.push_back(
        {.query_heads = query, .kv_heads = kv, .feed_forward = feed_forward[i], .rope = rope});
  }
}

// Which layers have the window: flags of every layer, or one number n: all but each n-th.
std::vector<std::uint32_t> window_layers(Keys& keys, std::uint32_t layers) {
  constexpr char kPattern[] = "attention.sliding_window_pattern";
  constexpr std::uint32_t kGlobalEvery = 6;  // of files without the key (arXiv 2503.19786, 2)
  if (keys.is_list(kPattern)) return keys.per_layer(kPattern, layers);
  const std::uint32_t period =
      keys.in_range(kPattern, keys.u32(kPattern, kGlobalEvery), 1, kMaxLayers);
  std::vector<std::uint32_t> windowed(layers);
  if (!keys.status().ok()) return windowed;
  for (std::uint32_t i = 0; i < layers; ++i) windowed[i] = (i + 1) % period != 0;
  return windowed;
}

// Gemma 3 (arXiv 2503.19786): scaled embeddings; window layers with a rotation of their own, which
// the scaling for long contexts leaves alone.  Norm weights have their "+ 1" in the file already.
Status refine_gemma3(const GgufTable& table, ModelShape& shape) {
  constexpr std::size_t kLayers27B = 62;
  Keys keys(table, shape.architecture->name);
  shape.embedding_scale = std::sqrt(static_cast<float>(shape.embedding));
  shape.logit_softcap = keys.f32("final_logit_softcapping", 0);
  const auto layers = static_cast<std::uint32_t>(shape.layers.size());
  const std::uint32_t window = keys.in_range(
      "attention.sliding_window", keys.u32("attention.sliding_window", 0), 0, kMaxContext);
  const float base = keys.f32("rope.freq_base_swa", 10'000);
  if (!(base > 0) || !(shape.logit_softcap >= 0)) {
    keys.refuse(Code::kCorrupt, "keys '" + keys.prefix() + "rope.freq_base_swa' and '" +
                                    keys.prefix() + "final_logit_softcapping' must be positive");
  }
  const std::vector<std::uint32_t> windowed = window_layers(keys, layers);
  for (std::uint32_t i = 0; i < layers; ++i) {
    LayerConfig& layer = shape.layers[i];
    if (layers == kLayers27B) {  // the one size whose scale is not that of its heads
      layer.scale = 1 / std::sqrt(static_cast<float>(shape.embedding / layer.query_heads));
    }
    if (window == 0 || windowed[i] == 0) continue;
    layer.window = window;
    layer.rope = {.type = layer.rope.type,
                  .dims = layer.rope.dims,
                  .original_context = layer.rope.original_context,
                  .base = base};
  }
  return keys.status();
}

}  // namespace

Result<ModelShape> read_shape(const GgufTable& table) {
  Result<std::string> name = table.text("general.architecture");
  if (!name.ok()) return name.status();
  const Architecture* architecture = find_architecture(*name);
  if (architecture == nullptr) {
    return table.fault(Code::kUnsupported, "architecture '" + *name +
                                               "' (key 'general.architecture"
                                               "'); this build knows " +
                                               known_architectures());
  }
  Keys keys(table, architecture->name);
  ModelShape shape{.architecture = architecture};
  const std::uint32_t layers = keys.in_range("block_count", keys.u32("block_count"), 1, kMaxLayers);
  shape.embedding = keys.in_range("embedding_length", keys.u32("embedding_length"), 1, kMaxWidth);
  shape.context = keys.in_range("context_length", keys.u32("context_length"), 1, kMaxContext);
  shape.norm_epsilon = keys.f32("attention.layer_norm_rms_epsilon");
  if (!(shape.norm_epsilon >= 0)) {
    keys.refuse(Code::kCorrupt,
                "key '" + keys.prefix() + "attention.layer_norm_rms_epsilon' is negative");
  }
  if (keys.u32("expert_count", 0) > 0) {
    keys.refuse(Code::kUnsupported, "a mixture of experts (key '" + keys.prefix() +
                                        "expert_count'); this build runs dense models");
  }
  if (!keys.status().ok()) return keys.status();
  read_layers(keys, *architecture, layers, shape);
  if (!keys.status().ok()) return keys.status();
  if (architecture->refine != nullptr) {
    if (Status status = architecture->refine(table, shape); !status.ok()) return status;
  }
  return shape;
}

// YaRN (arXiv 2309.00071, section 3.2) mixes the frequency of the text as trained with that of the
// stretched one, pair by pair.
std::vector<float> Rope::frequencies(const float* factors) const {
  float corrected[2] = {0, 0};
  if (extrapolation != 0) {
    ggml_rope_yarn_corr_dims(static_cast<int>(dims), static_cast<int>(original_context), base,
                             kYarnBetaFast, kYarnBetaSlow, corrected);
  }
  std::vector<float> all(dims / 2);
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    const double exponent = -2.0 * i / dims;
    const double trained =
        std::pow(double{base}, exponent) / (factors != nullptr ? double{factors[i]} : 1.0);
    const float width = std::max(0.001f, corrected[1] - corrected[0]);
    const float ramp = std::clamp((static_cast<float>(i) - corrected[0]) / width, 0.0f, 1.0f);
    const double mix = double{(1 - ramp) * extrapolation};
    all[i] = static_cast<float>(trained * (double{frequency_scale} * (1 - mix) + mix));
  }
  return all;
}

std::vector<LayerShape> ModelShape::attention(const float* rope_factors) const {
  std::vector<LayerShape> shapes;
  for (const LayerConfig& layer : layers) {
    shapes.push_back(
        {.kv_heads = layer.kv_heads,
         .query_heads = layer.query_heads,
         .key_size = key_size,
         .value_size = value_size,
         .scale = layer.scale != 0 ? layer.scale : 1.0f / std::sqrt(static_cast<float>(key_size)),
         .softcap = layer.softcap,
         .window = layer.window,
         .rope = {.halves = layer.rope.halves(),
                  .frequency = layer.rope.frequencies(rope_factors)}});
  }
  return shapes;
}

}  // namespace quire::model
