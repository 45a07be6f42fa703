// Matmuls as nodes of a ggml graph.
#pragma once

#include "ggml.h"
#include "model/weights.h"

namespace quire::model {

// Our own kernels give a row the same bits whatever rows are computed beside it.  For the types
// they do not have, ggml's matmul picks a kernel by row count; `row_by_row` takes one of its dot
// products per output instead, for the same promise.
class Products {
 public:
  Products(ggml_context* context, bool row_by_row) : context_(context), row_by_row_(row_by_row) {}

  // x [in, rows] -> [out, rows] f32, bias added.  The graph keeps a pointer to `linear`.
  ggml_tensor* product(const Linear& linear, ggml_tensor* x);
  // Rows `tokens` [rows] i32 of a tied head's panels: [in, rows] f32.
  ggml_tensor* rows_of(const Linear& linear, ggml_tensor* tokens);

 private:
  ggml_tensor* quantized(ggml_tensor* x, ggml_custom_op_t quantize, std::size_t row_bytes,
                         const void* with);
  ggml_tensor* by_panels(const Linear& linear, ggml_tensor* x);
  ggml_tensor* by_rows(const Linear& linear, ggml_tensor* x);

  ggml_context* context_;
  bool row_by_row_;
  // The last quantized activations: products of one x by several weights share them.
  ggml_tensor* last_x_ = nullptr;
  const void* last_with_ = nullptr;
  ggml_tensor* last_ = nullptr;
};

}  // namespace quire::model
