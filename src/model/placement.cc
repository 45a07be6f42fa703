// Where the weights of each matmul are read from: the mapped file, or a copy in the layout of one
// of ggml's faster kernels (repacked rows, AMX tiles).  The choice is libllama's: the first extra
// buffer type of the CPU device that supports the product.

#include <algorithm>
#include <cstdio>
#include <map>

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "model/weights.h"

namespace quire::model {
namespace {

std::vector<ggml_backend_buffer_type_t> extra_buffer_types(ggml_backend_dev_t device) {
  std::vector<ggml_backend_buffer_type_t> types;
  ggml_backend_reg_t registry = ggml_backend_dev_backend_reg(device);
  const auto get = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
      ggml_backend_reg_get_proc_address(registry, "ggml_backend_dev_get_extra_bufts"));
  if (get == nullptr) return types;
  for (ggml_backend_buffer_type_t* type = get(device); type && *type; ++type) {
    types.push_back(*type);
  }
  return types;
}

// Whether a matmul of 512 rows by this weight runs on the kernels behind the buffer type.
bool supports(ggml_backend_dev_t device, ggml_backend_buffer_type_t type, ggml_tensor* weight) {
  const ggml_context_ptr context(
      ggml_init({.mem_size = ggml_tensor_overhead() * 4, .mem_buffer = nullptr, .no_alloc = true}));
  ggml_tensor* rows = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, weight->ne[0], 512);
  ggml_tensor* product = ggml_mul_mat(context.get(), weight, rows);
  const ggml_backend_buffer_ptr empty(ggml_backend_buft_alloc_buffer(type, 0));
  weight->buffer = empty.get();
  const bool supported = ggml_backend_dev_supports_op(device, product);
  weight->buffer = nullptr;
  return supported;
}

std::string summary(const std::map<std::string, std::pair<std::size_t, std::size_t>>& types) {
  std::string text;
  for (const auto& [type, count] : types) {
    char part[96];
    std::snprintf(part, sizeof(part), "%s%s x %zu (%.1f MiB)", text.empty() ? "" : ", ",
                  type.c_str(), count.first, static_cast<double>(count.second) / (1 << 20));
    text += part;
  }
  return text;
}

}  // namespace

Status Weights::place(const WeightOptions& options) {
  ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (device == nullptr) return {Code::kUnsupported, "ggml has no CPU backend"};
  std::map<ggml_backend_buffer_type_t, std::vector<Linear*>> moves;
  std::size_t total = 0, done = 0;
  std::map<std::string, std::map<std::string, std::pair<std::size_t, std::size_t>>> paths;
  const auto count = [&](const std::string& path, const ggml_tensor* weight) {
    auto& entry = paths[path][ggml_type_name(weight->type)];
    entry.first += 1;
    entry.second += ggml_nbytes(weight);
  };
  const auto types =
      options.repack ? extra_buffer_types(device) : std::vector<ggml_backend_buffer_type_t>();
  for (Linear* linear : linears()) {
    const auto type = std::find_if(types.begin(), types.end(), [&](auto candidate) {
      return supports(device, candidate, linear->weight);
    });
    if (type == types.end()) {
      count("in place", linear->weight);
      continue;
    }
    moves[*type].push_back(linear);
    total += ggml_nbytes(linear->weight);
    count(std::string(ggml_backend_buft_name(*type)) + " copy", linear->weight);
  }

  for (auto& [type, linears] : moves) {
    ggml_context_ptr context(ggml_init({.mem_size = ggml_tensor_overhead() * linears.size(),
                                        .mem_buffer = nullptr,
                                        .no_alloc = true}));
    std::vector<ggml_tensor*> copies;
    for (const Linear* linear : linears) {
      copies.push_back(ggml_dup_tensor(context.get(), linear->weight));
      ggml_set_name(copies.back(), linear->weight->name);
    }
    ggml_backend_buffer_ptr buffer(ggml_backend_alloc_ctx_tensors_from_buft(context.get(), type));
    if (buffer == nullptr) {
      return {Code::kOutOfMemory, file_.path() + ": no memory for the repacked weights"};
    }
    ggml_backend_buffer_set_usage(buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    copies_bytes += ggml_backend_buffer_get_size(buffer.get());
    for (std::size_t i = 0; i < copies.size(); ++i) {
      ggml_tensor* source = linears[i]->weight;
      ggml_backend_tensor_set(copies[i], source->data, 0, ggml_nbytes(source));
      linears[i]->weight = copies[i];
      for (const GgufFile::Found& found : file_.tensors()) {
        if (found.data() != source->data) continue;
        found.file->forget(found.tensor->offset, found.tensor->bytes);
      }
      done += ggml_nbytes(source);
      if (options.progress &&
          !options.progress(static_cast<float>(done) / static_cast<float>(total))) {
        return {Code::kCancelled, file_.path() + ": loading was cancelled"};
      }
    }
    copy_contexts_.push_back(std::move(context));
    copies_.push_back(std::move(buffer));
  }

  // A file tensor is read in place unless its only use was moved.
  std::size_t mapped = 0;
  for (const GgufFile::Found& found : file_.tensors()) mapped += found.tensor->bytes;
  for (const Linear* linear : linears()) {
    if (linear->weight->buffer == nullptr) continue;
    const bool tied = linear == &head && std::string(head.weight->name) == token_embedding->name;
    if (!tied) mapped -= ggml_nbytes(linear->weight);
  }
  in_place_bytes = mapped;
  for (const auto& [path, entries] : paths) placement.emplace_back(path, summary(entries));
  if (options.progress && !options.progress(1)) {
    return {Code::kCancelled, file_.path() + ": loading was cancelled"};
  }
  return {};
}

}  // namespace quire::model
