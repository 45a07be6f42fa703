// SHA-256 (FIPS 180-4), OpenSSL's: what the prefix cache's keys are made with.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "quire/prefix.h"

namespace quire::engine {

Digest sha256(std::span<const std::byte> bytes);

// Of bytes that come piece by piece.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void add(std::span<const std::byte> bytes);
  Digest finish();  // of what was added since the last one

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// 64 letters of 0-9a-f: the digest of a text's bytes.
std::string sha256_hex(std::string_view text);
std::string hex(const Digest& digest);

}  // namespace quire::engine
