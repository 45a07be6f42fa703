// Which budget would do: asked of the cache itself, so that the number in a refusal is true.

#include "engine/budget.h"

#include <algorithm>

#include "engine/generate.h"

namespace quire::engine {
namespace {

constexpr std::size_t kSmallStep = std::size_t{64} << 10, kLargeStep = std::size_t{1} << 20;
constexpr std::size_t kLargeFrom = std::size_t{16} << 20;

// K and V of one token in one layer.
std::size_t row_bytes(const CacheOptions& options, const LayerShape& layer) {
  return layer.kv_heads * (layer.key_size * bytes_of(options.key_type) +
                           layer.value_size * bytes_of(options.value_type));
}

std::size_t rounded_up(std::size_t bytes) {
  const std::size_t step = bytes >= kLargeFrom ? kLargeStep : kSmallStep;
  return (bytes + step - 1) / step * step;
}

// Tokens that a cache of this budget holds; 0 when it is too small or over what the machine gives.
std::uint32_t tokens_with(CacheOptions options, const Needs& needs, std::size_t budget) {
  options.budget_bytes = budget;
  const Result<std::unique_ptr<Cache>> cache = Cache::open(std::move(options));
  return cache.ok() ? (*cache)->tokens_that_fit(needs) : 0;
}

}  // namespace

std::size_t kv_bytes_per_token(const CacheOptions& options) {
  std::size_t bytes = 0;
  for (const LayerShape& layer : options.layers) bytes += row_bytes(options, layer);
  return bytes;
}

std::size_t full_bytes_per_token(const CacheOptions& options) {
  std::size_t bytes = 0;
  for (const LayerShape& layer : options.layers) {
    if (layer.window == 0) bytes += row_bytes(options, layer);
  }
  return bytes;
}

std::size_t kv_bytes(const CacheOptions& options, std::uint64_t tokens, std::uint32_t step_rows) {
  std::size_t bytes = 0;
  for (const LayerShape& layer : options.layers) {
    const std::uint64_t most = std::uint64_t{layer.window} + step_rows;
    bytes += row_bytes(options, layer) * (layer.window == 0 ? tokens : std::min(tokens, most));
  }
  return bytes;
}

std::size_t budget_for(const CacheOptions& options, const Needs& needs, std::uint32_t tokens) {
  // K and V alone are a lower bound; double until it holds, then halve the interval.
  std::size_t low = rounded_up(kv_bytes(options, tokens, options.max_rows));
  std::size_t high = low;
  for (int doubling = 0; tokens_with(options, needs, high) < tokens; ++doubling) {
    if (doubling == 6) return 0;
    low = high;
    high = rounded_up(high + high / (doubling == 0 ? 8 : 1));
  }
  while (low < high) {
    const std::size_t middle = rounded_up(low + (high - low) / 2);
    if (middle >= high) break;
    (tokens_with(options, needs, middle) < tokens ? low : high) = middle;
  }
  return high;
}

std::string budget_advice(const CacheOptions& options, const Needs& needs, std::uint32_t tokens) {
  const std::size_t budget = budget_for(options, needs, tokens);
  if (budget != 0) return "; a budget of " + bytes_text(budget) + " would do";
  return "; it would take over " +
         bytes_text(rounded_up(kv_bytes(options, tokens, options.max_rows))) +
         ", which this machine cannot give";
}

}  // namespace quire::engine
