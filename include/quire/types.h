// The vocabulary of the library: one meaning each, as in docs/ARCHITECTURE.md.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quire {

using Position = std::uint32_t;  // index of a token in its text: absolute, never renumbered
using Ordinal = std::uint32_t;   // rank of a live entry in its lane
using Token = std::int32_t;      // a symbol of the model's vocabulary

// Names one sequence of one cache: slot in the low half, generation in the high half, so that an id
// kept after drop() is refused (Code::kNotFound) instead of naming a stranger.
enum class SequenceId : std::uint64_t {};

// How K and V are stored.  Arithmetic is f32 for every type.
enum class KvType : std::uint8_t { kF16, kBF16, kF32 };

constexpr std::size_t bytes_of(KvType type) {
  return type == KvType::kF32 ? 4 : 2;
}

// What a token is to the structure of the text it stands in, in rising precedence: a token that
// covers bytes of several roles has the highest of them (arXiv 2607.13205).
enum class Role : std::uint8_t {
  kProse,      // no structure, or none that was understood
  kBlank,      // between the parts of a structure
  kDelimiter,  // brackets, commas, bars, quotes of tags
  kValue,      // what an entry says
  kHeader,     // the head row of a table
  kKey,        // what an entry is called
};
constexpr std::size_t kRoles = 6;

}  // namespace quire
