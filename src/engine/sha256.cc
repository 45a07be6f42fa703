#include "engine/sha256.h"

#include <openssl/sha.h>

namespace quire::engine {

static_assert(sizeof(Digest) == SHA256_DIGEST_LENGTH);

Digest sha256(std::span<const std::byte> bytes) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

std::string sha256_hex(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const std::byte byte : sha256(std::as_bytes(std::span(text)))) {
    hex += kDigits[std::to_integer<unsigned>(byte) >> 4];
    hex += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return hex;
}

}  // namespace quire::engine
