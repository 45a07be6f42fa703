// Reads arbitrary bytes as a session: its units or a refusal, never a crash.  No input guesses a
// digest, so every other one is written over a sound session whose digests are then made right:
// what is read must be what was written.
//
//   build/fuzz/fuzz/quire_session_fuzz -max_len=4096 -max_total_time=60

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "serve/session_file.h"

namespace {

using quire::Digest;
using quire::serve::SessionLayout;
using quire::serve::SessionReader;
using quire::serve::SessionText;
using Bytes = std::vector<std::byte>;

constexpr std::uint32_t kUnitTokens = 8;
constexpr std::size_t kHeadBytes = 128;

SessionLayout layout() {
  return {.key_type = quire::KvType::kF16,
          .value_type = quire::KvType::kF16,
          .block_tokens = kUnitTokens,
          .identity = {},
          .unit_bytes = [](std::uint32_t units, std::uint32_t begin, std::uint32_t end) {
            std::size_t bytes = 0;  // the last two see a window
            for (std::uint32_t i = begin; i < end; ++i) bytes += i + 2 < units ? 6 : 9;
            return bytes;
          }};
}

class Source final : public quire::serve::SessionSource {
 public:
  explicit Source(const Bytes& bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  quire::Status read(std::uint64_t offset, std::span<std::byte> out) override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) std::abort();
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return {};
  }

 private:
  const Bytes& bytes_;
};

Bytes written(const SessionLayout& shape, const SessionText& text, const Bytes& units) {
  Bytes out;
  quire::serve::SessionWriter writer(shape, [&](std::span<const std::byte> bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
    return quire::Status();
  });
  const auto count = static_cast<std::uint32_t>(text.tokens.size() / kUnitTokens);
  if (!writer.begin(text).ok() || !writer.add(units, count).ok()) std::abort();
  return out;
}

// The head's digest behind as many tokens as it says, if they are there.
void sign(Bytes& bytes) {
  std::uint32_t numbers[2];
  std::memcpy(numbers, bytes.data() + 20, sizeof(numbers));
  const std::uint64_t end = kHeadBytes + std::uint64_t{numbers[0]} * numbers[1] * 4;
  if (end > bytes.size() || bytes.size() - end < sizeof(Digest)) return;
  const Digest digest = quire::engine::sha256(std::span(bytes).first(end));
  std::memcpy(bytes.data() + end, digest.data(), digest.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const SessionLayout shape = layout();
  Bytes bytes(reinterpret_cast<const std::byte*>(data),
              reinterpret_cast<const std::byte*>(data) + size);
  if (size > 3 && data[0] % 2 == 1) {
    SessionText text;
    text.tokens.resize((1 + data[1] % 5) * kUnitTokens);
    const auto units = static_cast<std::uint32_t>(text.tokens.size() / kUnitTokens);
    const Bytes good = written(shape, text, Bytes(shape.unit_bytes(units, 0, units)));
    const std::size_t at = data[2] % kHeadBytes;
    Bytes changed = good;
    std::copy_n(bytes.begin() + 3, std::min(size - 3, changed.size() - at),
                changed.begin() + static_cast<std::ptrdiff_t>(at));
    sign(changed);
    bytes = std::move(changed);
  }
  Source source(bytes);
  quire::Result<SessionReader> reader = SessionReader::open(source, shape);
  if (!reader.ok()) {
    if (reader.status().message().empty()) std::abort();
    return 0;
  }
  Bytes units;
  if (!reader->read(reader->units(), units).ok()) return 0;
  if (written(shape, reader->text(), units) != bytes) std::abort();
  return 0;
}
