#include "model/weights.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <map>
#include <set>

#include "ggml-cpu.h"

namespace quire::model {
namespace {

std::string shape_text(const std::int64_t* ne, int dims) {
  std::string text = "[";
  for (int i = 0; i < dims; ++i) text += (i > 0 ? ", " : "") + std::to_string(ne[i]);
  return text + "]";
}

bool multipliable(ggml_type type) {
  const ggml_type_traits_cpu* traits = ggml_get_type_traits_cpu(type);
  return traits->vec_dot != nullptr && ggml_get_type_traits(type)->type_size > 0 &&
         (type == GGML_TYPE_F32 || ggml_get_type_traits(type)->to_float != nullptr);
}

}  // namespace

// Looks tensors up by name and turns them into ggml's, with their data in the mapped file.
class Weights::Source {
 public:
  Source(const GgufFile& file, ggml_context* context) : file_(file), context_(context) {
    for (const GgufFile::Found& found : file.tensors()) by_name_[found.tensor->name] = &found;
  }

  enum class Kind { kVector, kMatrix };  // f32 added or multiplied; weights of a matmul
  // Null when the file has no such tensor or it does not fit; then status() says which.
  ggml_tensor* need(const std::string& name, Kind kind, std::initializer_list<std::int64_t> ne) {
    ggml_tensor* tensor = maybe(name, kind, ne);
    if (tensor == nullptr) refuse(Code::kCorrupt, name, "is missing");
    return tensor;
  }

  ggml_tensor* maybe(const std::string& name, Kind kind, std::initializer_list<std::int64_t> ne) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return nullptr;
    const GgufTensor& entry = *found->second->tensor;
    used_.insert(name);
    for (std::size_t i = 0; i < GGML_MAX_DIMS; ++i) {
      if (entry.ne[i] == (i < ne.size() ? ne.begin()[i] : 1)) continue;
      refuse(Code::kCorrupt, name,
             "has shape " + shape_text(entry.ne.data(), GGML_MAX_DIMS) + ", expected " +
                 shape_text(ne.begin(), static_cast<int>(ne.size())));
      return nullptr;
    }
    if (kind == Kind::kVector ? entry.type != GGML_TYPE_F32 : !multipliable(entry.type)) {
      refuse(Code::kUnsupported, name, "has type " + std::string(ggml_type_name(entry.type)));
      return nullptr;
    }
    ggml_tensor* tensor =
        ggml_new_tensor(context_, entry.type, static_cast<int>(ne.size()), ne.begin());
    ggml_set_name(tensor, name.c_str());
    tensor->data = const_cast<std::byte*>(found->second->data());
    return tensor;
  }

  // NAME.weight, and NAME.bias where the file has one.
  Linear linear(const std::string& name, std::int64_t in, std::int64_t out) {
    return {.weight = need(name + ".weight", Kind::kMatrix, {in, out}),
            .bias = maybe(name + ".bias", Kind::kVector, {out})};
  }

  std::int64_t rows_of(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? 0 : found->second->tensor->ne[1];
  }

  Status status() const { return status_; }
  Status all_used() const {
    for (const auto& [name, found] : by_name_) {
      if (used_.contains(name)) continue;
      return {Code::kUnsupported,
              found->file->path() + ": tensor '" + name + "' has no place in this architecture"};
    }
    return {};
  }

 private:
  void refuse(Code code, const std::string& name, const std::string& what) {
    if (!status_.ok()) return;
    status_ = {code, file_.path() + ": tensor '" + name + "' " + what};
  }

  const GgufFile& file_;
  ggml_context* context_;
  std::map<std::string, const GgufFile::Found*> by_name_;
  std::set<std::string> used_;
  Status status_;
};

Result<std::unique_ptr<Weights>> Weights::load(GgufFile file, ModelShape& shape,
                                               const WeightOptions& options) {
  std::unique_ptr<Weights> weights(new Weights(std::move(file)));
  weights->context_.reset(
      ggml_init({.mem_size = ggml_tensor_overhead() * (weights->file_.tensors().size() + 1),
                 .mem_buffer = nullptr,
                 .no_alloc = true}));
  Source source(weights->file_, weights->context_.get());
  if (Status status = weights->read(shape, source); !status.ok()) return status;
  if (Status status = weights->place(options); !status.ok()) return status;
  weights->group(shape, options.deterministic ? kNoChunks : options.chunk_rows);
  return weights;
}

void Weights::group(const ModelShape& shape, std::uint32_t chunk_rows) {
  for (std::uint32_t i = 0; i < layers.size(); ++i) {
    LayerWeights& layer = layers[i];
    layer.key_size = shape.key_size;
    layer.halves = shape.layers[i].rope.halves();
    layer.qkv.linears = {&layer.q, &layer.k, &layer.v};
    layer.attention_out.linears = {&layer.out};
    layer.gate_up.linears = {&layer.gate, &layer.up};
    layer.feed_forward_out.linears = {&layer.down};
  }
  head_set.linears = {&head};
  for (LayerWeights& layer : layers) {
    for (LinearSet* set :
         {&layer.qkv, &layer.attention_out, &layer.gate_up, &layer.feed_forward_out, &head_set}) {
      set->chunk_rows = chunk_rows;
      set->norm_epsilon = shape.norm_epsilon;
      set->activation = shape.architecture->activation;
    }
  }
}

Status Weights::read(ModelShape& shape, Source& source) {
  using Kind = Source::Kind;
  const std::int64_t embedding = shape.embedding;
  const std::int64_t vocabulary = source.rows_of("token_embd.weight");
  token_embedding = source.need("token_embd.weight", Kind::kMatrix, {embedding, vocabulary});
  output_norm = source.need("output_norm.weight", Kind::kVector, {embedding});
  rope_factors = source.maybe("rope_freqs.weight", Kind::kVector,
                              {static_cast<std::int64_t>(shape.key_size / 2)});
  head.weight = source.maybe("output.weight", Kind::kMatrix, {embedding, vocabulary});
  head.bias = source.maybe("output.bias", Kind::kVector, {vocabulary});
  if (head.weight == nullptr) head.weight = token_embedding;  // tied
  shape.vocabulary = static_cast<std::uint32_t>(vocabulary);
  layers.resize(shape.layers.size());
  for (std::uint32_t i = 0; i < layers.size(); ++i) {
    if (Status status = read_layer(shape, i, source); !status.ok()) return status;
  }
  if (Status status = source.status(); !status.ok()) return status;
  for (const GgufFile::Found& found : file_.tensors()) {
    std::size_t values = 1;
    for (const std::int64_t ne : found.tensor->ne) values *= static_cast<std::size_t>(ne);
    parameters += values;
  }
  return source.all_used();
}

Status Weights::read_layer(const ModelShape& shape, std::uint32_t index, Source& source) {
  using Kind = Source::Kind;
  const LayerConfig& config = shape.layers[index];
  const Architecture& architecture = *shape.architecture;
  const std::int64_t embedding = shape.embedding;
  const std::int64_t key = shape.key_size, value = shape.value_size;
  const std::string block = "blk." + std::to_string(index) + ".";
  const auto norm = [&](const char* name, std::int64_t size) {
    return source.need(block + name + ".weight", Kind::kVector, {size});
  };
  LayerWeights& layer = layers[index];
  layer.attention_norm = norm("attn_norm", embedding);
  layer.q = source.linear(block + "attn_q", embedding, config.query_heads * key);
  layer.k = source.linear(block + "attn_k", embedding, config.kv_heads * key);
  layer.v = source.linear(block + "attn_v", embedding, config.kv_heads * value);
  layer.out = source.linear(block + "attn_output", config.query_heads * value, embedding);
  if (architecture.query_key_norm) {
    layer.q_norm = norm("attn_q_norm", key);
    layer.k_norm = norm("attn_k_norm", key);
  }
  if (architecture.post_norms) {
    layer.post_attention_norm = norm("post_attention_norm", embedding);
    layer.post_feed_forward_norm = norm("post_ffw_norm", embedding);
  }
  layer.feed_forward_norm = norm("ffn_norm", embedding);
  layer.gate = source.linear(block + "ffn_gate", embedding, config.feed_forward);
  layer.up = source.linear(block + "ffn_up", embedding, config.feed_forward);
  layer.down = source.linear(block + "ffn_down", config.feed_forward, embedding);
  return source.status();
}

bool LinearSet::by_panels() const {
  return std::all_of(linears.begin(), linears.end(),
                     [](const Linear* linear) { return linear->kernels != nullptr; });
}

const linear::Kernels& LinearSet::kernels_for(std::int64_t rows) const {
  const linear::Kernels& kernels = *linears.front()->kernels;
  const bool chunk = kernels.chunk != nullptr && rows >= std::int64_t{chunk_rows};
  return chunk ? *kernels.chunk : kernels;
}

void Weights::output_rows(std::uint32_t layer, std::uint32_t begin, std::uint32_t end,
                          float* rows) const {
  const Linear& out = layers[layer].out;
  const std::int64_t inputs = out.weight->ne[0];
  for (std::uint32_t n = begin; n < end; ++n, rows += inputs) {
    if (out.kernels != nullptr) {
      linear::unpack_output(out.matrix, n, rows);
      continue;
    }
    const std::byte* row = static_cast<const std::byte*>(out.weight->data) + n * out.weight->nb[1];
    const ggml_to_float_t to_float = ggml_get_type_traits(out.weight->type)->to_float;
    if (to_float != nullptr) {
      to_float(row, rows, inputs);
    } else {  // f32: see multipliable()
      std::memcpy(rows, row, static_cast<std::size_t>(inputs) * sizeof(float));
    }
  }
}

std::int64_t LinearSet::outputs() const {
  std::int64_t sum = 0;
  for (const Linear* linear : linears) sum += linear->weight->ne[1];
  return sum;
}

std::vector<Linear*> Weights::linears() {
  std::vector<Linear*> all;
  for (LayerWeights& layer : layers) {
    for (Linear* linear :
         {&layer.q, &layer.k, &layer.v, &layer.out, &layer.gate, &layer.up, &layer.down}) {
      all.push_back(linear);
    }
  }
  all.push_back(&head);
  return all;
}

}  // namespace quire::model
