// A session as bytes: exact prefix units of one text, and what they are the K and V of.
//
//   offset  bytes
//        0      8  "quireKV\n"
//        8      4  version: 1
//       12      4  type of K, as KvType
//       16      4  type of V
//       20      4  t, tokens of a unit
//       24      4  n, units: at least 1
//       28      4  zero
//       32     32  identity: Cache::prefix_identity()
//       64     32  salt: the key before the first unit, which tenant and cache_salt make
//       96     32  text: the key of the last unit, which salt and all tokens make
//      128  4 n t  tokens
//              32  SHA-256 of all before
//   and then of each unit
//                  its bytes: Cache::unit_bytes()
//              32  SHA-256 of the digest before and these bytes
//
// Numbers are little-endian.  Every digest covers what is before it, so units of other files, or in
// another order, are seen as well as flipped bits.  What is asked of a file's contents is checked
// before anything of their size is allocated.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/sha256.h"
#include "quire/cache.h"

namespace quire::serve {

// What the units of a cache are like.
struct SessionLayout {
  KvType key_type{}, value_type{};
  std::uint32_t block_tokens = 0;
  Digest identity{};
  // Cache::unit_bytes().
  std::function<std::size_t(std::uint32_t units, std::uint32_t begin, std::uint32_t end)>
      unit_bytes{};
};
SessionLayout session_layout(const Cache& cache);

// What a session is the K and V of: whole units, at least one.
struct SessionText {
  std::vector<Token> tokens{};
  Digest salt{}, text{};  // PrefixKeys: the first key and the last
};

constexpr std::uint32_t kSessionTokensMost = 1u << 24;

// Bytes of the whole session.
std::uint64_t session_bytes(const SessionLayout& layout, std::uint32_t units);

class SessionWriter {
 public:
  using Sink = std::function<Status(std::span<const std::byte>)>;
  SessionWriter(const SessionLayout& layout, Sink sink);

  // Once, first.
  Status begin(const SessionText& text);
  // The next `count` units.
  Status add(std::span<const std::byte> bytes, std::uint32_t count);

 private:
  Status end_part();  // its digest

  const SessionLayout& layout_;
  const Sink sink_;
  engine::Sha256 hash_;
  std::uint32_t units_ = 0, next_ = 0;
};

// Bytes of a session, wherever they are.
class SessionSource {
 public:
  virtual ~SessionSource() = default;
  virtual std::uint64_t size() const = 0;
  // REQUIRES: offset + out.size() <= size().
  virtual Status read(std::uint64_t offset, std::span<std::byte> out) = 0;
};

class SessionReader {
 public:
  // The source outlives the reader.  kCorrupt: not a session, torn or damaged; kUnsupported: of
  // another version, model, layout or KV type.  Both name field and offset.  K and V are not looked
  // at yet.
  static Result<SessionReader> open(SessionSource& source, const SessionLayout& layout);

  const SessionText& text() const { return text_; }
  std::uint32_t units() const { return units_; }
  // The next `count` units, checked.  kCorrupt names the unit and its offset.
  Status read(std::uint32_t count, std::vector<std::byte>& bytes);
  void rewind();  // to the first unit

 private:
  SessionReader(SessionSource& source, const SessionLayout& layout)
      : source_(&source), layout_(&layout) {}
  Status read_head();
  Status check_layout(std::span<const std::byte> head) const;
  Status check_size() const;

  SessionSource* source_;
  const SessionLayout* layout_;
  SessionText text_;
  std::uint32_t units_ = 0, next_ = 0;
  std::uint64_t first_unit_ = 0, at_ = 0;  // offsets
  Digest head_digest_{}, digest_{};        // of the head; of what is before at_
};

}  // namespace quire::serve
