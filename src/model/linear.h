// What a layer computes around its attention, as nodes of a ggml graph.
//
// Where all weights of a product lie in panels, our own kernels (room linear) do it: norm and
// activation go straight into the rounding of the rows, weights that share rows share a node, bias
// and residual are added where the product is stored.  They give a row the same bits whatever rows
// are computed beside it.  Else ggml's nodes: its matmul picks a kernel by row count; `row_by_row`
// takes one of its dot products per output instead, for the same promise.
#pragma once

#include <cstdint>
#include <vector>

#include "ggml.h"
#include "model/weights.h"

namespace quire::model {

// The rows that weights multiply: x [in, rows], first RMS-normed by `norm` if there is one, or
// activation(x) * up.
struct LinearInput {
  ggml_tensor* x = nullptr;
  ggml_tensor* norm = nullptr;  // [in] f32
  ggml_tensor* up = nullptr;    // [in, rows]
};

class LayerNodes {
 public:
  LayerNodes(ggml_context* context, const ModelShape& shape, bool row_by_row)
      : context_(context), shape_(shape), row_by_row_(row_by_row) {}

  // One [out, rows] per weight.  `residual` [out, rows], of a single weight, is added or null.  The
  // graph keeps pointers to `set`.
  std::vector<ggml_tensor*> products(const LinearSet& set, const LinearInput& input,
                                     ggml_tensor* residual = nullptr);

  ggml_tensor* norm(ggml_tensor* x, ggml_tensor* weight);
  // Rows `tokens` [rows] i32 of a tied head's panels: [in, rows] f32.
  ggml_tensor* rows_of(const Linear& linear, ggml_tensor* tokens);

  // Query and key heads [size x heads, rows], normed where there are norms, then rotated to their
  // positions; `layer` must outlive the graph.
  struct Heads {
    ggml_tensor *query, *key;
  };
  Heads rotated(const Heads& heads, const LayerConfig& config, const LayerWeights& layer,
                ggml_tensor* positions, ggml_tensor* factors);

 private:
  ggml_tensor* materialized(const LinearInput& input);
  ggml_tensor* by_ggml(const Linear& linear, ggml_tensor* x);
  ggml_tensor* by_rows(const Linear& linear, ggml_tensor* x);
  ggml_tensor* rope(ggml_tensor* x, const Rope& rope, ggml_tensor* positions, ggml_tensor* factors);
  ggml_tensor* table(const Rope& rope, ggml_tensor* positions, ggml_tensor* factors);
  ggml_tensor* custom(ggml_type type, std::int64_t ne0, std::int64_t ne1,
                      std::vector<ggml_tensor*> sources, ggml_custom_op_t run, const void* with);

  ggml_context* context_;
  const ModelShape& shape_;
  bool row_by_row_;
  // Activations that by_rows() rounded last: products of one x by several weights share them.
  ggml_tensor* last_x_ = nullptr;
  const void* last_traits_ = nullptr;
  ggml_tensor* last_ = nullptr;
  // Rotations of a step by rope: most models have one, gemma3 two.
  std::vector<std::pair<const Rope*, ggml_tensor*>> tables_;
};

}  // namespace quire::model
