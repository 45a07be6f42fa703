// A probe as bytes, and back: every length is checked before anything is read by it.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "quire/check.h"
#include "roles/fingerprint.h"
#include "roles/probe.h"

namespace quire::roles {
namespace {

static_assert(std::endian::native == std::endian::little, "files are written as memory has them");
constexpr std::string_view kMagic = "quireprb";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHead = 32, kTail = 8;

template <typename T>
void put(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}
template <typename T>
void put_all(std::string& bytes, const std::vector<T>& values) {
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

std::uint64_t fingerprint_of(std::string_view bytes) {
  Fingerprint fingerprint;
  fingerprint.add(bytes);
  return fingerprint.value();
}

Status wrong(std::size_t at, const std::string& what) {
  return {Code::kCorrupt, "probe: byte " + std::to_string(at) + ": " + what};
}

// Takes values from the front; whoever calls it has looked at the size.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  std::size_t at() const { return at_; }
  template <typename T>
  T take() {
    T value;
    std::memcpy(&value, bytes(sizeof(T)).data(), sizeof(T));
    return value;
  }
  template <typename T>
  std::vector<T> take_all(std::size_t count) {
    std::vector<T> values(count);
    const std::string_view from = bytes(count * sizeof(T));
    if (count > 0) std::memcpy(values.data(), from.data(), from.size());
    return values;
  }
  std::string_view bytes(std::size_t count) {
    QUIRE_CHECK(bytes_.size() - at_ >= count);
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

std::size_t bytes_of(std::size_t name, std::size_t ids) {
  return kHead + name + 4 * ids +
         4 * kRoles * (kTextStates + std::size_t{kProbeWindow} * (ids + 2)) + kTail;
}

// What is wrong with the values, which begin at `first`.
Status check_values(const Probe& probe, std::size_t first) {
  for (std::size_t i = 0; i < probe.ids.size(); ++i) {
    const bool ascends = i == 0 || probe.ids[i - 1] < probe.ids[i];
    if (!ascends || static_cast<std::uint32_t>(probe.ids[i]) >= probe.vocabulary.tokens) {
      return wrong(first + 4 * i, "id " + std::to_string(probe.ids[i]) +
                                      (ascends ? " is not in the vocabulary" : " does not ascend"));
    }
  }
  std::size_t at = first + 4 * probe.ids.size();
  for (const std::vector<float>* values : {&probe.states, &probe.windows}) {
    const auto bad = std::ranges::find_if_not(*values, [](float x) { return std::isfinite(x); });
    if (bad != values->end()) {
      at += 4 * static_cast<std::size_t>(bad - values->begin());
      return wrong(at, "a weight is not finite");
    }
    at += 4 * values->size();
  }
  return {};
}

}  // namespace

std::string write_probe(const Probe& probe) {
  QUIRE_CHECK(probe.ids.size() <= kProbeIdsMost);
  const std::string name = probe.model.substr(0, kProbeNameMost);
  std::string bytes(kMagic);
  put(bytes, kVersion);
  put(bytes, probe.vocabulary.tokens);
  put(bytes, probe.vocabulary.fingerprint);
  put(bytes, static_cast<std::uint32_t>(name.size()));
  put(bytes, static_cast<std::uint32_t>(probe.ids.size()));
  bytes += name;
  put_all(bytes, probe.ids);
  put_all(bytes, probe.states);
  put_all(bytes, probe.windows);
  put(bytes, fingerprint_of(bytes));
  return bytes;
}

Result<Probe> read_probe(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) return wrong(0, "it is no probe of quire train roles");
  if (bytes.size() > kProbeBytesMost) {
    return wrong(kProbeBytesMost, "goes on, " + std::to_string(bytes.size()) + " bytes in all");
  }
  if (bytes.size() < kHead + kTail) return wrong(bytes.size(), "ends within its head");
  Reader reader(bytes);
  static_cast<void>(reader.bytes(kMagic.size()));
  if (const auto version = reader.take<std::uint32_t>(); version != kVersion) {
    return Status(Code::kUnsupported, "probe: byte 8: version " + std::to_string(version) +
                                          "; this program reads " + std::to_string(kVersion));
  }
  Probe probe;
  probe.vocabulary.tokens = reader.take<std::uint32_t>();
  probe.vocabulary.fingerprint = reader.take<std::uint64_t>();
  const auto name = reader.take<std::uint32_t>(), ids = reader.take<std::uint32_t>();
  if (name > kProbeNameMost) return wrong(24, "a name of " + std::to_string(name) + " bytes");
  if (ids > kProbeIdsMost) return wrong(28, std::to_string(ids) + " ids");
  if (const std::size_t all = bytes_of(name, ids); bytes.size() != all) {
    return wrong(28, std::to_string(ids) + " ids make a file of " + std::to_string(all) +
                         " bytes; it has " + std::to_string(bytes.size()));
  }
  probe.model = reader.bytes(name);
  const std::size_t first = reader.at();
  probe.ids = reader.take_all<Token>(ids);
  probe.states = reader.take_all<float>(kTextStates * kRoles);
  probe.windows = reader.take_all<float>(std::size_t{kProbeWindow} * probe.rows() * kRoles);
  const std::size_t end = reader.at();
  if (reader.take<std::uint64_t>() != fingerprint_of(bytes.substr(0, end))) {
    return wrong(end, "the fingerprint is not that of the bytes before it");
  }
  if (Status status = check_values(probe, first); !status.ok()) return status;
  return probe;
}

}  // namespace quire::roles
