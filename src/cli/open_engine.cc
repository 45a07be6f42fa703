// Opening a model and its cache.

#include "cli/open_engine.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "cli/terminal.h"
#include "engine/budget.h"
#include "engine/generate.h"
#include "engine/sha256.h"

namespace quire::cli {
namespace {

constexpr std::size_t kMi = std::size_t{1} << 20;

Result<Isa> isa_of_environment() {
  const char* name = std::getenv("QUIRE_ISA");
  if (name == nullptr || *name == '\0') return Isa::kAuto;
  std::string all;
  for (Isa isa :
       {Isa::kScalar, Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512, Isa::kAvx512Vnni, Isa::kAmx}) {
    all += (all.empty() ? "" : ", ") + std::string(name_of(isa));
    if (std::string(name) != name_of(isa)) continue;
    if (!model::machine_has(isa)) {
      return Status(Code::kInvalidArgument,
                    "QUIRE_ISA=" + std::string(name) + ": this machine does not have it");
    }
    return isa;
  }
  return Status(Code::kInvalidArgument, "QUIRE_ISA=" + std::string(name) + " is none of " + all);
}

// SHA-256 of all bytes of the files, in order.
Result<std::string> hash_of(const std::vector<std::string>& paths) {
  engine::Sha256 hash;
  std::vector<char> piece(kMi);
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    while (file.read(piece.data(), static_cast<std::streamsize>(kMi)) || file.gcount() > 0) {
      hash.add(std::as_bytes(std::span(piece).first(static_cast<std::size_t>(file.gcount()))));
    }
    if (!file.eof()) return Status(Code::kIo, path + ": cannot be read");
  }
  return engine::hex(hash.finish());
}

// What K and V of a token depend on, beside what the cache knows: within a process its one model,
// beyond it the weights, bit by bit, and this program's arithmetic.
Result<std::string> identity_of(const EngineFlags& flags, const model::ModelInfo& info) {
  if (!flags.hash_model) return info.name;
  const Result<std::string> hash = hash_of(info.files);
  if (!hash.ok()) return hash.status();
  return *hash + "\n" QUIRE_VERSION;
}

Result<CacheOptions> cache_options(const EngineFlags& flags, const model::ModelInfo& info,
                                   const Tuning& tuning) {
  const Result<Isa> isa = isa_of_environment();
  if (!isa.ok()) return isa.status();
  const Result<std::string> identity = identity_of(flags, info);
  if (!identity.ok()) return identity.status();
  CacheOptions options{.layers = info.attention,
                       .key_type = kv_type_of(flags.kv_type),
                       .value_type = kv_type_of(flags.kv_type),
                       .block_tokens = flags.block_tokens,
                       .max_rows = flags.chunk,
                       .isa = *isa,
                       .chunk_kernels = !flags.deterministic,
                       .attend_chunk_rows = tuning.attend_chunk_rows,
                       .reclaim = reclaim_of(flags.reclaim),
                       .prefix = {.hash = engine::sha256, .identity = *identity}};
  if (flags.budget.empty()) {
    const std::uint32_t context =
        flags.context == 0 ? info.context : std::min(flags.context, info.context);
    options.budget_bytes = default_budget(options, context);
  } else {
    const Result<std::size_t> bytes = engine::parse_bytes(flags.budget);
    if (!bytes.ok()) return bytes.status();
    options.budget_bytes = *bytes;
  }
  return options;
}

}  // namespace

std::size_t free_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string key; file >> key;) {
    std::size_t kibibytes = 0;
    if (key == "MemAvailable:" && file >> kibibytes) return kibibytes * 1024;
    file.ignore(256, '\n');
  }
  return 0;
}

std::size_t default_budget(const CacheOptions& options, std::uint32_t context) {
  const std::size_t exact = engine::kv_bytes(options, context, options.max_rows);
  std::size_t bytes = exact + exact / 32 + 2 * kMi;
  if (const std::size_t free = free_memory_bytes(); free > 0) bytes = std::min(bytes, free / 2);
  return std::max(bytes / kMi, std::size_t{1}) * kMi;
}

Result<Engine> open_engine(const EngineFlags& flags) {
  const Result<Isa> isa = isa_of_environment();
  if (!isa.ok()) return isa.status();
  Result<Tuning> tuning = read_tuning(flags.tune);
  if (!tuning.ok()) return tuning.status();
  ProgressLine progress("loading");
  model::ModelOptions model_options{.path = flags.model,
                                    .threads = flags.threads,
                                    .deterministic = flags.deterministic,
                                    .isa = *isa,
                                    .linear_chunk_rows = tuning->linear_chunk_rows,
                                    .chat_template = flags.chat_template,
                                    .progress = [&](float share) {
                                      progress.show(share);
                                      return true;
                                    }};
  Result<std::unique_ptr<model::Model>> model = model::Model::load(std::move(model_options));
  progress.clear();
  if (!model.ok()) return model.status();

  Result<CacheOptions> options = cache_options(flags, (*model)->info(), *tuning);
  if (!options.ok()) return options.status();
  Result<std::unique_ptr<Cache>> cache = Cache::open(*std::move(options));
  if (!cache.ok()) return cache.status();
  if (Status status = (*model)->attach(**cache); !status.ok()) return status;
  return Engine{
      .cache = *std::move(cache), .model = *std::move(model), .tuning = *std::move(tuning)};
}

}  // namespace quire::cli
