// Where the weights of each matmul are read from: panels for our own kernels (room linear), or, for
// types these do not have, the mapped file.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <thread>

#include "ggml-cpu.h"
#include "model/weights.h"

namespace quire::model {
namespace {

using Counts = std::map<std::string, std::pair<std::size_t, std::size_t>>;  // type: tensors, bytes

std::string summary(const Counts& types) {
  std::string text;
  for (const auto& [type, count] : types) {
    char part[96];
    std::snprintf(part, sizeof(part), "%s%s x %zu (%.1f MiB)", text.empty() ? "" : ", ",
                  type.c_str(), count.first, static_cast<double>(count.second) / (1 << 20));
    text += part;
  }
  return text;
}

std::optional<linear::Format> format_of(const ggml_tensor& weight) {
  constexpr std::pair<ggml_type, linear::Format> kFormats[] = {
      {GGML_TYPE_Q4_0, linear::Format::kQ4_0}, {GGML_TYPE_Q4_1, linear::Format::kQ4_1},
      {GGML_TYPE_Q5_0, linear::Format::kQ5_0}, {GGML_TYPE_Q5_1, linear::Format::kQ5_1},
      {GGML_TYPE_Q8_0, linear::Format::kQ8_0}, {GGML_TYPE_Q4_K, linear::Format::kQ4_K},
      {GGML_TYPE_Q5_K, linear::Format::kQ5_K}, {GGML_TYPE_Q6_K, linear::Format::kQ6_K}};
  for (const auto& [type, format] : kFormats) {
    if (weight.type == type && weight.ne[0] % linear::row_inputs(format) == 0) return format;
  }
  return std::nullopt;
}

linear::Matrix matrix_of(const ggml_tensor& weight, linear::Format format) {
  return {.format = format,
          .inputs = static_cast<std::uint32_t>(weight.ne[0]),
          .outputs = static_cast<std::uint32_t>(weight.ne[1])};
}

// Bytes of its panels, up to where the next weight's may begin.
std::size_t room_of(const linear::Matrix& matrix) {
  constexpr std::size_t kAlign = 64;
  const std::size_t bytes = linear::matrix_bytes(matrix.format, matrix.inputs, matrix.outputs);
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

// Panel by panel, on all threads: packing is arithmetic, a second or so per GiB and thread.
void pack(const std::byte* source, const linear::Matrix& matrix, std::byte* to,
          std::uint32_t threads) {
  std::atomic<std::uint32_t> next = 0;
  const auto work = [&] {
    constexpr std::uint32_t kPanelsAtOnce = 8;
    const std::uint32_t all = linear::panels(matrix.outputs);
    for (std::uint32_t first; (first = next.fetch_add(kPanelsAtOnce)) < all;) {
      for (std::uint32_t p = first; p < std::min(all, first + kPanelsAtOnce); ++p) {
        linear::pack_panel(matrix.format, source, matrix.inputs, matrix.outputs, p, to);
      }
    }
  };
  std::vector<std::jthread> others;
  for (std::uint32_t i = 1; i < threads; ++i) others.emplace_back(work);
  work();
}

}  // namespace

Status Weights::place(const WeightOptions& options) {
  const linear::Kernels& kernels = linear::kernels_for(options.isa);
  std::map<std::string, Counts> paths;
  const auto count = [&](const std::string& path, const ggml_tensor* weight, std::size_t bytes) {
    auto& entry = paths[path][ggml_type_name(weight->type)];
    entry.first += 1;
    entry.second += bytes;
  };
  std::vector<Linear*> packed;
  for (Linear* linear : linears()) {
    const auto format = options.pack ? format_of(*linear->weight) : std::nullopt;
    if (!format) {
      count("ggml, in place", linear->weight, ggml_nbytes(linear->weight));
      continue;
    }
    linear->kernels = &kernels;
    linear->matrix = matrix_of(*linear->weight, *format);
    const std::size_t bytes = room_of(linear->matrix);
    copies_bytes += bytes;
    count(std::string(name_of(kernels.isa)) + ", panels", linear->weight, bytes);
    packed.push_back(linear);
  }
  if (!packed.empty()) {
    Result<std::unique_ptr<Memory>> memory = map_memory(copies_bytes);
    if (!memory.ok() || !(*memory)->commit(0, copies_bytes)) {
      return {Code::kOutOfMemory, file_.path() + ": no memory for the rearranged weights"};
    }
    panels_ = *std::move(memory);
  }

  std::size_t mapped = 0, offset = 0;
  for (const GgufFile::Found& found : file_.tensors()) mapped += found.tensor->bytes;
  for (Linear* linear : packed) {
    std::byte* to = panels_->base() + offset;
    const auto* source = static_cast<const std::byte*>(linear->weight->data);
    pack(source, linear->matrix, to, options.threads);
    linear->matrix.data = to;
    offset += room_of(linear->matrix);
    for (const GgufFile::Found& found : file_.tensors()) {
      if (found.data() != source) continue;
      found.file->forget(found.tensor->offset, found.tensor->bytes);
      mapped -= found.tensor->bytes;
    }
    const float share = static_cast<float>(offset) / static_cast<float>(copies_bytes);
    if (options.progress && !options.progress(share)) {
      return {Code::kCancelled, file_.path() + ": loading was cancelled"};
    }
  }
  in_place_bytes = mapped;
  for (const auto& [path, types] : paths) placement.emplace_back(path, summary(types));
  if (options.progress && !options.progress(1)) {
    return {Code::kCancelled, file_.path() + ": loading was cancelled"};
  }
  return {};
}

}  // namespace quire::model
