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

// dst [bytes a row, rows] i8: the records of src.
void quantize_node(ggml_tensor* dst, int ith, int nth, void* kernels) {
  const ggml_tensor* x = dst->src[0];
  const Range rows = share(x->ne[1], ith, nth);
  static_cast<const linear::Kernels*>(kernels)->quantize(
      static_cast<const float*>(x->data), x->nb[1] / sizeof(float),
      static_cast<std::uint32_t>(x->ne[1]), static_cast<std::uint32_t>(x->ne[0]),
      static_cast<std::uint32_t>(rows.begin), static_cast<std::uint32_t>(rows.end),
      static_cast<std::byte*>(dst->data));
}

// dst [out, rows] f32; src[0]: records.
void multiply_node(ggml_tensor* dst, int ith, int nth, void* user) {
  const auto& linear = *static_cast<const Linear*>(user);
  // Kernels work on two panels at once.
  const std::int64_t panels = linear::panels(linear.matrix.outputs);
  const Range pairs = share((panels + 1) / 2, ith, nth);
  const float* bias = linear.bias == nullptr ? nullptr : static_cast<float*>(linear.bias->data);
  linear.kernels->multiply(linear.matrix, bias, static_cast<const std::byte*>(dst->src[0]->data),
                           static_cast<std::uint32_t>(dst->ne[1]),
                           static_cast<std::uint32_t>(2 * pairs.begin),
                           static_cast<std::uint32_t>(std::min(panels, 2 * pairs.end)),
                           static_cast<float*>(dst->data), static_cast<std::size_t>(dst->ne[0]));
}

// dst [in, rows] f32; src[0]: tokens.
void rows_node(ggml_tensor* dst, int ith, int nth, void* user) {
  const auto& linear = *static_cast<const Linear*>(user);
  const auto* tokens = static_cast<const std::int32_t*>(dst->src[0]->data);
  const Range rows = share(dst->ne[1], ith, nth);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    linear::unpack_output(linear.matrix, static_cast<std::uint32_t>(tokens[row]),
                          static_cast<float*>(dst->data) + row * dst->ne[0]);
  }
}

void* user_data(const void* stable) {
  return const_cast<void*>(stable);  // ggml's type; the nodes only read
}

}  // namespace

ggml_tensor* Products::product(const Linear& linear, ggml_tensor* x) {
  if (linear.kernels != nullptr) return by_panels(linear, x);
  ggml_tensor* y = row_by_row_ ? by_rows(linear, x) : ggml_mul_mat(context_, linear.weight, x);
  return linear.bias == nullptr ? y : ggml_add(context_, y, linear.bias);
}

ggml_tensor* Products::quantized(ggml_tensor* x, ggml_custom_op_t quantize, std::size_t row_bytes,
                                 const void* with) {
  if (last_x_ != x || last_with_ != with) {
    ggml_tensor* arguments[] = {x};
    last_ = ggml_custom_4d(context_, GGML_TYPE_I8, static_cast<std::int64_t>(row_bytes), x->ne[1],
                           1, 1, arguments, 1, quantize, GGML_N_TASKS_MAX, user_data(with));
    last_x_ = x;
    last_with_ = with;
  }
  return last_;
}

ggml_tensor* Products::by_panels(const Linear& linear, ggml_tensor* x) {
  ggml_tensor* records =
      quantized(x, quantize_node, linear::rows_bytes(1, linear.matrix.inputs), linear.kernels);
  ggml_tensor* arguments[] = {records};
  return ggml_custom_4d(context_, GGML_TYPE_F32, linear.matrix.outputs, x->ne[1], 1, 1, arguments,
                        1, multiply_node, GGML_N_TASKS_MAX, user_data(&linear));
}

ggml_tensor* Products::rows_of(const Linear& linear, ggml_tensor* tokens) {
  ggml_tensor* arguments[] = {tokens};
  return ggml_custom_4d(context_, GGML_TYPE_F32, linear.matrix.inputs, tokens->ne[0], 1, 1,
                        arguments, 1, rows_node, GGML_N_TASKS_MAX, user_data(&linear));
}

ggml_tensor* Products::by_rows(const Linear& linear, ggml_tensor* x) {
  const auto* traits = ggml_get_type_traits_cpu(linear.weight->type);
  const ggml_type type = traits->vec_dot_type;
  ggml_tensor* packed =
      type == GGML_TYPE_F32 ? x : quantized(x, pack_rows, ggml_row_size(type, x->ne[0]), traits);
  ggml_tensor* arguments[] = {linear.weight, packed};
  return ggml_custom_4d(context_, GGML_TYPE_F32, linear.weight->ne[1], x->ne[1], 1, 1, arguments, 2,
                        multiply_rows, GGML_N_TASKS_MAX, nullptr);
}

}  // namespace quire::model
