// A model with its cache, opened as the flags say.
#pragma once

#include <functional>
#include <memory>

#include "cli/flags.h"
#include "cli/tuning.h"
#include "model/model.h"
#include "quire/cache.h"

namespace quire::cli {

struct Engine {
  std::unique_ptr<Cache> cache;  // outlives the model, which reads through it
  std::unique_ptr<model::Model> model;
  Tuning tuning{};
};

// QUIRE_ISA is read here and nowhere else: scalar, avx2, avxvnni, avx512, avx512vnni or amx force
// that level; another name, or a level the machine has not, is kInvalidArgument.
Result<Engine> open_engine(const EngineFlags& flags);

// What a budget that was not given is: the bytes of `context` tokens with their tables, at most
// half of the memory that is free now.
std::size_t default_budget(const CacheOptions& options, std::uint32_t context);

// Memory that can be used without swapping, as the kernel estimates it; 0 when it does not say.
std::size_t free_memory_bytes();

}  // namespace quire::cli
