#include "serve/session_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

namespace quire::serve {
namespace {

static_assert(std::endian::native == std::endian::little, "K and V go to disk as they are");

constexpr char kMagic[] = "quireKV\n";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kKeyType = 12, kValueType = 16, kUnitTokens = 20, kUnits = 24, kZero = 28,
                      kIdentity = 32, kSalt = 64, kText = 96, kHeadBytes = 128;

using Head = std::array<std::byte, kHeadBytes>;

template <typename T>
void put(Head& head, std::size_t at, const T& value) {
  std::memcpy(head.data() + at, &value, sizeof(value));
}

template <typename T>
T get(std::span<const std::byte> head, std::size_t at) {
  T value;
  std::memcpy(&value, head.data() + at, sizeof(value));
  return value;
}

std::string place(const char* field, std::uint64_t offset) {
  return std::string(field) + " at offset " + std::to_string(offset);
}

Status corrupt(const std::string& where, const std::string& why) {
  return {Code::kCorrupt, "session: " + where + ": " + why};
}

Status other(const std::string& where, const std::string& why) {
  return {Code::kUnsupported, "session: " + where + ": " + why};
}

const char* type_text(std::uint32_t type) {
  constexpr const char* kNames[] = {"f16", "bf16", "f32"};
  return type < std::size(kNames) ? kNames[type] : "unknown";
}

}  // namespace

SessionLayout session_layout(const Cache& cache) {
  const CacheOptions& options = cache.options();
  return {.key_type = options.key_type,
          .value_type = options.value_type,
          .block_tokens = options.block_tokens,
          .identity = cache.prefix_identity(),
          .unit_bytes = [&cache](std::uint32_t units, std::uint32_t begin, std::uint32_t end) {
            return cache.unit_bytes(units, begin, end);
          }};
}

std::uint64_t session_bytes(const SessionLayout& layout, std::uint32_t units) {
  return kHeadBytes + std::uint64_t{units} * layout.block_tokens * sizeof(Token) + sizeof(Digest) +
         layout.unit_bytes(units, 0, units) + std::uint64_t{units} * sizeof(Digest);
}

// --- writing ---

SessionWriter::SessionWriter(const SessionLayout& layout, Sink sink)
    : layout_(layout), sink_(std::move(sink)) {}

Status SessionWriter::end_part() {
  const Digest digest = hash_.finish();
  hash_.add(digest);
  return sink_(digest);
}

Status SessionWriter::begin(const SessionText& text) {
  units_ = static_cast<std::uint32_t>(text.tokens.size() / layout_.block_tokens);
  Head head{};
  std::memcpy(head.data(), kMagic, 8);
  put(head, 8, kVersion);
  put(head, kKeyType, static_cast<std::uint32_t>(layout_.key_type));
  put(head, kValueType, static_cast<std::uint32_t>(layout_.value_type));
  put(head, kUnitTokens, layout_.block_tokens);
  put(head, kUnits, units_);
  put(head, kIdentity, layout_.identity);
  put(head, kSalt, text.salt);
  put(head, kText, text.text);
  for (const std::span<const std::byte> bytes :
       {std::span<const std::byte>(head), std::as_bytes(std::span(text.tokens))}) {
    hash_.add(bytes);
    if (Status status = sink_(bytes); !status.ok()) return status;
  }
  return end_part();
}

Status SessionWriter::add(std::span<const std::byte> bytes, std::uint32_t count) {
  for (const std::uint32_t end = next_ + count; next_ < end; ++next_) {
    const std::size_t size = layout_.unit_bytes(units_, next_, next_ + 1);
    hash_.add(bytes.first(size));
    if (Status status = sink_(bytes.first(size)); !status.ok()) return status;
    if (Status status = end_part(); !status.ok()) return status;
    bytes = bytes.subspan(size);
  }
  return {};
}

// --- reading ---

Result<SessionReader> SessionReader::open(SessionSource& source, const SessionLayout& layout) {
  SessionReader reader(source, layout);
  if (Status status = reader.read_head(); !status.ok()) return status;
  reader.rewind();
  return reader;
}

Status SessionReader::read_head() {
  const std::uint64_t size = source_->size();
  if (size < kHeadBytes) {
    return corrupt("size",
                   std::to_string(size) + " bytes, a head has " + std::to_string(kHeadBytes));
  }
  Head head;
  if (Status status = source_->read(0, head); !status.ok()) return status;
  if (std::memcmp(head.data(), kMagic, 8) != 0) {
    return corrupt(place("magic", 0), "this is no session of quire");
  }
  if (const auto version = get<std::uint32_t>(head, 8); version != kVersion) {
    return other(place("version", 8),
                 std::to_string(version) + ", this program reads " + std::to_string(kVersion));
  }
  units_ = get<std::uint32_t>(head, kUnits);
  const auto tokens = std::uint64_t{units_} * get<std::uint32_t>(head, kUnitTokens);
  if (tokens == 0 || tokens > kSessionTokensMost) {
    return corrupt(place("units", kUnits), std::to_string(tokens) + " tokens, of 1 to " +
                                               std::to_string(kSessionTokensMost));
  }
  const std::uint64_t end = kHeadBytes + tokens * sizeof(Token);
  first_unit_ = end + sizeof(Digest);
  if (size < first_unit_) {
    return corrupt("size", std::to_string(size) + " bytes, head and tokens have " +
                               std::to_string(first_unit_));
  }
  text_.tokens.resize(tokens);
  const std::span<std::byte> token_bytes = std::as_writable_bytes(std::span(text_.tokens));
  if (Status status = source_->read(kHeadBytes, token_bytes); !status.ok()) return status;
  if (Status status = source_->read(end, head_digest_); !status.ok()) return status;
  engine::Sha256 hash;
  hash.add(head);
  hash.add(token_bytes);
  if (hash.finish() != head_digest_) {
    return corrupt(place("checksum", end), "head or tokens are damaged");
  }
  if (get<std::uint32_t>(head, kZero) != 0) return corrupt(place("zero", kZero), "it is not");
  text_.salt = get<Digest>(head, kSalt);
  text_.text = get<Digest>(head, kText);
  if (Status status = check_layout(head); !status.ok()) return status;
  return check_size();
}

Status SessionReader::check_layout(std::span<const std::byte> head) const {
  const auto check_type = [&](const char* field, std::size_t at, KvType own) -> Status {
    const auto type = get<std::uint32_t>(head, at), mine = static_cast<std::uint32_t>(own);
    if (type == mine) return {};
    return other(place(field, at),
                 std::string(type_text(type)) + ", this cache has " + type_text(mine));
  };
  if (Status status = check_type("type of K", kKeyType, layout_->key_type); !status.ok()) {
    return status;
  }
  if (Status status = check_type("type of V", kValueType, layout_->value_type); !status.ok()) {
    return status;
  }
  if (const auto tokens = get<std::uint32_t>(head, kUnitTokens); tokens != layout_->block_tokens) {
    return other(
        place("tokens of a unit", kUnitTokens),
        std::to_string(tokens) + ", this cache has " + std::to_string(layout_->block_tokens));
  }
  if (get<Digest>(head, kIdentity) == layout_->identity) return {};
  return other(place("identity", kIdentity),
               "of another model, version of this program, or mode (--deterministic)");
}

Status SessionReader::check_size() const {
  const std::uint64_t bytes = session_bytes(*layout_, units_);
  if (source_->size() == bytes) return {};
  return corrupt("size", std::to_string(source_->size()) + " bytes, a session of " +
                             std::to_string(units_) + " units has " + std::to_string(bytes));
}

void SessionReader::rewind() {
  next_ = 0;
  at_ = first_unit_;
  digest_ = head_digest_;
}

Status SessionReader::read(std::uint32_t count, std::vector<std::byte>& bytes) {
  QUIRE_CHECK(count <= units_ - next_);
  bytes.resize(layout_->unit_bytes(units_, next_, next_ + count));
  std::span<std::byte> rest(bytes);
  engine::Sha256 hash;
  for (const std::uint32_t end = next_ + count; next_ < end; ++next_) {
    const std::span<std::byte> unit = rest.first(layout_->unit_bytes(units_, next_, next_ + 1));
    Digest digest;
    if (Status status = source_->read(at_, unit); !status.ok()) return status;
    if (Status status = source_->read(at_ + unit.size(), digest); !status.ok()) return status;
    hash.add(digest_);
    hash.add(unit);
    digest_ = hash.finish();
    if (digest_ != digest) {
      return corrupt(place("unit", at_), "unit " + std::to_string(next_) + " is damaged");
    }
    at_ += unit.size() + sizeof(Digest);
    rest = rest.subspan(unit.size());
  }
  return {};
}

}  // namespace quire::serve
