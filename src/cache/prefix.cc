// The prefix cache's calls, and the name of what its units belong to.
#include <bit>
#include <string_view>

#include "cache/paged_cache.h"

namespace quire {
namespace {

// Bytes that differ for different sequences of values: each as so many as it has, lengths first.
class Bytes {
 public:
  void add(std::uint64_t value) {
    for (std::uint32_t i = 0; i < 8; ++i)
      bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  void add(float value) { add(std::uint64_t{std::bit_cast<std::uint32_t>(value)}); }
  void add(std::string_view text) {
    add(std::uint64_t{text.size()});
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
  }
  void add(std::span<const float> values) {
    add(std::uint64_t{values.size()});
    for (const float value : values) add(value);
  }
  std::span<const std::byte> all() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

PrefixNaming prefix_naming(const CacheOptions& options) {
  if (!options.prefix.hash) return {};
  Bytes bytes;
  bytes.add(std::string_view("quire prefix units 1"));
  bytes.add(std::string_view(options.prefix.identity));
  for (const std::uint64_t value :
       {std::uint64_t{options.block_tokens}, static_cast<std::uint64_t>(options.key_type),
        static_cast<std::uint64_t>(options.value_type), std::uint64_t{options.chunk_kernels},
        std::uint64_t{options.layers.size()}}) {
    bytes.add(value);
  }
  for (const LayerShape& layer : options.layers) {
    for (const std::uint32_t value :
         {layer.kv_heads, layer.query_heads, layer.key_size, layer.value_size, layer.window}) {
      bytes.add(std::uint64_t{value});
    }
    bytes.add(layer.scale);
    bytes.add(layer.softcap);
    bytes.add(std::span<const float>(layer.sinks));
    bytes.add(std::span<const float>(layer.rope.frequency));
    bytes.add(std::uint64_t{layer.rope.halves});
  }
  return {options.prefix.hash, options.prefix.hash(bytes.all())};
}

const char* name_of(PrefixEnd end) {
  switch (end) {
    case PrefixEnd::kDisabled:
      return "disabled";
    case PrefixEnd::kAllRows:
      return "all-rows";
    case PrefixEnd::kShort:
      return "short";
    case PrefixEnd::kCold:
      return "cold";
    case PrefixEnd::kDiffers:
      return "differs";
    case PrefixEnd::kEvicted:
      return "evicted";
    case PrefixEnd::kWindow:
      return "window";
    case PrefixEnd::kLastRows:
      return "last-rows";
  }
  return "?";
}

PrefixMatch PagedCache::lookup(const PrefixText& text, const Needs& needs) const {
  return tables_.match_prefix(text, needs);
}

Result<PrefixStart> PagedCache::start_with_prefix(const Needs& needs, const PrefixText& text,
                                                  std::uint32_t most) {
  if (const Status status = between_steps("start_with_prefix"); !status.ok()) return status;
  if (const Status status = check_needs(needs); !status.ok()) return status;
  PrefixStart started;
  const Sequence* sequence = tables_.start_with_prefix(needs, text, most, started.end);
  if (sequence == nullptr) return out_of_room("start_with_prefix", 1);
  started.sequence = sequence->id;
  started.reused = sequence->length;
  return started;
}

Result<std::uint32_t> PagedCache::index(SequenceId id, const PrefixText& text) {
  if (const Status status = between_steps("index"); !status.ok()) return status;
  const Result<Sequence*> sequence = find(id);
  if (!sequence.ok()) return sequence.status();
  return tables_.index(**sequence, text);
}

void PagedCache::forget(const PrefixText& text) {
  if (!tables_.growing()) tables_.forget(text);
}

void PagedCache::forget() {
  if (!tables_.growing()) tables_.forget();
}

std::uint32_t PagedCache::expect(const PrefixText& text) {
  return tables_.expect(text, true);
}

void PagedCache::unexpect(const PrefixText& text) {
  tables_.expect(text, false);
}

}  // namespace quire
