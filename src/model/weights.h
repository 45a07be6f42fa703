// The tensors of a model: which there must be, of which shape, and where each is read from.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cache/memory.h"
#include "ggml-cpp.h"
#include "ggml.h"
#include "linear/linear.h"
#include "model/architecture.h"
#include "model/gguf_file.h"
#include "quire/status.h"

namespace quire::model {

struct Linear {
  ggml_tensor* weight = nullptr;  // [in, out], ggml's order: `in` values lie together
  ggml_tensor* bias = nullptr;    // [out] f32, or null
  // The same weight in panels, and what multiplies them; null: ggml does, from the file.
  const linear::Kernels* kernels = nullptr;
  linear::Matrix matrix;
};

constexpr std::uint32_t kNoChunks = 0xFFFFFFFF;

// Weights that multiply the same rows, in one node of the graph.
struct LinearSet {
  std::vector<const Linear*> linears;
  // From so many rows on the kernels for chunks; kNoChunks: rows' bits must not depend on their
  // number.
  std::uint32_t chunk_rows = linear::kChunkRows;
  // Of what they multiply, for the nodes that prepare it.
  float norm_epsilon = 0;
  linear::Activation activation = linear::Activation::kSilu;

  bool by_panels() const;  // all of them have kernels
  const linear::Kernels& kernels_for(std::int64_t rows) const;
  std::int64_t outputs() const;
};

struct LayerWeights {
  std::uint32_t key_size = 0;  // of one head
  bool halves = false;         // how the layer's rotation pairs dimensions
  ggml_tensor* attention_norm = nullptr;
  Linear q, k, v, out;
  ggml_tensor *q_norm = nullptr, *k_norm = nullptr;  // Architecture::query_key_norm
  ggml_tensor* post_attention_norm = nullptr;        // Architecture::post_norms
  ggml_tensor* feed_forward_norm = nullptr;
  Linear gate, up, down;
  ggml_tensor* post_feed_forward_norm = nullptr;            // Architecture::post_norms
  LinearSet qkv, attention_out, gate_up, feed_forward_out;  // of the above
};

struct WeightOptions {
  bool pack = true;  // into panels for our own kernels, where these have the type
  bool deterministic = false;
  std::uint32_t chunk_rows = linear::kChunkRows;
  Isa isa = Isa::kAuto;
  std::uint32_t threads = 1;  // that pack
  std::function<bool(float)> progress{};
};

class Weights {
 public:
  // Reads the tensors that `shape` calls for; sets shape.vocabulary.  kCorrupt: one is missing or
  // of another shape; kUnsupported: a type no kernel multiplies, or a tensor the architecture has
  // no use for (running without it would be another model).  kCancelled: progress returned false.
  static Result<std::unique_ptr<Weights>> load(GgufFile file, ModelShape& shape,
                                               const WeightOptions& options);

  const GgufFile& file() const { return file_; }
  // OutputShape::rows of a layer.
  void output_rows(std::uint32_t layer, std::uint32_t begin, std::uint32_t end, float* rows) const;

  ggml_tensor* token_embedding = nullptr;  // [embedding, vocabulary], read by row
  ggml_tensor* rope_factors = nullptr;     // [key size / 2] f32 or null (Llama 3)
  ggml_tensor* output_norm = nullptr;
  Linear head;
  LinearSet head_set;
  std::vector<LayerWeights> layers;

  std::size_t in_place_bytes = 0;  // read from the mapped file
  std::size_t copies_bytes = 0;
  std::size_t parameters = 0;
  // "amx, panels" -> "q4_1 x 210 (71 MiB)": what people read.
  std::vector<std::pair<std::string, std::string>> placement;

 private:
  Weights(GgufFile file) : file_(std::move(file)) {}
  class Source;
  Status read(ModelShape& shape, Source& source);
  Status read_layer(const ModelShape& shape, std::uint32_t index, Source& source);
  Status place(const WeightOptions& options);
  void group(const ModelShape& shape, std::uint32_t chunk_rows);
  std::vector<Linear*> linears();

  GgufFile file_;
  ggml_context_ptr context_;        // headers of the tensors in the file
  std::unique_ptr<Memory> panels_;  // their memory
};

}  // namespace quire::model
