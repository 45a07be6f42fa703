#include "cli/bench_arm.h"

#include <algorithm>

namespace quire::cli {

model::Token bench_token(std::uint32_t sequence, std::uint32_t position, std::uint32_t vocabulary) {
  // SplitMix64's mixer over the place.
  std::uint64_t x = (std::uint64_t{sequence} << 32 | position) + 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  x ^= x >> 31;
  return static_cast<model::Token>(x % vocabulary);
}

std::vector<model::Token> bench_tokens(std::uint32_t sequence, std::uint32_t first,
                                       std::uint32_t count, std::uint32_t vocabulary) {
  std::vector<model::Token> tokens(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    tokens[i] = bench_token(sequence, first + i, vocabulary);
  }
  return tokens;
}

std::uint32_t bench_length(const std::vector<BenchRow>& rows, std::uint32_t batch) {
  std::uint32_t longest = 0;
  for (const BenchRow& row : rows) {
    if (row.batch == batch) longest = std::max(longest, row.depth + row.tokens);
  }
  return longest;
}

}  // namespace quire::cli
