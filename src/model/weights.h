// The tensors of a model: which there must be, of which shape, and where each is read from.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ggml-cpp.h"
#include "ggml.h"
#include "model/architecture.h"
#include "model/gguf_file.h"
#include "quire/status.h"

namespace quire::model {

struct Linear {
  ggml_tensor* weight = nullptr;  // [in, out], ggml's order: `in` values lie together
  ggml_tensor* bias = nullptr;    // [out] f32, or null
};

struct LayerWeights {
  ggml_tensor* attention_norm = nullptr;
  Linear q, k, v, out;
  ggml_tensor *q_norm = nullptr, *k_norm = nullptr;  // Architecture::query_key_norm
  ggml_tensor* post_attention_norm = nullptr;        // Architecture::post_norms
  ggml_tensor* feed_forward_norm = nullptr;
  Linear gate, up, down;
  ggml_tensor* post_feed_forward_norm = nullptr;  // Architecture::post_norms
};

struct WeightOptions {
  bool repack = true;  // copy weights into the layouts ggml's faster kernels want
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

  ggml_tensor* token_embedding = nullptr;  // [embedding, vocabulary], read by row
  ggml_tensor* rope_factors = nullptr;     // [key size / 2] f32 or null (Llama 3)
  ggml_tensor* output_norm = nullptr;
  Linear head;
  std::vector<LayerWeights> layers;

  std::size_t in_place_bytes = 0;  // read from the mapped file
  std::size_t copies_bytes = 0;
  std::size_t parameters = 0;
  // "AMX copy" -> "q4_1 x 210 (71 MiB)": what people read.
  std::vector<std::pair<std::string, std::string>> placement;

 private:
  Weights(GgufFile file) : file_(std::move(file)) {}
  class Source;
  Status read(ModelShape& shape, Source& source);
  Status read_layer(const ModelShape& shape, std::uint32_t index, Source& source);
  Status place(const WeightOptions& options);
  std::vector<Linear*> linears();

  GgufFile file_;
  ggml_context_ptr context_;                     // headers of the tensors in the file
  std::vector<ggml_context_ptr> copy_contexts_;  // and of the copies, by buffer type
  std::vector<ggml_backend_buffer_ptr> copies_;
};

}  // namespace quire::model
