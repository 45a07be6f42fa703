// Sizes as people write them: bytes and keep targets.

#include <charconv>
#include <cmath>
#include <limits>

#include "engine/generate.h"

namespace quire::engine {
namespace {

// Splits "1.5GiB" into 1.5 and "GiB"; false when it does not start with a finite number >= 0.
bool split(std::string_view text, double& amount, std::string_view& unit) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount);
  if (error != std::errc{} || !std::isfinite(amount) || std::signbit(amount)) return false;
  unit = text.substr(static_cast<std::size_t>(end - text.data()));
  return true;
}

// Bytes of a unit; 0 when there is no such unit.
double unit_bytes(std::string_view unit) {
  if (unit.empty() || unit == "B") return 1;
  if (unit == "KiB" || unit == "K" || unit == "k") return 1024;
  if (unit == "MiB" || unit == "M" || unit == "m") return 1024.0 * 1024;
  if (unit == "GiB" || unit == "G" || unit == "g") return 1024.0 * 1024 * 1024;
  return 0;
}

std::string number_text(double amount) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), amount);
  return error == std::errc{} ? std::string(buffer, end) : std::string("?");
}

}  // namespace

Result<std::size_t> parse_bytes(std::string_view text) {
  double amount = 0;
  std::string_view unit;
  const bool read = split(text, amount, unit);
  const double bytes = read ? amount * unit_bytes(unit) : 0;
  if (bytes < 1 || bytes > 0x1p60) {
    return Status(Code::kInvalidArgument,
                  "\"" + std::string(text) + "\" is not a size such as 64MiB, 1.5GiB or 4096");
  }
  return static_cast<std::size_t>(bytes);
}

std::string bytes_text(std::size_t bytes) {
  constexpr std::size_t kKi = 1024;
  if (bytes > 0 && bytes % (kKi * kKi * kKi) == 0) {
    return std::to_string(bytes / (kKi * kKi * kKi)) + "GiB";
  }
  if (bytes > 0 && bytes % (kKi * kKi) == 0) return std::to_string(bytes / (kKi * kKi)) + "MiB";
  if (bytes > 0 && bytes % kKi == 0) return std::to_string(bytes / kKi) + "KiB";
  return std::to_string(bytes);
}

Result<Keep> parse_keep(std::string_view text) {
  double amount = 0;
  std::string_view unit;
  if (text == "pool") return Keep{};
  const bool read = split(text, amount, unit);
  constexpr double kMost = std::numeric_limits<std::uint32_t>::max();
  if (read && unit == "tok" && amount >= 1 && amount <= kMost && amount == std::floor(amount)) {
    return Keep{.unit = Keep::Unit::kTokens, .amount = amount};
  }
  if (read && unit == "%" && amount > 0 && amount <= 100) {
    return Keep{.unit = Keep::Unit::kPercent, .amount = amount};
  }
  if (read && !unit.empty()) {
    const Result<std::size_t> bytes = parse_bytes(text);
    if (bytes.ok()) return Keep{Keep::Unit::kBytes, static_cast<double>(*bytes)};
  }
  return Status(Code::kInvalidArgument, "\"" + std::string(text) +
                                            "\" is not a keep target such as 1024tok, 25%, "
                                            "16MiB or pool");
}

std::string to_string(const Keep& keep) {
  switch (keep.unit) {
    case Keep::Unit::kPool:
      return "pool";
    case Keep::Unit::kTokens:
      return std::to_string(static_cast<std::uint64_t>(keep.amount)) + "tok";
    case Keep::Unit::kPercent:
      return number_text(keep.amount) + "%";
    case Keep::Unit::kBytes: {
      const std::string bytes = bytes_text(static_cast<std::size_t>(keep.amount));
      return bytes.back() == 'B' ? bytes : bytes + "B";
    }
  }
  return {};
}

}  // namespace quire::engine
