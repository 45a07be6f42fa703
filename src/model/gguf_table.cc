#include "model/gguf_table.h"

#include <bit>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

namespace quire::model {
namespace {

constexpr std::uint32_t kOldestVersion = 2;  // version 1 had 32-bit counts
constexpr std::size_t kMaxText = 64u << 20;  // a chat template is kilobytes
constexpr std::uint64_t kMinKeyBytes = 8 + 4 + 1;
constexpr std::uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;

std::size_t bytes_of(gguf_type type) {
  switch (type) {
    case GGUF_TYPE_UINT8:
    case GGUF_TYPE_INT8:
    case GGUF_TYPE_BOOL:
      return 1;
    case GGUF_TYPE_UINT16:
    case GGUF_TYPE_INT16:
      return 2;
    case GGUF_TYPE_UINT32:
    case GGUF_TYPE_INT32:
    case GGUF_TYPE_FLOAT32:
      return 4;
    case GGUF_TYPE_UINT64:
    case GGUF_TYPE_INT64:
    case GGUF_TYPE_FLOAT64:
      return 8;
    default:
      return 0;
  }
}

std::string quoted(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, 80)) shown += (c >= ' ' && c <= '~') ? c : '?';
  return "'" + shown + "'";
}

}  // namespace

// Takes values front to back; after the first that does not fit, everything fails.
class GgufTable::Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  bool take(T& value) {
    if (!room(sizeof(T))) return false;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return true;
  }

  bool take(std::string_view& text) {
    std::uint64_t size = 0;
    if (!take(size) || size > kMaxText || !room(size)) return false;
    text = {reinterpret_cast<const char*>(bytes_.data()) + offset_, size};
    offset_ += size;
    return true;
  }

  bool skip(std::uint64_t bytes) {
    if (!room(bytes)) return false;
    offset_ += bytes;
    return true;
  }

  bool room(std::uint64_t bytes) const { return bytes <= left(); }
  std::size_t left() const { return bytes_.size() - offset_; }
  std::size_t offset() const { return offset_; }

 private:
  std::span<const std::byte> bytes_;
  std::size_t offset_ = 0;
};

Result<GgufTable> GgufTable::parse(std::span<const std::byte> bytes, std::string file) {
  GgufTable table;
  table.bytes_ = bytes;
  table.file_ = std::move(file);
  Reader reader(bytes);
  char magic[4] = {};
  if (!reader.take(magic) || std::memcmp(magic, GGUF_MAGIC, sizeof(magic)) != 0) {
    return table.fault(Code::kCorrupt, "not a GGUF file (it does not start with 'GGUF')");
  }
  std::uint32_t version = 0;
  std::uint64_t tensor_count = 0, key_count = 0;
  if (!reader.take(version) || !reader.take(tensor_count) || !reader.take(key_count)) {
    return table.fault(Code::kCorrupt, "truncated inside the header");
  }
  if (version < kOldestVersion || version > GGUF_VERSION) {
    return table.fault(Code::kUnsupported,
                       "GGUF version " + std::to_string(version) + "; this build reads " +
                           std::to_string(kOldestVersion) + " to " + std::to_string(GGUF_VERSION));
  }
  if (key_count > reader.left() / kMinKeyBytes || tensor_count > reader.left() / kMinTensorBytes) {
    return table.fault(Code::kCorrupt, "the header counts " + std::to_string(key_count) +
                                           " keys and " + std::to_string(tensor_count) +
                                           " tensors, more than the file has room for");
  }
  for (std::uint64_t i = 0; i < key_count; ++i) {
    if (Status status = table.read_key(reader); !status.ok()) return status;
  }
  for (std::uint64_t i = 0; i < tensor_count; ++i) {
    if (Status status = table.read_tensor(reader); !status.ok()) return status;
  }
  if (Status status = table.place_tensors(reader.offset()); !status.ok()) return status;
  return table;
}

Status GgufTable::read_key(Reader& reader) {
  const std::size_t start = reader.offset();
  std::string_view key;
  std::int32_t type = 0;
  if (!reader.take(key) || !reader.take(type)) {
    return fault(Code::kCorrupt, "truncated inside the key at offset " + std::to_string(start));
  }
  // ggml keeps keys as C strings: a zero byte inside would make two keys equal for it.
  if (key.empty() || key.find('\0') != key.npos) {
    return fault(Code::kCorrupt, "no key name at offset " + std::to_string(start));
  }
  GgufValue value;
  std::int32_t element = GGUF_TYPE_COUNT - 1;
  if (type == GGUF_TYPE_ARRAY && (!reader.take(element) || !reader.take(value.count))) {
    return fault(Code::kCorrupt, "truncated inside key " + quoted(key));
  }
  for (const std::int32_t stored : {type, element}) {
    if (stored >= 0 && stored < GGUF_TYPE_COUNT) continue;
    return fault(Code::kCorrupt,
                 "key " + quoted(key) + " has an unknown type " + std::to_string(stored));
  }
  value.type = static_cast<gguf_type>(type);
  if (value.type == GGUF_TYPE_ARRAY) value.element = static_cast<gguf_type>(element);
  value.offset = reader.offset();
  const gguf_type stored = value.type == GGUF_TYPE_ARRAY ? value.element : value.type;
  bool fits = true;
  if (stored == GGUF_TYPE_STRING) {
    std::string_view skipped;
    fits = value.count <= reader.left() / sizeof(std::uint64_t);
    for (std::uint64_t i = 0; fits && i < value.count; ++i) fits = reader.take(skipped);
  } else if (const std::size_t size = bytes_of(stored); size > 0) {
    fits = value.count <= reader.left() / size && reader.skip(value.count * size);
  } else {
    return fault(Code::kUnsupported, "key " + quoted(key) + " is an array of arrays");
  }
  if (!fits) return fault(Code::kCorrupt, "the value of key " + quoted(key) + " is cut off");
  if (!keys_.emplace(std::string(key), value).second) {
    return fault(Code::kCorrupt, "key " + quoted(key) + " is there twice");
  }
  return {};
}

Status GgufTable::read_tensor(Reader& reader) {
  const std::size_t start = reader.offset();
  std::string_view name;
  std::uint32_t dims = 0;
  if (!reader.take(name) || !reader.take(dims)) {
    return fault(Code::kCorrupt,
                 "truncated inside the tensor description at offset " + std::to_string(start));
  }
  if (name.empty() || name.size() >= GGML_MAX_NAME || name.find('\0') != name.npos) {
    return fault(Code::kCorrupt, "no tensor name at offset " + std::to_string(start));
  }
  const auto broken = [&](const std::string& what) {
    return fault(Code::kCorrupt, "tensor " + quoted(name) + " " + what);
  };
  GgufTensor tensor{.name = std::string(name)};
  if (dims == 0 || dims > GGML_MAX_DIMS)
    return broken("has " + std::to_string(dims) + " dimensions");
  std::uint64_t values = 1;
  for (std::uint32_t i = 0; i < dims; ++i) {
    if (!reader.take(tensor.ne[i])) return broken("is cut off in its shape");
    const std::int64_t ne = tensor.ne[i];
    if (ne <= 0 || values > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) /
                                static_cast<std::uint64_t>(ne)) {
      return broken("has an impossible dimension " + std::to_string(ne));
    }
    values *= static_cast<std::uint64_t>(ne);
  }
  std::int32_t type = 0;
  std::uint64_t offset = 0;
  if (!reader.take(type) || !reader.take(offset)) return broken("is cut off");
  if (type < 0 || type >= GGML_TYPE_COUNT || ggml_blck_size(static_cast<ggml_type>(type)) <= 0) {
    return fault(Code::kUnsupported, "tensor " + quoted(name) + " has type " +
                                         std::to_string(type) + ", which this build does not know");
  }
  tensor.type = static_cast<ggml_type>(type);
  const auto block = static_cast<std::uint64_t>(ggml_blck_size(tensor.type));
  if (static_cast<std::uint64_t>(tensor.ne[0]) % block != 0) {
    return broken("has rows of " + std::to_string(tensor.ne[0]) + " values, not a multiple of " +
                  ggml_type_name(tensor.type) + "'s block of " + std::to_string(block));
  }
  const std::uint64_t blocks = values / block;
  if (blocks > bytes_.size() / ggml_type_size(tensor.type)) {
    return broken("is larger than the file (truncated?)");
  }
  tensor.bytes = blocks * ggml_type_size(tensor.type);
  tensor.offset = offset;
  tensors_.push_back(std::move(tensor));
  return {};
}

// Tensor data must follow one another without gaps: ggml's parser asks for that too.
Status GgufTable::place_tensors(std::size_t header_end) {
  Result<std::uint32_t> alignment = u32(GGUF_KEY_GENERAL_ALIGNMENT, GGUF_DEFAULT_ALIGNMENT);
  if (!alignment.ok()) return alignment.status();
  if (*alignment < 8 || !std::has_single_bit(*alignment)) {
    return fault(Code::kUnsupported, "key 'general.alignment' is " + std::to_string(*alignment) +
                                         "; this build reads powers of two from 8");
  }
  const std::size_t grain = *alignment;
  const auto padded = [&](std::size_t size) { return (size + grain - 1) / grain * grain; };
  const std::size_t data = padded(header_end);
  std::set<std::string_view> names;
  std::size_t next = 0;
  for (GgufTensor& tensor : tensors_) {
    if (!names.insert(tensor.name).second) {
      return fault(Code::kCorrupt, "tensor " + quoted(tensor.name) + " is there twice");
    }
    if (tensor.offset != next) {
      return fault(Code::kCorrupt, "tensor " + quoted(tensor.name) + " is at offset " +
                                       std::to_string(tensor.offset) + " of the data, expected " +
                                       std::to_string(next));
    }
    next += padded(tensor.bytes);
    tensor.offset += data;
    if (data > bytes_.size() || tensor.offset > bytes_.size() - tensor.bytes) {
      return fault(Code::kCorrupt, "truncated: tensor " + quoted(tensor.name) + " ends at byte " +
                                       std::to_string(tensor.offset + tensor.bytes) +
                                       ", the file has " + std::to_string(bytes_.size()));
    }
  }
  return {};
}

const GgufValue* GgufTable::find(std::string_view key) const {
  const auto found = keys_.find(key);
  return found == keys_.end() ? nullptr : &found->second;
}

Result<std::uint64_t> GgufTable::unsigned_at(const std::string& key, gguf_type type,
                                             std::size_t offset) const {
  const std::size_t size = bytes_of(type);
  const bool is_signed = type == GGUF_TYPE_INT8 || type == GGUF_TYPE_INT16 ||
                         type == GGUF_TYPE_INT32 || type == GGUF_TYPE_INT64;
  const bool is_whole =
      size > 0 && type != GGUF_TYPE_FLOAT32 && type != GGUF_TYPE_FLOAT64 && type != GGUF_TYPE_BOOL;
  std::uint64_t value = 0;  // GGUF is little-endian, and so is every machine this builds for
  if (is_whole) std::memcpy(&value, bytes_.data() + offset, size);
  if (!is_whole || (is_signed && ((value >> (8 * size - 1)) & 1) != 0) ||
      value > std::numeric_limits<std::uint32_t>::max()) {
    return fault(Code::kCorrupt, "key " + quoted(key) + " is not a whole number of 32 bits");
  }
  return value;
}

Result<std::uint32_t> GgufTable::u32(const std::string& key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return fault(Code::kCorrupt, "key " + quoted(key) + " is missing");
  Result<std::uint64_t> number = unsigned_at(key, value->type, value->offset);
  if (!number.ok()) return number.status();
  return static_cast<std::uint32_t>(*number);
}

Result<std::uint32_t> GgufTable::u32(const std::string& key, std::uint32_t fallback) const {
  return find(key) == nullptr ? Result<std::uint32_t>(fallback) : u32(key);
}

Result<float> GgufTable::f32(const std::string& key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return fault(Code::kCorrupt, "key " + quoted(key) + " is missing");
  if (value->type != GGUF_TYPE_FLOAT32) {
    return fault(Code::kCorrupt, "key " + quoted(key) + " is not a 32-bit float");
  }
  float number = 0;
  std::memcpy(&number, bytes_.data() + value->offset, sizeof(number));
  if (!(number > -std::numeric_limits<float>::max() &&
        number < std::numeric_limits<float>::max())) {
    return fault(Code::kCorrupt, "key " + quoted(key) + " is not a finite number");
  }
  return number;
}

Result<float> GgufTable::f32(const std::string& key, float fallback) const {
  return find(key) == nullptr ? Result<float>(fallback) : f32(key);
}

Result<std::string> GgufTable::text(const std::string& key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return fault(Code::kCorrupt, "key " + quoted(key) + " is missing");
  if (value->type != GGUF_TYPE_STRING) {
    return fault(Code::kCorrupt, "key " + quoted(key) + " is not a string");
  }
  Reader reader(bytes_.subspan(value->offset));
  std::string_view text;
  QUIRE_CHECK(reader.take(text));  // read_key() took it before
  return std::string(text);
}

Result<std::string> GgufTable::text(const std::string& key, const std::string& fallback) const {
  return find(key) == nullptr ? Result<std::string>(fallback) : text(key);
}

Result<std::vector<std::string_view>> GgufTable::texts(const std::string& key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return fault(Code::kCorrupt, "key " + quoted(key) + " is missing");
  if (value->type != GGUF_TYPE_ARRAY || value->element != GGUF_TYPE_STRING) {
    return fault(Code::kCorrupt, "key " + quoted(key) + " is not an array of strings");
  }
  Reader reader(bytes_.subspan(value->offset));
  std::vector<std::string_view> texts(value->count);
  for (std::string_view& text : texts) QUIRE_CHECK(reader.take(text));
  return texts;
}

Result<std::vector<std::uint32_t>> GgufTable::per_layer(const std::string& key,
                                                        std::uint32_t count) const {
  const GgufValue* value = find(key);
  if (value == nullptr || value->type != GGUF_TYPE_ARRAY) {
    Result<std::uint32_t> one = u32(key);
    if (!one.ok()) return one.status();
    return std::vector<std::uint32_t>(count, *one);
  }
  if (value->count != count) {
    return fault(Code::kCorrupt, "key " + quoted(key) + " has " + std::to_string(value->count) +
                                     " numbers for " + std::to_string(count) + " layers");
  }
  // A flag is a byte, 0 or 1.
  const gguf_type element = value->element == GGUF_TYPE_BOOL ? GGUF_TYPE_UINT8 : value->element;
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t i = 0; i < count; ++i) {
    Result<std::uint64_t> number = unsigned_at(key, element, value->offset + i * bytes_of(element));
    if (!number.ok()) return number.status();
    numbers.push_back(static_cast<std::uint32_t>(*number));
  }
  return numbers;
}

}  // namespace quire::model
