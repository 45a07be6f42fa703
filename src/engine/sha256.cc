#include "engine/sha256.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include "quire/check.h"

namespace quire::engine {

static_assert(sizeof(Digest) == SHA256_DIGEST_LENGTH);

Digest sha256(std::span<const std::byte> bytes) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

struct Sha256::State {
  State() { begin(); }
  ~State() { EVP_MD_CTX_free(context); }
  // It fails for want of memory alone.
  void begin() { QUIRE_CHECK(EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1); }

  EVP_MD_CTX* context = EVP_MD_CTX_new();
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;

void Sha256::add(std::span<const std::byte> bytes) {
  QUIRE_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

Digest Sha256::finish() {
  Digest digest;
  QUIRE_CHECK(EVP_DigestFinal_ex(state_->context, reinterpret_cast<unsigned char*>(digest.data()),
                                 nullptr) == 1);
  state_->begin();
  return digest;
}

std::string hex(const Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : digest) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

std::string sha256_hex(std::string_view text) {
  return hex(sha256(std::as_bytes(std::span(text))));
}

}  // namespace quire::engine
