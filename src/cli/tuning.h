// The table that `quire tune` writes and --tune reads: from how many rows on the kernels for chunks
// are taken.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "model/model.h"
#include "model/tune.h"
#include "quire/cache.h"
#include "quire/status.h"

namespace quire::cli {

struct Tuning {
  std::uint32_t linear_chunk_rows = model::ModelOptions().linear_chunk_rows;
  std::uint32_t attend_chunk_rows = CacheOptions().attend_chunk_rows;
  std::string source{};  // the file; empty: the defaults in the source
  std::string cpu{};     // it was measured on
};

// kInvalidArgument names `source` and the line or field.
Result<Tuning> parse_tuning(std::string_view text, const std::string& source);
// kIo when the file cannot be read; an empty path is the defaults.
Result<Tuning> read_tuning(const std::string& path);

struct TunedMachine {
  std::string cpu, isa, model;
};
nlohmann::ordered_json tuning_json(const TunedMachine& machine,
                                   std::span<const model::TuneCell> cells);

}  // namespace quire::cli
