// The metadata of one GGUF file, read from its bytes: keys, tensor descriptions, nothing else.
// Every length, count and offset is checked against the bytes that are there, so that whatever
// reads the file afterwards (ggml's own parser included) meets no surprise.
//
//   "GGUF" | version u32 | tensors u64 | keys u64 | key, type, value ... | tensor descriptions ...
//   | padding to the alignment | tensor data, each padded to the alignment
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ggml.h"
#include "gguf.h"
#include "quire/status.h"

namespace quire::model {

struct GgufValue {
  gguf_type type = GGUF_TYPE_COUNT;
  gguf_type element = GGUF_TYPE_COUNT;  // of an array
  std::uint64_t count = 1;              // elements of an array
  std::size_t offset = 0;               // of the value's first byte in the file
};

struct GgufTensor {
  std::string name;
  ggml_type type = GGML_TYPE_F32;
  std::array<std::int64_t, GGML_MAX_DIMS> ne{1, 1, 1, 1};
  std::size_t offset = 0;  // of the data in the file
  std::size_t bytes = 0;
};

class GgufTable {
 public:
  // `file` names the bytes in messages; they must outlive the table.  kCorrupt names the key,
  // tensor or offset at fault; kUnsupported: a version, type or alignment this build does not read.
  static Result<GgufTable> parse(std::span<const std::byte> bytes, std::string file);

  const std::string& file() const { return file_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufValue* find(std::string_view key) const;

  // A missing key, or a value of another kind, is kCorrupt and names the key.
  Result<std::uint32_t> u32(const std::string& key) const;
  Result<std::uint32_t> u32(const std::string& key, std::uint32_t fallback) const;
  Result<float> f32(const std::string& key) const;
  Result<float> f32(const std::string& key, float fallback) const;
  Result<std::string> text(const std::string& key) const;
  Result<std::string> text(const std::string& key, const std::string& fallback) const;
  // Views into the bytes.
  Result<std::vector<std::string_view>> texts(const std::string& key) const;
  // One number per layer: an array of `count` numbers or flags, or one number for all.
  Result<std::vector<std::uint32_t>> per_layer(const std::string& key, std::uint32_t count) const;

  Status fault(Code code, const std::string& what) const { return {code, file_ + ": " + what}; }

 private:
  class Reader;
  Status read_key(Reader& reader);
  Status read_tensor(Reader& reader);
  Status place_tensors(std::size_t header_end);
  Result<std::uint64_t> unsigned_at(const std::string& key, gguf_type type,
                                    std::size_t offset) const;

  std::span<const std::byte> bytes_;
  std::string file_;
  std::map<std::string, GgufValue, std::less<>> keys_;
  std::vector<GgufTensor> tensors_;  // offsets count from the data section until place_tensors()
};

}  // namespace quire::model
