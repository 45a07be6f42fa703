#include "model/graph.h"

#include <algorithm>

#include "model/linear.h"

namespace quire::model {
namespace {

// Nodes and inputs of one layer and of the ends: counted with every option on, deterministic too.
constexpr std::size_t kLayerTensors = 48, kEndTensors = 32;

// src[0]: k [key size, kv heads, rows], src[1]: v [value size * kv heads, rows].
void append_node(ggml_tensor* dst, int ith, int nth, void* user) {
  const auto* node = static_cast<const LayerNode*>(user);
  node->step->cache->append(node->layer, static_cast<const float*>(dst->src[0]->data),
                            static_cast<const float*>(dst->src[1]->data),
                            static_cast<std::uint32_t>(ith), static_cast<std::uint32_t>(nth));
}

// src[0]: q [key size, query heads, rows], src[1]: the append node, which must have finished.
void attend_node(ggml_tensor* dst, int ith, int nth, void* user) {
  const auto* node = static_cast<const LayerNode*>(user);
  auto* out = static_cast<float*>(dst->data);
  node->step->cache->attend(node->layer, static_cast<const float*>(dst->src[0]->data), out,
                            static_cast<std::uint32_t>(ith), static_cast<std::uint32_t>(nth));
  if (ith != 0) return;
  // The cache knows nothing of padded rows; what is left of an earlier step there could be
  // anything.
  std::fill(out + dst->ne[0] * node->step->rows, out + ggml_nelements(dst), 0.0f);
}

class Builder {
 public:
  Builder(ggml_context* context, const GraphInputs& inputs)
      : context_(context),
        inputs_(inputs),
        shape_(*inputs.shape),
        nodes_(context, *inputs.shape, inputs.deterministic) {}

  ggml_tensor* embed(ggml_tensor* tokens) {
    const Weights& weights = *inputs_.weights;
    const bool tied = weights.head.weight == weights.token_embedding;
    ggml_tensor* x = tied && weights.head.kernels != nullptr
                         ? nodes_.rows_of(weights.head, tokens)
                         : ggml_get_rows(context_, weights.token_embedding, tokens);
    return shape_.embedding_scale == 1 ? x : ggml_scale(context_, x, shape_.embedding_scale);
  }

  ggml_tensor* attention(std::uint32_t layer, ggml_tensor* x, ggml_tensor* positions) {
    const LayerWeights& weights = inputs_.weights->layers[layer];
    const LayerConfig& config = shape_.layers[layer];
    const auto qkv = nodes_.products(weights.qkv, {.x = x, .norm = weights.attention_norm});
    const auto [query, key] =
        nodes_.rotated({qkv[0], qkv[1]}, config, weights, positions, inputs_.weights->rope_factors);
    LayerNode* node = &(*inputs_.nodes)[layer];
    ggml_tensor* pair[] = {key, qkv[2]};
    ggml_tensor* appended = ggml_custom_4d(context_, GGML_TYPE_I8, 1, 1, 1, 1, pair, 2, append_node,
                                           GGML_N_TASKS_MAX, node);
    ggml_tensor* ask[] = {query, appended};
    return ggml_custom_4d(context_, GGML_TYPE_F32,
                          std::int64_t{config.query_heads} * shape_.value_size, x->ne[1], 1, 1, ask,
                          2, attend_node, GGML_N_TASKS_MAX, node);
  }

  // The layer after its attention: [embedding, rows].
  ggml_tensor* after_attention(std::uint32_t layer, ggml_tensor* attended, ggml_tensor* residual) {
    const LayerWeights& weights = inputs_.weights->layers[layer];
    ggml_tensor* x =
        added(weights.attention_out, {.x = attended}, weights.post_attention_norm, residual);
    const auto gate_up =
        nodes_.products(weights.gate_up, {.x = x, .norm = weights.feed_forward_norm});
    return added(weights.feed_forward_out, {.x = gate_up[0], .up = gate_up[1]},
                 weights.post_feed_forward_norm, x);
  }

  ggml_tensor* logits(ggml_tensor* x) {
    const Weights& weights = *inputs_.weights;
    ggml_tensor* y = nodes_.products(weights.head_set, {.x = x, .norm = weights.output_norm})[0];
    const float cap = shape_.logit_softcap;
    if (cap == 0) return y;
    return ggml_scale(context_, ggml_tanh(context_, ggml_scale(context_, y, 1 / cap)), cap);
  }

 private:
  // residual + product, the product first normed where there is a norm.
  ggml_tensor* added(const LinearSet& set, const LinearInput& input, ggml_tensor* norm,
                     ggml_tensor* residual) {
    if (norm == nullptr) return nodes_.products(set, input, residual)[0];
    return ggml_add(context_, nodes_.norm(nodes_.products(set, input)[0], norm), residual);
  }

  ggml_context* context_;
  const GraphInputs& inputs_;
  const ModelShape& shape_;
  LayerNodes nodes_;
};

std::size_t graph_size(const ModelShape& shape) {
  return shape.layers.size() * kLayerTensors + kEndTensors;
}

ggml_tensor* input(ggml_context* context, ggml_type type, std::int64_t ne0, std::int64_t ne1) {
  ggml_tensor* tensor = ggml_new_tensor_2d(context, type, ne0, ne1);
  ggml_set_input(tensor);
  return tensor;
}

}  // namespace

std::size_t graph_header_bytes(const ModelShape& shape) {
  return graph_size(shape) * ggml_tensor_overhead() +
         ggml_graph_overhead_custom(graph_size(shape), false);
}

BodyGraph build_body(ggml_context* context, const GraphInputs& inputs, std::uint32_t rows) {
  Builder build(context, inputs);
  BodyGraph body;
  body.graph = ggml_new_graph_custom(context, graph_size(*inputs.shape), false);
  body.tokens = input(context, GGML_TYPE_I32, rows, 1);
  body.positions = input(context, GGML_TYPE_I32, rows, 1);
  ggml_tensor* x = build.embed(body.tokens);
  const auto layers = static_cast<std::uint32_t>(inputs.shape->layers.size());
  for (std::uint32_t layer = 0; layer + 1 < layers; ++layer) {
    x = build.after_attention(layer, build.attention(layer, x, body.positions), x);
  }
  body.residual = x;
  body.attended = build.attention(layers - 1, x, body.positions);
  for (ggml_tensor* output : {body.residual, body.attended}) {
    ggml_set_output(output);
    ggml_build_forward_expand(body.graph, output);
  }
  return body;
}

HeadGraph build_head(ggml_context* context, const GraphInputs& inputs, std::uint32_t rows) {
  Builder build(context, inputs);
  HeadGraph head;
  head.graph = ggml_new_graph_custom(context, graph_size(*inputs.shape), false);
  const LayerConfig& last = inputs.shape->layers.back();
  head.attended = input(context, GGML_TYPE_F32,
                        std::int64_t{last.query_heads} * inputs.shape->value_size, rows);
  head.residual = input(context, GGML_TYPE_F32, inputs.shape->embedding, rows);
  const auto layer = static_cast<std::uint32_t>(inputs.shape->layers.size() - 1);
  head.logits = build.logits(build.after_attention(layer, head.attended, head.residual));
  ggml_set_output(head.logits);
  ggml_build_forward_expand(head.graph, head.logits);
  return head;
}

}  // namespace quire::model
