// Bytes into tokens and back, for one cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "quire/cache.h"

namespace quire::engine {

// K and V of one token over every lane of every layer, tables apart.
std::size_t kv_bytes_per_token(const CacheOptions& options);

// The smallest budget (in steps of 64 KiB, from 16 MiB on of 1 MiB) with which a cache like this
// holds `tokens` tokens of one sequence; 0 when the machine cannot give it.  Found by opening
// caches of other sizes: reserving costs nothing until slabs are taken.
std::size_t budget_for(const CacheOptions& options, const Needs& needs, std::uint32_t tokens);

// "; a budget of 72MiB would do", or what is known instead.
std::string budget_advice(const CacheOptions& options, const Needs& needs, std::uint32_t tokens);

}  // namespace quire::engine
