// The prefix cache: what one sequence has computed, the next with the same beginning need not.
//
// A prefix unit is the K and V of all layers over `block_tokens` positions, the k-th of a text
// being positions [k * block_tokens, (k + 1) * block_tokens).  It is known by a chain of digests
// over model, layout, KV types, salt and all tokens up to its end; its tokens are compared as well.
// Units share their blocks with the sequences that read them, live in the same budget, and make way
// whenever rows need the room, so that they are never a reason for a refusal.
//
//   index(sequence, text)             what it has computed of the text may be shared from now on
//   lookup(text, needs)               what is cached of a text, and why not more
//   start_with_prefix(needs, text)    a sequence that begins behind what is cached
//   save_units(...), load_units(...)  units as bytes, to be cached again by another process
//
// Exact: a unit is entered only if no entry of its sequence had been dropped, so what a sequence
// computes behind units is what it computes alone: to the bit, or with CacheOptions::chunk_kernels
// to rounding.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quire/types.h"

namespace quire {

using Digest = std::array<std::byte, 32>;

struct PrefixOptions {
  // A digest of the bytes, SHA-256 or as strong: whoever can make two texts collide can try to be
  // shown the other's.  Null: no prefix cache; calls are answered as if nothing was there.
  std::function<Digest(std::span<const std::byte>)> hash{};
  // What K and V depend on beside the tokens and what CacheOptions says: the model, its rotation.
  std::string identity{};
};

// The digests of a text's units, kept between calls so that each is computed once.  Any may be
// given with any text: what does not belong to it is computed anew.
struct PrefixKeys {
  struct Unit {
    std::uint64_t fingerprint = 0;  // of the salt and all tokens up to the unit's end
    Digest key{};
  };
  std::vector<Unit> units{};  // [0] of the salt alone, then one for each unit
};

struct PrefixText {
  std::span<const Token> tokens{};
  std::string_view salt{};     // texts with different salts never share: one for each tenant
  PrefixKeys* keys = nullptr;  // read and extended, or null
};

// What ended the reuse of a text.
enum class PrefixEnd : std::uint8_t {
  kDisabled,  // CacheOptions::prefix.hash is null
  kAllRows,   // the needs watch every row of the prompt (Tap::kAllRows, Needs::future)
  kShort,     // the prompt has no whole unit beside the rows that must be computed
  kCold,      // from there on nothing is known of the text
  kDiffers,   // from there on the text is another than any known
  kEvicted,   // what was known there had to make way
  kWindow,    // the units are there, not what the window layers see
  kLastRows,  // all is cached but rows that must be computed: the last one, or Needs::window
};
const char* name_of(PrefixEnd end);  // "disabled", "all-rows", "short", ...

// Neighbouring tokens of a text, all cached or none.
struct PrefixSegment {
  std::uint32_t first = 0, tokens = 0;
  bool cached = false;
};

struct PrefixMatch {
  // The whole text, in order, whole units where cached.  What is behind a hole is valid (it was
  // computed with the same tokens), but not used for now.
  std::vector<PrefixSegment> segments{};
  std::uint32_t usable = 0;  // tokens that start_with_prefix() would not compute; maybe half units
  PrefixEnd end = PrefixEnd::kDisabled;  // why not more
};

struct PrefixStart {
  SequenceId sequence{};
  std::uint32_t reused = 0;  // tokens: the length of the sequence
  PrefixEnd end = PrefixEnd::kDisabled;
};

struct PrefixStats {
  std::uint64_t units = 0;       // cached now
  std::size_t bytes = 0;         // that eviction of all of them would free: counted as free
  std::uint64_t hits = 0;        // sequences that began behind units and committed a step
  std::uint64_t hit_tokens = 0;  // that those did not compute
  std::uint64_t entered = 0;     // units, since open()
  std::uint64_t evicted = 0;     // likewise, to make room or by forget()
};

}  // namespace quire
