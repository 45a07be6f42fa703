// Records q, k and v of some layers while a model reads a text: the fixture of the score checks.
//
//   build/release/test/quire_record MODEL.gguf TEXT TOKENS LAYER,LAYER >test/oracles/smollm2.qkv
//
// A line of text, then f16, little-endian: of each layer q [tokens][query_heads][size],
// k [tokens][kv_heads][size] and v [tokens][kv_heads][size], rotated as the cache gets them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "kernels/half.h"
#include "model/model.h"

namespace quire {
namespace {

// A cache that notes what it is given.
class Recorder final : public Cache {
 public:
  explicit Recorder(Cache& cache) : cache_(cache) {}

  struct Rows {
    std::vector<float> q, k, v;
  };
  std::map<std::uint32_t, Rows> recorded;  // the layers wanted
  std::uint32_t rows = 0;

  Result<SequenceId> start(const Needs& needs) override { return cache_.start(needs); }
  Result<SequenceId> fork(SequenceId parent) override { return cache_.fork(parent); }
  Status drop(SequenceId sequence) override { return cache_.drop(sequence); }
  PrefixMatch lookup(const PrefixText& text, const Needs& needs) const override {
    return cache_.lookup(text, needs);
  }
  Result<PrefixStart> start_with_prefix(const Needs& needs, const PrefixText& text,
                                        std::uint32_t most) override {
    return cache_.start_with_prefix(needs, text, most);
  }
  Result<std::uint32_t> index(SequenceId sequence, const PrefixText& text) override {
    return cache_.index(sequence, text);
  }
  void forget(const PrefixText& text) override { cache_.forget(text); }
  void forget() override { cache_.forget(); }
  std::uint32_t expect(const PrefixText& text) override { return cache_.expect(text); }
  void unexpect(const PrefixText& text) override { cache_.unexpect(text); }
  Digest prefix_identity() const override { return cache_.prefix_identity(); }
  std::uint32_t savable_units(const PrefixText& text) const override {
    return cache_.savable_units(text);
  }
  std::size_t unit_bytes(std::uint32_t units, std::uint32_t begin,
                         std::uint32_t end) const override {
    return cache_.unit_bytes(units, begin, end);
  }
  Status save_units(const PrefixText& text, std::uint32_t begin, std::uint32_t end,
                    std::span<std::byte> out) const override {
    return cache_.save_units(text, begin, end, out);
  }
  Result<std::uint32_t> load_units(const PrefixText& text, std::uint32_t begin, std::uint32_t end,
                                   std::span<const std::byte> bytes) override {
    return cache_.load_units(text, begin, end, bytes);
  }
  Status set_roles(SequenceId sequence, Position first, std::span<const Role> roles) override {
    return cache_.set_roles(sequence, first, roles);
  }
  Result<double> measure(SequenceId sequence, Statistic statistic, const RunParts& run) override {
    return cache_.measure(sequence, statistic, run);
  }
  Status keep_queries(SequenceId sequence, bool on) override {
    return cache_.keep_queries(sequence, on);
  }
  Status begin(std::span<const Segment> segments) override {
    rows = segments[0].rows;
    return cache_.begin(segments);
  }
  void append(std::uint32_t layer, const float* k, const float* v, std::uint32_t part,
              std::uint32_t parts) override {
    if (const auto wanted = recorded.find(layer); part == 0 && wanted != recorded.end()) {
      const LayerShape& shape = options().layers[layer];
      note(k, shape.kv_heads * shape.key_size, wanted->second.k);
      note(v, shape.kv_heads * shape.value_size, wanted->second.v);
    }
    cache_.append(layer, k, v, part, parts);
  }
  void attend(std::uint32_t layer, const float* q, float* out, std::uint32_t part,
              std::uint32_t parts) override {
    if (const auto wanted = recorded.find(layer); part == 0 && wanted != recorded.end()) {
      const LayerShape& shape = options().layers[layer];
      note(q, shape.query_heads * shape.key_size, wanted->second.q);
    }
    cache_.attend(layer, q, out, part, parts);
  }
  void commit() override { cache_.commit(); }
  void cancel() override { cache_.cancel(); }
  std::size_t bytes_needed(SequenceId sequence, std::uint32_t more) const override {
    return cache_.bytes_needed(sequence, more);
  }
  std::size_t bytes_needed(std::span<const Segment> segments) const override {
    return cache_.bytes_needed(segments);
  }
  std::size_t bytes_free() const override { return cache_.bytes_free(); }
  std::uint32_t tokens_that_fit(const Needs& needs) const override {
    return cache_.tokens_that_fit(needs);
  }
  Result<ShrinkReport> shrink(SequenceId sequence, const Policy& policy,
                              std::uint32_t keep) override {
    return cache_.shrink(sequence, policy, keep);
  }
  Status evict(SequenceId sequence, std::uint32_t layer, std::uint32_t head,
               std::span<const Position> gone) override {
    return cache_.evict(sequence, layer, head, gone);
  }
  std::size_t repack(std::size_t free_bytes) override { return cache_.repack(free_bytes); }
  MovesReport plan_moves(std::size_t copy_bytes) override { return cache_.plan_moves(copy_bytes); }
  std::size_t copy_moves(std::size_t bytes) override { return cache_.copy_moves(bytes); }
  void install_moves() override { cache_.install_moves(); }
  Result<std::vector<Position>> positions(SequenceId sequence, std::uint32_t layer,
                                          std::uint32_t head) const override {
    return cache_.positions(sequence, layer, head);
  }
  Result<std::vector<float>> tap(SequenceId sequence, std::uint32_t layer,
                                 std::uint32_t head) const override {
    return cache_.tap(sequence, layer, head);
  }
  Result<std::uint32_t> length(SequenceId sequence) const override {
    return cache_.length(sequence);
  }
  CacheStats stats() const override { return cache_.stats(); }
  Result<SequenceStats> stats(SequenceId sequence) const override { return cache_.stats(sequence); }
  const CacheOptions& options() const override { return cache_.options(); }
  Isa isa() const override { return cache_.isa(); }
  Isa chunk_isa() const override { return cache_.chunk_isa(); }
  void check_invariants() const override { cache_.check_invariants(); }

 private:
  void note(const float* from, std::uint32_t size, std::vector<float>& to) const {
    to.insert(to.end(), from, from + std::size_t{rows} * size);
  }

  Cache& cache_;
};

void write_halves(const std::vector<float>& values) {
  for (const float value : values) {
    std::byte half[2];
    kernels::store_element(half, KvType::kF16, 0, value);
    std::fwrite(half, 1, 2, stdout);
  }
}

int fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  return 1;
}

int record(char** arguments) {
  Result<std::unique_ptr<model::Model>> loaded =
      model::Model::load({.path = arguments[1], .threads = 1, .deterministic = true});
  if (!loaded.ok()) return fail(loaded.status().message());
  model::Model& model = **loaded;
  std::ifstream in(arguments[2], std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::vector<model::Token> tokens = model.tokenize(text, true, false);
  const auto count = static_cast<std::size_t>(std::atoi(arguments[3]));
  if (count == 0 || tokens.size() < count) return fail("the text has fewer tokens");
  tokens.resize(count);

  Result<std::unique_ptr<Cache>> cache =
      Cache::open({.layers = model.info().attention, .budget_bytes = std::size_t{256} << 20});
  if (!cache.ok()) return fail(cache.status().message());
  Recorder recorder(**cache);
  std::istringstream layers(arguments[4]);
  for (std::string layer; std::getline(layers, layer, ',');) {
    recorder.recorded[static_cast<std::uint32_t>(std::atoi(layer.c_str()))] = {};
  }
  if (const Status status = model.attach(recorder); !status.ok()) return fail(status.message());
  const model::Chunk chunk{.sequence = *recorder.start({}), .tokens = tokens};
  const Status read =
      model.forward({&chunk, 1}, [](std::size_t, std::uint32_t, std::span<const float>) {});
  if (!read.ok()) return fail(read.message());

  const LayerShape& shape = model.info().attention[0];
  std::printf("qkv 1 layers %zu tokens %zu query_heads %u kv_heads %u size %u\n",
              recorder.recorded.size(), count, shape.query_heads, shape.kv_heads, shape.key_size);
  for (const auto& [layer, rows] : recorder.recorded) {
    write_halves(rows.q);
    write_halves(rows.k);
    write_halves(rows.v);
  }
  return 0;
}

}  // namespace
}  // namespace quire

int main(int count, char** arguments) {
  if (count != 5) {
    std::fputs("usage: quire_record MODEL.gguf TEXT TOKENS LAYER,LAYER >FILE\n", stderr);
    return 2;
  }
  return quire::record(arguments);
}
