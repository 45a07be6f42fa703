// SHA-256 (FIPS 180-4), OpenSSL's: what the prefix cache's keys are made with.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "quire/prefix.h"

namespace quire::engine {

Digest sha256(std::span<const std::byte> bytes);
// 64 letters of 0-9a-f: the digest of a text's bytes.
std::string sha256_hex(std::string_view text);

}  // namespace quire::engine
