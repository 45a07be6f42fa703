#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <thread>

#include "kernels/kernels.h"
#include "model/model_impl.h"

namespace quire::model {
namespace {

// ggml's scheduler gives a thread id seven bits of room to grow; more never helped a CPU.
constexpr std::uint32_t kMaxThreads = 256;

std::uint32_t thread_count(std::uint32_t asked) {
  const std::uint32_t count = asked > 0 ? asked : std::max(1u, std::thread::hardware_concurrency());
  return std::min(count, kMaxThreads);
}

std::string instruction_sets() {
  const std::pair<int, const char*> all[] = {{ggml_cpu_has_avx2(), "AVX2"},
                                             {ggml_cpu_has_fma(), "FMA"},
                                             {ggml_cpu_has_avx_vnni(), "AVX-VNNI"},
                                             {ggml_cpu_has_avx512(), "AVX-512"},
                                             {ggml_cpu_has_avx512_vnni(), "VNNI"},
                                             {ggml_cpu_has_avx512_bf16(), "BF16"},
                                             {ggml_cpu_has_amx_int8(), "AMX"},
                                             {ggml_cpu_has_neon(), "NEON"},
                                             {ggml_cpu_has_dotprod(), "DOTPROD"},
                                             {ggml_cpu_has_matmul_int8(), "I8MM"},
                                             {ggml_cpu_has_sve(), "SVE"}};
  std::string text;
  for (const auto& [has, name] : all) {
    if (!has) continue;
    if (!text.empty()) text += ' ';
    text += name;
  }
  return text.empty() ? "generic" : text;
}

// The type most of the weights' bytes have.
std::string main_type(const GgufFile& file) {
  std::size_t bytes[GGML_TYPE_COUNT] = {};
  for (const GgufFile::Found& found : file.tensors()) {
    bytes[found.tensor->type] += found.tensor->bytes;
  }
  const auto most = std::max_element(std::begin(bytes), std::end(bytes)) - std::begin(bytes);
  return ggml_type_name(static_cast<ggml_type>(most));
}

ModelInfo describe(const ModelOptions& options, const ModelShape& shape, const Weights& weights) {
  const GgufTable& keys = weights.file().keys();
  Result<std::string> name = keys.text("general.name", "");
  ModelInfo info;
  info.name =
      name.ok() && !name->empty() ? *name : options.path.substr(options.path.find_last_of('/') + 1);
  info.architecture = shape.architecture->name;
  info.quantization = main_type(weights.file());
  info.layers = static_cast<std::uint32_t>(shape.layers.size());
  info.embedding = shape.embedding;
  info.feed_forward = shape.layers.front().feed_forward;
  info.vocabulary = shape.vocabulary;
  info.context = shape.context;
  info.file_bytes = weights.file().bytes();
  info.weights_bytes = weights.in_place_bytes;
  info.copies_bytes = weights.copies_bytes;
  info.parameters = weights.parameters;
  const ggml_tensor* factors = weights.rope_factors;
  info.attention =
      shape.attention(factors == nullptr ? nullptr : static_cast<const float*>(factors->data));
  for (std::uint32_t l = 0; l < info.layers; ++l) {
    info.attention[l].output = {
        .size = shape.embedding,
        .rows = [all = &weights, l](std::uint32_t begin, std::uint32_t end, float* rows) {
          all->output_rows(l, begin, end, rows);
        }};
  }
  info.linear = weights.placement;
  if (options.deterministic) {
    for (auto& [path, tensors] : info.linear) {
      if (path == "ggml, in place") path = "ggml, row by row";
    }
  }
  info.isa = instruction_sets();
  return info;
}

}  // namespace

bool machine_has(Isa isa) {
  return kernels::machine_has(isa);
}

Result<std::unique_ptr<Model>> Model::load(ModelOptions options) {
  silence_libraries();
  Result<GgufFile> file = GgufFile::open(options.path);
  if (!file.ok()) return file.status();
  Result<ModelShape> shape = read_shape(file->keys());
  if (!shape.ok()) return shape.status();
  Result<std::unique_ptr<Text>> text = Text::load(*file, options.chat_template);
  if (!text.ok()) return text.status();
  Result<std::unique_ptr<Weights>> weights =
      Weights::load(*std::move(file), *shape,
                    {.pack = !options.plain_weights,
                     .deterministic = options.deterministic,
                     .chunk_rows = options.linear_chunk_rows,
                     .isa = options.isa,
                     .threads = thread_count(options.threads),
                     .progress = options.progress});
  if (!weights.ok()) return weights.status();
  const GgufFile& loaded = (*weights)->file();
  if (shape->vocabulary != (*text)->vocabulary()) {
    return loaded.keys().fault(
        Code::kCorrupt, "tensor 'token_embd.weight' has " + std::to_string(shape->vocabulary) +
                            " rows for the " + std::to_string((*text)->vocabulary()) +
                            " tokens of key 'tokenizer.ggml.tokens'");
  }
  if (Status status = loaded.unchanged(); !status.ok()) return status;
  std::unique_ptr<Model> model = std::make_unique<GgufModel>(options, *std::move(shape),
                                                             *std::move(weights), *std::move(text));
  return model;
}

GgufModel::GgufModel(const ModelOptions& options, ModelShape shape,
                     std::unique_ptr<Weights> weights, std::unique_ptr<Text> text)
    : shape_(std::move(shape)),
      weights_(std::move(weights)),
      text_(std::move(text)),
      info_(describe(options, shape_, *weights_)),
      threads_(thread_count(options.threads)),
      graphs_({.shape = &shape_,
               .weights = weights_.get(),
               .nodes = &nodes_,
               .deterministic = options.deterministic}) {
  for (std::uint32_t i = 0; i < info_.layers; ++i) nodes_.push_back({&step_, i});
}

Status GgufModel::attach(Cache& cache) {
  const std::vector<LayerShape>& theirs = cache.options().layers;
  bool equal = theirs.size() == info_.attention.size();
  for (std::size_t i = 0; equal && i < theirs.size(); ++i) {
    const LayerShape &a = theirs[i], &b = info_.attention[i];
    equal = a.kv_heads == b.kv_heads && a.query_heads == b.query_heads &&
            a.key_size == b.key_size && a.value_size == b.value_size && a.softcap == b.softcap &&
            a.window == b.window;
  }
  if (!equal) {
    return {Code::kInvalidArgument,
            "the cache was not opened with this model's layers (info().attention)"};
  }
  const std::uint32_t rows = std::min(cache.options().max_rows, kMaxRows);
  if (Status status = graphs_.reserve(rows); !status.ok()) return status;
  step_.cache = &cache;
  return {};
}

// Checks the chunks against the model and lays the step out; Cache::begin() checks the rest.
Status GgufModel::plan(std::span<const Chunk> chunks) {
  if (step_.cache == nullptr) return {Code::kInvalidArgument, "no cache attached"};
  segments_.clear();
  tokens_.clear();
  positions_.clear();
  wanted_.clear();
  const std::uint32_t limit = std::min(step_.cache->options().max_rows, kMaxRows);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const Chunk& chunk = chunks[i];
    if (chunk.tokens.empty() || chunk.tokens.size() > limit - tokens_.size()) {
      return {Code::kInvalidArgument, "a step takes 1 to " + std::to_string(limit) + " rows"};
    }
    if (chunk.logit_rows > chunk.tokens.size()) {
      return {Code::kInvalidArgument, "logit_rows is more than the chunk's rows"};
    }
    const Result<std::uint32_t> length = step_.cache->length(chunk.sequence);
    if (!length.ok()) return length.status();
    const auto rows = static_cast<std::uint32_t>(chunk.tokens.size());
    if (*length > shape_.context || rows > shape_.context - *length) {
      return {Code::kInvalidArgument,
              "the sequence would reach position " + std::to_string(*length + rows) +
                  ", beyond the model's context of " + std::to_string(shape_.context)};
    }
    segments_.push_back({.sequence = chunk.sequence,
                         .rows = rows,
                         .answer = chunk.answer,
                         .window_rows = chunk.window_rows,
                         .gate_rows = chunk.gate_rows});
    for (std::uint32_t row = 0; row < rows; ++row) {
      const Token token = chunk.tokens[row];
      if (token < 0 || static_cast<std::uint32_t>(token) >= shape_.vocabulary) {
        return {Code::kInvalidArgument, "token " + std::to_string(token) +
                                            " is not in the vocabulary of " +
                                            std::to_string(shape_.vocabulary)};
      }
      if (row + chunk.logit_rows >= rows) {
        wanted_.push_back({static_cast<std::uint32_t>(tokens_.size()), i, row, chunk.isolate});
      }
      tokens_.push_back(token);
      positions_.push_back(static_cast<std::int32_t>(*length + row));
    }
  }
  if (tokens_.empty()) return {Code::kInvalidArgument, "a step without rows"};
  return {};
}

Status GgufModel::forward(std::span<const Chunk> chunks, const OnLogits& on_logits) {
  if (Status status = plan(chunks); !status.ok()) return status;
  if (Status status = step_.cache->begin(segments_); !status.ok()) return status;
  step_.rows = static_cast<std::uint32_t>(tokens_.size());
  const std::uint32_t padded = padded_rows(step_.rows);
  tokens_.resize(padded, 0);
  positions_.resize(padded, 0);
  const BodyGraph& body = graphs_.body(padded);
  std::memcpy(body.tokens->data, tokens_.data(), padded * sizeof(std::int32_t));
  std::memcpy(body.positions->data, positions_.data(), padded * sizeof(std::int32_t));
  threads_.run(body.graph);
  for (std::size_t first = 0; first < wanted_.size(); first += kMaxHeadRows) {
    const std::size_t count = std::min<std::size_t>(kMaxHeadRows, wanted_.size() - first);
    if (Status status = run_head(body, {wanted_.data() + first, count}, on_logits); !status.ok()) {
      step_.cache->cancel();
      return status;
    }
  }
  step_.cache->commit();
  return {};
}

Status GgufModel::run_head(const BodyGraph& body, std::span<const WantedRow> rows,
                           const OnLogits& on_logits) {
  const HeadGraph& head = graphs_.head(padded_head_rows(static_cast<std::uint32_t>(rows.size())));
  for (const auto& [to, from] :
       {std::pair(head.attended, body.attended), std::pair(head.residual, body.residual)}) {
    auto* out = static_cast<char*>(to->data);
    std::memset(out, 0, ggml_nbytes(to));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::memcpy(out + i * to->nb[1],
                  static_cast<const char*>(from->data) + rows[i].step_row * from->nb[1], to->nb[1]);
    }
  }
  threads_.run(head.graph);
  const auto* logits = static_cast<const float*>(head.logits->data);
  const std::size_t width = shape_.vocabulary;
  std::array<bool, kMaxHeadRows> finite{};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    float sum = 0;  // NaN or infinity survive; finite logits cannot add up to either
    for (std::size_t c = 0; c < width; ++c) sum += std::fabs(logits[i * width + c]) * 1e-30f;
    finite[i] = std::isfinite(sum);
    if (!finite[i] && !rows[i].isolate) {
      return {Code::kNumeric, "the logits of row " + std::to_string(rows[i].row) + " of chunk " +
                                  std::to_string(rows[i].chunk) + " are not finite"};
    }
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (on_logits) {
      on_logits(rows[i].chunk, rows[i].row, {logits + i * width, finite[i] ? width : 0});
    }
  }
  return {};
}

}  // namespace quire::model
