#include "model/linear.h"

#include <algorithm>
#include <cstdint>

#include "ggml-cpu.h"

namespace quire::model {
namespace {

// 16 weight rows stay in the first-level cache while all activation rows pass by.
constexpr std::int64_t kColumns = 16;
constexpr std::int64_t kRows = 16;

struct Range {
  std::int64_t begin, end;
};

Range share(std::int64_t items, int part, int parts) {
  return {items * part / parts, items * (part + 1) / parts};
}

// dst [row bytes, rows] i8 = src rows in the type that the weight's dot product wants.
void pack_rows(ggml_tensor* dst, int ith, int nth, void* type_traits) {
  const auto* traits = static_cast<const ggml_type_traits_cpu*>(type_traits);
  const ggml_tensor* x = dst->src[0];
  const std::int64_t block = ggml_blck_size(traits->vec_dot_type);
  const std::size_t block_bytes = ggml_type_size(traits->vec_dot_type);
  const Range blocks = share(ggml_nelements(x) / block, ith, nth);
  if (blocks.begin == blocks.end) return;
  const ggml_from_float_t from_float = ggml_get_type_traits_cpu(traits->vec_dot_type)->from_float;
  from_float(static_cast<const float*>(x->data) + blocks.begin * block,
             static_cast<char*>(dst->data) + blocks.begin * static_cast<std::int64_t>(block_bytes),
             (blocks.end - blocks.begin) * block);
}

// dst [out, rows] f32; src[0]: weight [in, out], src[1]: packed rows.
void multiply_rows(ggml_tensor* dst, int ith, int nth, void*) {
  const ggml_tensor* weight = dst->src[0];
  const ggml_tensor* packed = dst->src[1];
  const auto* traits = ggml_get_type_traits_cpu(weight->type);
  const std::int64_t in = weight->ne[0], out = dst->ne[0], rows = dst->ne[1];
  const auto* w = static_cast<const char*>(weight->data);
  const auto* x = static_cast<const char*>(packed->data);
  auto* y = static_cast<float*>(dst->data);
  const std::size_t w_stride = weight->nb[1], x_stride = packed->nb[1];
  const Range tiles = share((out + kColumns - 1) / kColumns, ith, nth);
  for (std::int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
    const std::int64_t column_end = std::min(out, (tile + 1) * kColumns);
    for (std::int64_t row = 0; row < rows; row += kRows) {
      const std::int64_t row_end = std::min(rows, row + kRows);
      for (std::int64_t c = tile * kColumns; c < column_end; ++c) {
        for (std::int64_t r = row; r < row_end; ++r) {
          traits->vec_dot(static_cast<int>(in), y + r * out + c, 0,
                          w + static_cast<std::size_t>(c) * w_stride, 0,
                          x + static_cast<std::size_t>(r) * x_stride, 0, 1);
        }
      }
    }
  }
}

}  // namespace

ggml_tensor* RowLinear::product(ggml_tensor* weight, ggml_tensor* x) {
  const auto* traits = ggml_get_type_traits_cpu(weight->type);
  const ggml_type type = traits->vec_dot_type;
  ggml_tensor* packed = x;
  if (type != GGML_TYPE_F32) {
    if (last_x_ != x || last_type_ != type) {
      ggml_tensor* arguments[] = {x};
      last_packed_ = ggml_custom_4d(context_, GGML_TYPE_I8,
                                    static_cast<std::int64_t>(ggml_row_size(type, x->ne[0])),
                                    x->ne[1], 1, 1, arguments, 1, pack_rows, GGML_N_TASKS_MAX,
                                    const_cast<ggml_type_traits_cpu*>(traits));
      last_x_ = x;
      last_type_ = type;
    }
    packed = last_packed_;
  }
  ggml_tensor* arguments[] = {weight, packed};
  return ggml_custom_4d(context_, GGML_TYPE_F32, weight->ne[1], x->ne[1], 1, 1, arguments, 2,
                        multiply_rows, GGML_N_TASKS_MAX, nullptr);
}

}  // namespace quire::model
