// The seed of a random test: QUIRE_SEED, or a fresh one.  Print it with SCOPED_TRACE.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>

namespace quire::test {

inline std::uint64_t seed() {
  if (const char* given = std::getenv("QUIRE_SEED")) return std::strtoull(given, nullptr, 10);
  return std::random_device{}();
}

}  // namespace quire::test
