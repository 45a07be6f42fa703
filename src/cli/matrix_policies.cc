// Policies on caches of made-up layers, as the engine takes or refuses their requests.

#include <memory>
#include <optional>
#include <utility>

#include "cli/matrix_tables.h"
#include "engine/budget.h"
#include "engine/engine.h"

namespace quire::cli {
namespace {

constexpr std::size_t kBudget = std::size_t{1} << 20;
constexpr std::uint32_t kShort = 64, kLong = 8192;  // tokens of a prompt that fits, and does not
constexpr std::uint32_t kWindow = 128;

// Nothing is computed: only what it says of itself is asked for.
class ShapeOfAModel final : public model::Model {
 public:
  explicit ShapeOfAModel(std::vector<LayerShape> layers) {
    info_.name = "shape";
    info_.vocabulary = 2;
    info_.context = 4 * kLong;
    info_.attention = std::move(layers);
  }
  const model::ModelInfo& info() const override { return info_; }
  std::uint32_t threads() const override { return 1; }
  std::uint32_t graphs() const override { return 0; }
  Status attach(Cache&) override { return {}; }
  Status forward(std::span<const model::Chunk>, const OnLogits&) override {
    return {Code::kUnsupported, "a shape computes nothing"};
  }
  std::vector<model::Token> tokenize(std::string_view, bool, bool) const override { return {}; }
  std::string piece(model::Token, bool) const override { return {}; }
  bool is_end(model::Token) const override { return false; }
  Result<std::string> chat(std::span<const std::pair<std::string, std::string>>) const override {
    return Status(Code::kNotFound, "a shape has no chat template");
  }
  void pause() override {}
  void resume() override {}

 private:
  model::ModelInfo info_;
};

class NoSampler final : public model::Sampler {
 public:
  model::Token sample(std::span<const float>) override { return 0; }
  std::uint32_t seed() const override { return 0; }
};

LayerShape layer(std::uint32_t window = 0) {
  LayerShape shape{
      .kv_heads = 1, .query_heads = 2, .key_size = 64, .value_size = 64, .window = window};
  shape.rope.frequency.assign(shape.key_size / 2, 1.0f);
  shape.output = {.size = 1, .rows = [](std::uint32_t, std::uint32_t, float*) {}};
  return shape;
}

CacheOptions cache_of(std::vector<LayerShape> layers, KvType type = KvType::kF16) {
  return {.layers = std::move(layers),
          .budget_bytes = kBudget,
          .key_type = type,
          .value_type = type,
          .max_rows = kShort};
}

// Whether such a request would be begun.
Status ask(const CacheOptions& options, const std::optional<Policy>& policy, std::uint32_t prompt,
           engine::Overflow overflow) {
  const Result<std::unique_ptr<Cache>> cache = Cache::open(options);
  if (!cache.ok()) return cache.status();
  ShapeOfAModel model(options.layers);
  const auto loop = engine::Engine::open(model, **cache, {});
  if (!loop.ok()) return loop.status();
  engine::Request request{.prompt = std::vector<model::Token>(prompt, 0), .on_overflow = overflow};
  request.options.max_tokens = 8;
  request.options.policy = policy;
  request.options.make_sampler = [](const model::Model&, const model::SamplerOptions&) {
    return Result<std::unique_ptr<model::Sampler>>(std::make_unique<NoSampler>());
  };
  const Result<engine::RequestId> id = (*loop)->submit(std::move(request));
  if (!id.ok()) return id.status();
  return (*cache)->start(policy ? policy->needs : Needs{}).status();
}

// What a policy that judges by rows sees of a prompt read in pieces; empty: what it always does.
std::string seen_in_pieces(const Needs& needs) {
  if (needs.tap == Tap::kLastRows) return "judges each cut by the last rows of the piece before it";
  if (needs.watches()) return "judges each cut by the rows read so far";
  return {};
}

MatrixCell streamed(const std::optional<Policy>& policy) {
  MatrixCell cell =
      cell_of(ask(cache_of({layer(), layer()}), policy, kLong, engine::Overflow::kStream));
  const std::string less = policy ? seen_in_pieces(policy->needs) : std::string();
  if (cell.state == MatrixCell::State::kYes && !less.empty()) {
    cell = {.state = MatrixCell::State::kLess, .text = less + " (kv.prefill: streamed)"};
  }
  return cell;
}

// Whether what an earlier prompt has computed need not be computed again.
MatrixCell behind_a_prefix(const std::optional<Policy>& policy) {
  CacheOptions options = cache_of({layer(), layer()});
  options.prefix.hash = [](std::span<const std::byte>) { return Digest{}; };
  const Result<std::unique_ptr<Cache>> opened = Cache::open(options);
  if (!opened.ok()) return cell_of(opened.status());
  Cache& cache = **opened;
  const Result<SequenceId> earlier = cache.start();
  if (!earlier.ok()) return cell_of(earlier.status());
  const Segment rows{.sequence = *earlier, .rows = kShort};
  if (Status status = cache.begin({&rows, 1}); !status.ok()) return cell_of(status);
  const std::vector<float> zeros(std::size_t{kShort} * 2 * 64, 0.0f);
  std::vector<float> out(zeros.size());
  for (std::uint32_t l = 0; l < options.layers.size(); ++l) {
    cache.append(l, zeros.data(), zeros.data(), 0, 1);
    cache.attend(l, zeros.data(), out.data(), 0, 1);
  }
  cache.commit();
  const std::vector<Token> text(2 * kShort, 0);
  const PrefixText whole{.tokens = text};
  if (const auto entered = cache.index(*earlier, whole); !entered.ok()) {
    return cell_of(entered.status());
  }
  const PrefixMatch match = cache.lookup(whole, policy ? policy->needs : Needs{});
  if (match.usable > 0) return {.state = MatrixCell::State::kYes};
  return {.state = MatrixCell::State::kLess,
          .text = std::string("reads its whole prompt (kv.cache_miss_reason: ") +
                  name_of(match.end) + ")"};
}

MatrixRow row_of(const std::string& name, const std::optional<Policy>& policy,
                 const model::Model* model) {
  const auto with = [&](const CacheOptions& options) {
    MatrixCell cell = cell_of(ask(options, policy, kShort, engine::Overflow::kRefuse));
    // One note for all that are refused alike.
    const std::string own = "policy " + name + ":";
    if (cell.text.starts_with(own)) cell.text.replace(0, own.size(), "a policy:");
    return cell;
  };
  LayerShape silent = layer();
  silent.rope = {};
  silent.output = {};
  MatrixRow row{
      .name = name,
      .cells = {with(cache_of({layer(), layer()})),
                with(cache_of({layer(), layer()}, KvType::kBF16)),
                with(cache_of({layer(), layer()}, KvType::kF32)), streamed(policy),
                behind_a_prefix(policy), with(cache_of({layer(), layer(kWindow)})),
                with(cache_of({layer(kWindow), layer(kWindow)})), with(cache_of({silent}))}};
  if (model == nullptr) return row;
  CacheOptions own = cache_of(model->info().attention);
  own.budget_bytes = 32 * kBudget + 2 * engine::kv_bytes(own, 1024, own.max_rows);
  row.cells.push_back(with(own));
  return row;
}

}  // namespace

MatrixTable policy_matrix(const model::Model* model) {
  MatrixTable table{
      .name = "Policies",
      .about =
          "By how keys and values are stored (`--kv-type`); with a prompt that does not fit "
          "the budget and is read in pieces (`kv.on_overflow: stream`); with a prompt whose "
          "beginning is in the prefix cache; on models where some layers, or all, have a window (a "
          "policy cuts those without one); and, for users of "
          "the library, on layers whose LayerShape says neither `rope` nor `output`. All of "
          "them may be mixed in one batch, with every field above.",
      .columns = {"policy", "f16", "bf16", "f32", "streamed", "prefix hit", "some windows",
                  "windows alone", "bare layers"},
      .rows = {row_of("none", {}, model)}};
  if (model != nullptr) table.columns.emplace_back("this model");
  for (const PolicyInfo& info : list_policies()) {
    table.rows.push_back(row_of(info.name, *make_policy(info.name), model));
  }
  return table;
}

}  // namespace quire::cli
