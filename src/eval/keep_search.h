// How many entries a policy may keep so that its sequence takes the bytes it should.
#pragma once

#include <functional>

#include "quire/status.h"

namespace quire::eval {

struct Kept {
  std::uint32_t entries = 0;  // a lane, on average
  std::uint64_t bytes = 0;
  bool reachable = true;  // false: the fewest entries are over the target, and these are they
};

// Bytes of a sequence that keeps so many entries; does not fall with them, and rises in steps where
// memory comes in blocks.
using BytesOf = std::function<Result<std::uint64_t>(std::uint32_t entries)>;

// The entries of [least, most] whose bytes are nearest to `target` (of two equally near ones the
// fewer bytes), and of those with equal bytes the most, to the next multiple of `grain`.  Begins at
// `guess`; asks few values of `bytes_of`.
Result<Kept> find_keep(const BytesOf& bytes_of, std::uint64_t target, std::uint32_t least,
                       std::uint32_t most, std::uint32_t guess, std::uint32_t grain);

}  // namespace quire::eval
