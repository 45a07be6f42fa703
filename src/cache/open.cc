// What may be opened, and what is refused with which words.
#include <cmath>
#include <utility>

#include "cache/memory.h"
#include "cache/paged_cache.h"

namespace quire {
namespace {

constexpr std::uint32_t kRowsMax = 1u << 20;

Status wrong(const std::string& field, const std::string& rule) {
  return {Code::kInvalidArgument, field + ": " + rule};
}

bool valid_size(std::uint32_t size) {
  return size >= 64 && size <= 256 && size % 16 == 0;
}

bool valid_type(KvType type) {
  return type == KvType::kF16 || type == KvType::kBF16 || type == KvType::kF32;
}

Status check_layer(const LayerShape& layer, const std::string& name) {
  if (layer.kv_heads == 0) return wrong(name + ".kv_heads", "is 0");
  if (layer.query_heads == 0 || layer.query_heads % layer.kv_heads != 0) {
    return wrong(name + ".query_heads", "is " + std::to_string(layer.query_heads) +
                                            ", not a multiple of kv_heads (" +
                                            std::to_string(layer.kv_heads) + ")");
  }
  if (layer.query_heads / layer.kv_heads > 16) {
    return wrong(name + ".query_heads", "gives groups of " +
                                            std::to_string(layer.query_heads / layer.kv_heads) +
                                            "; at most 16 query heads may share a KV head");
  }
  const char* sizes = ", not a multiple of 16 from 64 to 256";
  if (!valid_size(layer.key_size)) {
    return wrong(name + ".key_size", "is " + std::to_string(layer.key_size) + sizes);
  }
  if (!valid_size(layer.value_size)) {
    return wrong(name + ".value_size", "is " + std::to_string(layer.value_size) + sizes);
  }
  if (!std::isfinite(layer.scale)) return wrong(name + ".scale", "is not finite");
  if (!std::isfinite(layer.softcap) || layer.softcap < 0) {
    return wrong(name + ".softcap", "must be 0 or a positive number");
  }
  if (!layer.sinks.empty() && layer.sinks.size() != layer.query_heads) {
    return wrong(name + ".sinks", "has " + std::to_string(layer.sinks.size()) +
                                      " values, not one per query head (" +
                                      std::to_string(layer.query_heads) + ")");
  }
  for (const float sink : layer.sinks) {
    if (!std::isfinite(sink)) return wrong(name + ".sinks", "holds a value that is not finite");
  }
  const std::vector<float>& frequency = layer.rope.frequency;
  if (!frequency.empty() && frequency.size() != layer.key_size / 2) {
    return wrong(name + ".rope.frequency", "has " + std::to_string(frequency.size()) +
                                               " values, not one per pair (" +
                                               std::to_string(layer.key_size / 2) + ")");
  }
  for (const float f : frequency) {
    if (!std::isfinite(f)) {
      return wrong(name + ".rope.frequency", "holds a value that is not finite");
    }
  }
  if (layer.output.size != 0 && !layer.output.rows) return wrong(name + ".output.rows", "is null");
  return {};
}

std::size_t slab_bytes_of(const CacheOptions& options, const Geometry& geometry) {
  return Pool::slab_bytes_for(options.budget_bytes, geometry.largest_extent(),
                              geometry.largest_block());
}

Geometry geometry_of(const CacheOptions& options) {
  Geometry geometry =
      Geometry::of(options.layers, options.key_type, options.value_type, options.block_tokens);
  const std::uint64_t floats = QuerySums(options.layers).floats();
  geometry.query_floats = floats <= QuerySums::kFloatsMost ? static_cast<std::uint32_t>(floats) : 0;
  const std::uint64_t row = LastQueries::floats(options.layers);
  geometry.gate_floats = row <= LastQueries::kFloatsMost ? static_cast<std::uint32_t>(row) : 0;
  return geometry;
}

}  // namespace

Status check_options(const CacheOptions& options) {
  if (options.layers.empty()) return wrong("layers", "is empty");
  for (std::size_t l = 0; l < options.layers.size(); ++l) {
    const Status status = check_layer(options.layers[l], "layers[" + std::to_string(l) + "]");
    if (!status.ok()) return status;
  }
  if (!valid_type(options.key_type)) return wrong("key_type", "is none of f16, bf16, f32");
  if (!valid_type(options.value_type)) return wrong("value_type", "is none of f16, bf16, f32");
  if (options.block_tokens != 8 && options.block_tokens != 16 && options.block_tokens != 32 &&
      options.block_tokens != 64) {
    return wrong("block_tokens",
                 "is " + std::to_string(options.block_tokens) + ", not 8, 16, 32 or 64");
  }
  if (options.max_rows == 0 || options.max_rows > kRowsMax) {
    return wrong("max_rows", "must be 1 to " + std::to_string(kRowsMax));
  }
  if (options.budget_bytes == 0) return wrong("budget_bytes", "is 0");
  if (options.budget_bytes > Pool::kBudgetBytesMax) {
    return wrong("budget_bytes", "is over " + std::to_string(Pool::kBudgetBytesMax));
  }
  for (const auto& [name, value] : {std::pair{"repack.waste", options.repack.waste},
                                    std::pair{"repack.fullness", options.repack.fullness},
                                    std::pair{"repack.watermark", options.repack.watermark}}) {
    if (!(value >= 0 && value <= 1)) return wrong(name, "is not from 0 to 1");
  }
  if (options.repack.headroom_bytes > options.budget_bytes / 2) {
    return wrong("repack.headroom_bytes", "is over half of budget_bytes");
  }
  if (!kernels::machine_has(options.isa)) {
    return {Code::kUnsupported,
            std::string("isa: this machine or build has no ") + name_of(options.isa)};
  }
  std::vector<std::size_t> formats;
  for (const LayerGroup& group : geometry_of(options).groups) {
    if (std::ranges::count(formats, group.block_bytes) == 0) formats.push_back(group.block_bytes);
  }
  if (formats.size() > Pool::kFormatsMax) {
    return {Code::kUnsupported, "layers: " + std::to_string(formats.size()) +
                                    " different block sizes; at most " +
                                    std::to_string(Pool::kFormatsMax)};
  }
  return {};
}

Result<std::unique_ptr<Cache>> Cache::open(CacheOptions options) {
  if (const Status status = check_options(options); !status.ok()) return status;
  const MachineLimit limit = machine_limit();
  if (options.budget_bytes > limit.bytes) {
    return Status(Code::kOutOfMemory,
                  "budget_bytes: " + std::to_string(options.budget_bytes) +
                      " is over the machine's limit; the largest that fits is " +
                      std::to_string(limit.bytes) + " (" + limit.source + ")");
  }
  Result<std::unique_ptr<Memory>> memory = map_memory(options.budget_bytes);
  if (!memory.ok()) return memory.status();
  auto cache = std::make_unique<PagedCache>(std::move(options), *std::move(memory));
  if (cache->tokens_that_fit({}) < cache->options().block_tokens) {
    return Status(Code::kOutOfMemory,
                  "budget_bytes: " + std::to_string(cache->options().budget_bytes) +
                      " cannot hold one block of every lane (" +
                      std::to_string(geometry_of(cache->options()).largest_extent()) +
                      " bytes in the largest layer group)");
  }
  return std::unique_ptr<Cache>(std::move(cache));
}

namespace {

const kernels::Kernels& choose_chunk_kernels(const CacheOptions& options) {
  const kernels::Kernels* chunk =
      options.chunk_kernels ? kernels::chunk_kernels_for(options.isa) : nullptr;
  return chunk != nullptr ? *chunk : kernels::kernels_for(options.isa);
}

}  // namespace

PagedCache::PagedCache(CacheOptions options, std::unique_ptr<Memory> memory)
    : options_(std::move(options)),
      memory_(std::move(memory)),
      pool_(*memory_, {.slab_bytes = slab_bytes_of(options_, geometry_of(options_))}),
      tables_(pool_, geometry_of(options_), options_.reclaim, prefix_naming(options_)),
      kernels_(kernels::kernels_for(options_.isa)),
      chunk_kernels_(choose_chunk_kernels(options_)),
      queries_(options_.layers),
      last_queries_(options_.layers) {
  for (const LayerShape& layer : options_.layers) {
    const float given = layer.scale;
    scale_.push_back(given != 0 ? given : 1.0f / std::sqrt(static_cast<float>(layer.key_size)));
  }
}

}  // namespace quire
