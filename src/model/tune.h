// From how many rows on the kernels for chunks (AMX) pay on this machine: what `quire tune`
// measures, and nothing else ever does.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/model.h"
#include "quire/status.h"

namespace quire::model {

// The same work by the exact kernels and by those for chunks, in pairs whose order alternates, in
// processor time of one thread.
struct TuneCell {
  enum class Work : std::uint8_t {
    kLinear,  // the products of some layers; rows: those of a step, ModelOptions::linear_chunk_rows
    kAttend,  // one KV head; rows: tokens x query heads, CacheOptions::attend_chunk_rows
  };
  Work work = Work::kLinear;
  std::uint32_t rows = 0;
  double exact_seconds = 0, chunk_seconds = 0;  // medians
  double ratio = 0;                             // median of chunk / exact, pair by pair
};

struct TuneOptions {
  Isa isa = Isa::kAuto;
  KvType kv_type = KvType::kF16;
  bool quick = false;                     // fewer pairs, fewer weights: seconds
  std::function<bool(float)> progress{};  // 0 ... 1; false cancels
};

// No step has as many rows: a threshold of "never".
constexpr std::uint32_t kNeverRows = 1u << 20;

// The cells of the model's weight shapes (of those that lie in panels) and layer shapes, rows
// ascending in each work; none where the machine has no kernels for chunks.  kCancelled.
Result<std::vector<TuneCell>> measure_chunks(const Model& model, const TuneOptions& options);

// The fewest rows measured from which on no cell of the work has the exact kernels faster; without
// one, kNeverRows; `fallback` where nothing of it was measured.
std::uint32_t chunk_rows_of(std::span<const TuneCell> cells, TuneCell::Work work,
                            std::uint32_t fallback);

}  // namespace quire::model
