// UTF-8 as of the Unicode standard 15, table 3-7: the bytes that may follow each other.

#include "engine/utf8.h"

#include <cstdint>

namespace quire::engine {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// The start of `bytes`: a letter, part of one, or (ill-formed) something to replace.
struct Lead {
  std::size_t length;  // bytes to consume; of a partial letter, what is there
  enum class Kind : std::uint8_t { kLetter, kPartial, kIllFormed } kind;
};

Lead lead_of(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); };
  const std::uint8_t first = at(0);
  if (first < 0x80) return {1, Lead::Kind::kLetter};
  if (first < 0xC2 || first > 0xF4) return {1, Lead::Kind::kIllFormed};
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // The second byte is narrower after these, so that no letter has two spellings.
  const std::uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const std::uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  for (std::size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {i, Lead::Kind::kPartial};
    if (at(i) < (i == 1 ? low : 0x80) || at(i) > (i == 1 ? high : 0xBF)) {
      return {i, Lead::Kind::kIllFormed};
    }
  }
  return {length, Lead::Kind::kLetter};
}

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  held_ += bytes;
  std::string letters;
  std::string_view rest = held_;
  while (!rest.empty()) {
    const Lead lead = lead_of(rest);
    if (lead.kind == Lead::Kind::kPartial) break;
    letters += lead.kind == Lead::Kind::kLetter ? rest.substr(0, lead.length) : kReplacement;
    rest.remove_prefix(lead.length);
  }
  held_ = std::string(rest);
  return letters;
}

std::string Utf8Stream::finish() {
  const bool partial = !held_.empty();
  held_.clear();
  return partial ? std::string(kReplacement) : std::string();
}

}  // namespace quire::engine
