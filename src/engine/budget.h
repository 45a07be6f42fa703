// Bytes into tokens and back, for one cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "quire/cache.h"

namespace quire::engine {

// K and V of one token over every lane of every layer, tables apart.
std::size_t kv_bytes_per_token(const CacheOptions& options);
// Likewise over the full-attention layers alone: what a long sequence still grows by, and what a
// review can free.
std::size_t full_bytes_per_token(const CacheOptions& options);
// K and V of a sequence of `tokens` tokens, tables apart: of a window layer at most its window and
// the rows of a step.
std::size_t kv_bytes(const CacheOptions& options, std::uint64_t tokens, std::uint32_t step_rows);

// The smallest budget (in steps of 64 KiB, from 16 MiB on of 1 MiB) with which a cache like this
// holds `tokens` tokens of one sequence; 0 when the machine cannot give it.  Found by opening
// caches of other sizes: reserving costs nothing until slabs are taken.
std::size_t budget_for(const CacheOptions& options, const Needs& needs, std::uint32_t tokens);

// "; a budget of 72MiB would do", or what is known instead.
std::string budget_advice(const CacheOptions& options, const Needs& needs, std::uint32_t tokens);

}  // namespace quire::engine
