// Matmuls that give a row the same bits whatever rows are computed beside it: every output is one
// ggml dot product of one weight row with one quantized activation row.
#pragma once

#include "ggml.h"

namespace quire::model {

// Products of `x` [in, rows] with several weights may share one quantized copy of it.
class RowLinear {
 public:
  explicit RowLinear(ggml_context* context) : context_(context) {}
  // [out, rows] f32.
  ggml_tensor* product(ggml_tensor* weight, ggml_tensor* x);

 private:
  ggml_context* context_;
  ggml_tensor* last_x_ = nullptr;  // what last_packed_ was made of
  ggml_tensor* last_packed_ = nullptr;
  ggml_type last_type_ = GGML_TYPE_COUNT;
};

}  // namespace quire::model
