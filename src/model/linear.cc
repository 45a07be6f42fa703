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

std::uint32_t u32(std::int64_t value) {
  return static_cast<std::uint32_t>(value);
}
const float* floats(const ggml_tensor* tensor) {
  return tensor == nullptr ? nullptr : static_cast<const float*>(tensor->data);
}

// dst [bytes a row, rows] i8: the records of src[0], normed by src[1] if there is one.
void normalize_node(ggml_tensor* dst, int ith, int nth, void* user) {
  const auto& set = *static_cast<const LinearSet*>(user);
  const ggml_tensor *x = dst->src[0], *weight = dst->src[1];
  const linear::Kernels& kernels = set.kernels_for(x->ne[1]);
  const Range rows = share(x->ne[1], ith, nth);
  auto* records = static_cast<std::byte*>(dst->data);
  if (weight == nullptr) {
    kernels.quantize(floats(x), u32(x->ne[1]), u32(x->ne[0]), u32(rows.begin), u32(rows.end),
                     records);
  } else {
    kernels.normalize(floats(x), floats(weight), set.norm_epsilon, u32(x->ne[1]), u32(x->ne[0]),
                      u32(rows.begin), u32(rows.end), records);
  }
}

// dst [bytes a row, rows] i8: the records of activation(src[0]) * src[1].
void activate_node(ggml_tensor* dst, int ith, int nth, void* user) {
  const auto& set = *static_cast<const LinearSet*>(user);
  const ggml_tensor *gate = dst->src[0], *up = dst->src[1];
  const Range rows = share(gate->ne[1], ith, nth);
  set.kernels_for(gate->ne[1])
      .activate(set.activation, floats(gate), floats(up), u32(gate->ne[1]), u32(gate->ne[0]),
                u32(rows.begin), u32(rows.end), static_cast<std::byte*>(dst->data));
}

// dst [outputs x rows] f32, one weight's product after the other; src[0]: records, src[1]: what is
// added, or null.
void multiply_node(ggml_tensor* dst, int ith, int nth, void* user) {
  const auto& set = *static_cast<const LinearSet*>(user);
  const std::int64_t rows = dst->src[0]->ne[1];
  const linear::Kernels& kernels = set.kernels_for(rows);
  const auto* records = static_cast<const std::byte*>(dst->src[0]->data);
  auto* out = static_cast<float*>(dst->data);
  // Kernels work on two panels at once.  All weights' pairs are shared out as one row of work.
  std::int64_t all = 0;
  for (const Linear* linear : set.linears) all += (linear::panels(linear->matrix.outputs) + 1) / 2;
  const Range mine = share(all, ith, nth);
  std::int64_t first = 0;
  for (const Linear* linear : set.linears) {
    const std::int64_t panels = linear::panels(linear->matrix.outputs), pairs = (panels + 1) / 2;
    const std::int64_t begin = std::max(mine.begin - first, std::int64_t{0});
    const std::int64_t end = std::min(mine.end - first, pairs);
    if (begin < end) {
      kernels.multiply(linear->matrix, floats(linear->bias), floats(dst->src[1]), records,
                       u32(rows), u32(2 * begin), u32(std::min(panels, 2 * end)), out);
    }
    first += pairs;
    out += rows * linear->matrix.outputs;
  }
}

// dst [in, rows] f32; src[0]: tokens.
void rows_node(ggml_tensor* dst, int ith, int nth, void* user) {
  const auto& linear = *static_cast<const Linear*>(user);
  const auto* tokens = static_cast<const std::int32_t*>(dst->src[0]->data);
  const Range rows = share(dst->ne[1], ith, nth);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    linear::unpack_output(linear.matrix, u32(tokens[row]),
                          static_cast<float*>(dst->data) + row * dst->ne[0]);
  }
}

// dst [dims, rows]: the pairs (1, 0), in the places that the rotation pairs.
template <bool kHalves>
void basis_node(ggml_tensor* dst, int ith, int nth, void*) {
  const Range rows = share(dst->ne[1], ith, nth);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    auto* to = static_cast<float*>(dst->data) + row * dst->ne[0];
    for (std::int64_t i = 0; i < dst->ne[0]; ++i) {
      to[i] = (kHalves ? i < dst->ne[0] / 2 : i % 2 == 0) ? 1.0f : 0.0f;
    }
  }
}

// dst [(query heads + key heads) x size x rows]: src[0] and src[1] rotated by the table in src[2].
void rotate_node(ggml_tensor* dst, int ith, int nth, void* user) {
  const auto& layer = *static_cast<const LayerWeights*>(user);
  const ggml_tensor* table = dst->src[2];
  const Range rows = share(table->ne[2], ith, nth);
  auto* out = static_cast<float*>(dst->data);
  for (int i = 0; i < 2; ++i) {
    const ggml_tensor* x = dst->src[i];
    const std::uint32_t size = layer.key_size;
    layer.q.kernels->rotate({.x = floats(x),
                             .out = out,
                             .heads = u32(x->ne[0]) / size,
                             .size = size,
                             .dims = u32(table->ne[0]),
                             .halves = layer.halves,
                             .norm = floats(i == 0 ? layer.q_norm : layer.k_norm),
                             .epsilon = layer.qkv.norm_epsilon},
                            floats(table), u32(rows.begin), u32(rows.end));
    out += ggml_nelements(x);
  }
}

}  // namespace

ggml_tensor* LayerNodes::custom(ggml_type type, std::int64_t ne0, std::int64_t ne1,
                                std::vector<ggml_tensor*> sources, ggml_custom_op_t run,
                                const void* with) {
  // The nodes only read what `with` points to.
  return ggml_custom_4d(context_, type, ne0, ne1, 1, 1, sources.data(),
                        static_cast<int>(sources.size()), run, GGML_N_TASKS_MAX,
                        const_cast<void*>(with));
}

std::vector<ggml_tensor*> LayerNodes::products(const LinearSet& set, const LinearInput& input,
                                               ggml_tensor* residual) {
  std::vector<ggml_tensor*> results;
  if (!set.by_panels()) {
    ggml_tensor* x = materialized(input);
    for (const Linear* linear : set.linears) {
      ggml_tensor* y = by_ggml(*linear, x);
      results.push_back(residual == nullptr ? y : ggml_add(context_, y, residual));
    }
    return results;
  }
  const std::int64_t in = input.x->ne[0], rows = input.x->ne[1];
  // Padded row counts are multiples of record_rows.
  const linear::Kernels& kernels = set.kernels_for(rows);
  const auto row_bytes = static_cast<std::int64_t>(
      linear::rows_bytes(kernels, kernels.record_rows, u32(in)) / kernels.record_rows);
  std::vector<ggml_tensor*> sources{input.x};
  if (input.norm != nullptr) sources.push_back(input.norm);
  if (input.up != nullptr) sources.push_back(input.up);
  ggml_tensor* records = custom(GGML_TYPE_I8, row_bytes, rows, sources,
                                input.up != nullptr ? activate_node : normalize_node, &set);
  sources = {records};
  if (residual != nullptr) sources.push_back(residual);
  // A view's memory is kept only as long as its source's, so an output must not be one.
  if (set.linears.size() == 1) {
    return {custom(GGML_TYPE_F32, set.outputs(), rows, sources, multiply_node, &set)};
  }
  ggml_tensor* all = custom(GGML_TYPE_F32, set.outputs() * rows, 1, sources, multiply_node, &set);
  std::size_t offset = 0;
  for (const Linear* linear : set.linears) {
    const std::int64_t out = linear->weight->ne[1];
    results.push_back(ggml_view_2d(context_, all, out, rows,
                                   static_cast<std::size_t>(out) * sizeof(float), offset));
    offset += static_cast<std::size_t>(out * rows) * sizeof(float);
  }
  return results;
}

ggml_tensor* LayerNodes::norm(ggml_tensor* x, ggml_tensor* weight) {
  return ggml_mul(context_, ggml_rms_norm(context_, x, shape_.norm_epsilon), weight);
}

ggml_tensor* LayerNodes::materialized(const LinearInput& input) {
  if (input.norm != nullptr) return norm(input.x, input.norm);
  if (input.up == nullptr) return input.x;
  return shape_.architecture->activation == Activation::kSilu
             ? ggml_swiglu_split(context_, input.x, input.up)
             : ggml_geglu_split(context_, input.x, input.up);
}

ggml_tensor* LayerNodes::rows_of(const Linear& linear, ggml_tensor* tokens) {
  return custom(GGML_TYPE_F32, linear.matrix.inputs, tokens->ne[0], {tokens}, rows_node, &linear);
}

ggml_tensor* LayerNodes::rope(ggml_tensor* x, const Rope& rope, ggml_tensor* positions,
                              ggml_tensor* factors) {
  return ggml_rope_ext(context_, x, positions, factors, static_cast<int>(rope.dims), rope.type,
                       static_cast<int>(rope.original_context), rope.base, rope.frequency_scale,
                       rope.extrapolation, rope.magnitude, kYarnBetaFast, kYarnBetaSlow);
}

// [dims, 1, rows]: where ggml's rotation takes the pairs (1, 0), so every scaling it knows is in.
ggml_tensor* LayerNodes::table(const Rope& rope, ggml_tensor* positions, ggml_tensor* factors) {
  for (const auto& [known, made] : tables_) {
    if (*known == rope) return made;
  }
  const std::int64_t rows = positions->ne[0];
  ggml_tensor* basis = custom(GGML_TYPE_F32, rope.dims, rows, {positions},
                              rope.halves() ? basis_node<true> : basis_node<false>, nullptr);
  basis = ggml_reshape_3d(context_, basis, rope.dims, 1, rows);
  ggml_tensor* made = this->rope(basis, rope, positions, factors);
  tables_.emplace_back(&rope, made);
  return made;
}

LayerNodes::Heads LayerNodes::rotated(const Heads& heads, const LayerConfig& config,
                                      const LayerWeights& layer, ggml_tensor* positions,
                                      ggml_tensor* factors) {
  if (!layer.qkv.by_panels()) {
    const auto one = [&](ggml_tensor* x, std::uint32_t count, ggml_tensor* weight) {
      x = ggml_reshape_3d(context_, x, shape_.key_size, count, x->ne[1]);
      if (weight != nullptr) x = norm(x, weight);
      return rope(x, config.rope, positions, factors);
    };
    return {one(heads.query, config.query_heads, layer.q_norm),
            one(heads.key, config.kv_heads, layer.k_norm)};
  }
  ggml_tensor* turn = table(config.rope, positions, factors);
  const std::int64_t query = heads.query->ne[0], key = heads.key->ne[0], rows = turn->ne[2];
  ggml_tensor* all = custom(GGML_TYPE_F32, (query + key) * rows, 1, {heads.query, heads.key, turn},
                            rotate_node, &layer);
  return {ggml_view_2d(context_, all, query, rows, query * sizeof(float), 0),
          ggml_view_2d(context_, all, key, rows, key * sizeof(float),
                       static_cast<std::size_t>(query * rows) * sizeof(float))};
}

ggml_tensor* LayerNodes::by_ggml(const Linear& linear, ggml_tensor* x) {
  ggml_tensor* y = row_by_row_ ? by_rows(linear, x) : ggml_mul_mat(context_, linear.weight, x);
  return linear.bias == nullptr ? y : ggml_add(context_, y, linear.bias);
}

ggml_tensor* LayerNodes::by_rows(const Linear& linear, ggml_tensor* x) {
  const auto* traits = ggml_get_type_traits_cpu(linear.weight->type);
  const ggml_type type = traits->vec_dot_type;
  ggml_tensor* packed = x;
  if (type != GGML_TYPE_F32) {
    if (last_x_ != x || last_traits_ != traits) {
      last_ = custom(GGML_TYPE_I8, static_cast<std::int64_t>(ggml_row_size(type, x->ne[0])),
                     x->ne[1], {x}, pack_rows, traits);
      last_x_ = x;
      last_traits_ = traits;
    }
    packed = last_;
  }
  return custom(GGML_TYPE_F32, linear.weight->ne[1], x->ne[1], {linear.weight, packed},
                multiply_rows, nullptr);
}

}  // namespace quire::model
