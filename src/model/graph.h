// The forward pass as ggml graphs.
//
//   body: tokens, positions -> every layer up to the last one's attention
//   head: chosen rows of that -> the last layer's feed-forward, norm, logits
//
// A prompt's rows that need no logits never pay for the head.
#pragma once

#include <cstdint>
#include <vector>

#include "ggml.h"
#include "model/architecture.h"
#include "model/weights.h"
#include "quire/cache.h"

namespace quire::model {

// What the attention nodes of a graph need to know about the step being computed.
struct StepView {
  Cache* cache = nullptr;
  std::uint32_t rows = 0;  // of the padded ones, those that are real
};
struct LayerNode {
  const StepView* step;
  std::uint32_t layer;
};

struct GraphInputs {
  const ModelShape* shape;
  const Weights* weights;
  std::vector<LayerNode>* nodes;  // [layers]; graphs keep pointers into it
  bool deterministic;
};

struct BodyGraph {
  ggml_cgraph* graph = nullptr;
  ggml_tensor* tokens = nullptr;     // [rows] i32, input
  ggml_tensor* positions = nullptr;  // [rows] i32, input
  ggml_tensor* attended = nullptr;   // [query heads x value size, rows], output
  ggml_tensor* residual = nullptr;   // [embedding, rows], output
};

struct HeadGraph {
  ggml_cgraph* graph = nullptr;
  ggml_tensor* attended = nullptr;  // inputs: rows of the body's outputs
  ggml_tensor* residual = nullptr;
  ggml_tensor* logits = nullptr;  // [vocabulary, rows], output
};

// Bytes of `context` that one graph's headers take.
std::size_t graph_header_bytes(const ModelShape& shape);

BodyGraph build_body(ggml_context* context, const GraphInputs& inputs, std::uint32_t rows);
HeadGraph build_head(ggml_context* context, const GraphInputs& inputs, std::uint32_t rows);

}  // namespace quire::model
