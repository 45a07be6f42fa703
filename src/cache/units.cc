// Prefix units as bytes: what is asked is checked here, the tables copy.
#include "cache/paged_cache.h"

namespace quire {

std::uint32_t PagedCache::savable_units(const PrefixText& text) const {
  return tables_.savable_units(text);
}

std::size_t PagedCache::unit_bytes(std::uint32_t units, std::uint32_t begin,
                                   std::uint32_t end) const {
  std::size_t bytes = 0;
  for (std::uint32_t unit = begin; unit < end; ++unit) bytes += tables_.unit_bytes(units, unit);
  return bytes;
}

Status PagedCache::check_units(const PrefixText& text, std::uint32_t begin, std::uint32_t end,
                               std::size_t bytes) const {
  const auto refuse = [](std::string why) {
    return Status(Code::kInvalidArgument, std::move(why));
  };
  if (!options_.prefix.hash) return refuse("units: there is no prefix cache");
  const std::size_t units = text.tokens.size() / options_.block_tokens;
  if (begin > end || end > units) {
    return refuse("units: [" + std::to_string(begin) + ", " + std::to_string(end) +
                  ") of a text of " + std::to_string(units));
  }
  const std::size_t needed = unit_bytes(static_cast<std::uint32_t>(units), begin, end);
  if (bytes == needed) return {};
  return refuse("bytes: " + std::to_string(bytes) + ", the units have " + std::to_string(needed));
}

Status PagedCache::save_units(const PrefixText& text, std::uint32_t begin, std::uint32_t end,
                              std::span<std::byte> out) const {
  if (Status status = check_units(text, begin, end, out.size()); !status.ok()) return status;
  if (tables_.save_units(text, begin, end, out.data())) return {};
  return {Code::kNotFound, "units: not all of them are cached"};
}

Result<std::uint32_t> PagedCache::load_units(const PrefixText& text, std::uint32_t begin,
                                             std::uint32_t end, std::span<const std::byte> bytes) {
  if (Status status = between_steps("load_units"); !status.ok()) return status;
  if (Status status = check_units(text, begin, end, bytes.size()); !status.ok()) return status;
  return tables_.load_units(text, begin, end, bytes.data());
}

}  // namespace quire
