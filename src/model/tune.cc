#include "model/tune.h"

#include <time.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <tuple>

#include "kernels/kernels.h"
#include "model/model_impl.h"

namespace quire::model {
namespace {

// Row counts that steps are padded to, where the two may cross.
constexpr std::uint32_t kLinearRows[] = {4, 8, 12, 16, 24, 32, 48, 64, 96, 128};
constexpr std::uint32_t kQuickLinearRows[] = {8, 16, 32, 64, 128};
// Tokens of a work item of attention: a cache cuts them at 64.
constexpr std::uint32_t kTokens[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
constexpr std::uint32_t kQuickTokens[] = {2, 4, 8, 16, 64};
constexpr std::uint32_t kLengths[] = {512, 2048};
// More than the caches hold, so that weights come from memory as in a step.
constexpr std::uint64_t kWeights = 48'000'000, kQuickWeights = 12'000'000;
constexpr std::uint32_t kPairs = 9, kQuickPairs = 3;
constexpr std::uint32_t kLanes = 8;  // of a shape, in turn
constexpr std::uint32_t kBlockTokens = 16;

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Processor time of this thread: what others do on a busy machine is not in it.
double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds(const std::function<void()>& work, std::uint32_t times) {
  const double start = thread_seconds();
  for (std::uint32_t i = 0; i < times; ++i) work();
  return (thread_seconds() - start) / times;
}

// Both in alternating order, each long enough for the clock, after one of each that warms caches.
TuneCell measure_pairs(TuneCell::Work work, std::uint32_t rows, std::uint32_t pairs,
                       const std::function<void()>& exact, const std::function<void()>& chunk) {
  constexpr double kLeast = 2e-3;
  chunk();
  const double once = std::max(seconds(exact, 1), 1e-6);
  const auto times = static_cast<std::uint32_t>(std::clamp(kLeast / once, 1.0, 1000.0));
  std::vector<double> exact_s, chunk_s, ratios;
  for (std::uint32_t pair = 0; pair < pairs; ++pair) {
    if (pair % 2 == 0) exact_s.push_back(seconds(exact, times));
    chunk_s.push_back(seconds(chunk, times));
    if (pair % 2 == 1) exact_s.push_back(seconds(exact, times));
    ratios.push_back(chunk_s.back() / exact_s.back());
  }
  return {.work = work,
          .rows = rows,
          .exact_seconds = median_of(exact_s),
          .chunk_seconds = median_of(chunk_s),
          .ratio = median_of(ratios)};
}

std::vector<float> random_floats(std::size_t count) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& x : values) x = normal(random);
  return values;
}

// The products of whole layers, as many as the caches do not hold.
class LinearWork {
 public:
  LinearWork(const Weights& weights, std::uint64_t limit) {
    std::uint64_t size = 0;
    for (const LayerWeights& layer : weights.layers) {
      for (const LinearSet* set :
           {&layer.qkv, &layer.attention_out, &layer.gate_up, &layer.feed_forward_out}) {
        if (!set->by_panels()) continue;
        sets_.push_back(set);
        for (const Linear* linear : set->linears) {
          const linear::Matrix& matrix = linear->matrix;
          size += std::uint64_t{matrix.inputs} * matrix.outputs;
          inputs_ = std::max(inputs_, matrix.inputs);
          outputs_ = std::max(outputs_, matrix.outputs);
        }
      }
      if (size >= limit) break;
    }
  }
  bool empty() const { return sets_.empty(); }

  TuneCell measure(const linear::Kernels& exact, std::uint32_t rows, std::uint32_t pairs) {
    x_ = random_floats(std::size_t{rows} * inputs_);
    out_.resize(std::size_t{rows} * outputs_);
    records_.resize(std::max(linear::rows_bytes(exact, rows, inputs_),
                             linear::rows_bytes(*exact.chunk, rows, inputs_)) +
                    64);
    return measure_pairs(
        TuneCell::Work::kLinear, rows, pairs, [&] { run(exact, rows); },
        [&] { run(*exact.chunk, rows); });
  }

 private:
  void run(const linear::Kernels& kernels, std::uint32_t rows) {
    void* at = records_.data();
    std::size_t room = records_.size();
    auto* const records = static_cast<std::byte*>(std::align(64, room - 64, at, room));
    for (const LinearSet* set : sets_) {
      kernels.quantize(x_.data(), rows, set->linears.front()->matrix.inputs, 0, rows, records);
      for (const Linear* linear : set->linears) {
        kernels.multiply(linear->matrix, nullptr, nullptr, records, rows, 0,
                         linear::panels(linear->matrix.outputs), out_.data());
      }
    }
  }

  std::vector<const LinearSet*> sets_;
  std::uint32_t inputs_ = 0, outputs_ = 0;  // the most of any
  std::vector<float> x_, out_;
  std::vector<std::byte> records_;
};

// Lanes of one layer shape, filled, and rows at their ends.
class AttendWork {
 public:
  AttendWork(const LayerShape& shape, KvType type, const kernels::Kernels& exact)
      : shape_(shape), type_(type), group_(shape.query_heads / shape.kv_heads) {
    const std::size_t row = shape.key_size + shape.value_size;
    block_bytes_ = row * kBlockTokens * bytes_of(type);
    const std::uint32_t longest = *std::ranges::max_element(kLengths);
    const std::uint32_t blocks = longest / kBlockTokens;
    memory_.resize(block_bytes_ * blocks * kLanes + 64);
    void* at = memory_.data();
    std::size_t room = memory_.size();
    std::byte* block = static_cast<std::byte*>(std::align(64, room - 64, at, room));
    const std::vector<float> kv = random_floats(row * kBlockTokens * 3);
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      for (std::uint32_t b = 0; b < blocks; ++b, block += block_bytes_) {
        const float* k = kv.data() + (lane * blocks + b) * 37 % (row * kBlockTokens);
        exact.append(block, kBlockTokens, value_offset(), type, type, shape.key_size,
                     shape.value_size, 0, kBlockTokens, k, shape.key_size, k + shape.key_size,
                     shape.value_size);
        blocks_[lane].push_back(
            {block, (1u << kBlockTokens) - 1, b * kBlockTokens, b * kBlockTokens});
      }
    }
    constexpr std::uint32_t kMostTokens = *std::ranges::max_element(kTokens);
    q_ = random_floats(std::size_t{kMostTokens} * group_ * shape.key_size);
    out_.resize(std::size_t{kMostTokens} * group_ * shape.value_size);
    scratch_.resize(kernels::scratch_floats(shape.key_size, shape.value_size, group_, 0) + 16);
  }

  TuneCell measure(const kernels::Kernels& exact, const kernels::Kernels& chunk,
                   std::uint32_t tokens, std::uint32_t pairs) {
    return measure_pairs(
        TuneCell::Work::kAttend, tokens * group_, pairs, [&] { run(exact, tokens); },
        [&] { run(chunk, tokens); });
  }

 private:
  std::size_t value_offset() const {
    return std::size_t{shape_.key_size} * kBlockTokens * bytes_of(type_);
  }

  void run(const kernels::Kernels& kernels, std::uint32_t tokens) {
    void* at = scratch_.data();
    std::size_t room = scratch_.size() * sizeof(float);
    auto* const scratch = static_cast<float*>(std::align(64, room - 64, at, room));
    for (const std::uint32_t length : kLengths) {
      const kernels::QueryView rows{.q = q_.data(),
                                    .out = out_.data(),
                                    .q_stride = std::size_t{group_} * shape_.key_size,
                                    .out_stride = std::size_t{group_} * shape_.value_size,
                                    .tokens = tokens,
                                    .group = group_,
                                    .first_position = length - tokens,
                                    .scale = 0.125f,
                                    .softcap = shape_.softcap,
                                    .window = 0,
                                    .sinks = nullptr};
      for (const std::vector<kernels::BlockView>& blocks : blocks_) {
        kernels.attend({.blocks = blocks.data(),
                        .block_count = length / kBlockTokens,
                        .position = nullptr,
                        .first = 0,
                        .live = length,
                        .block_tokens = kBlockTokens,
                        .key_type = type_,
                        .value_type = type_,
                        .key_size = shape_.key_size,
                        .value_size = shape_.value_size,
                        .value_offset = value_offset()},
                       rows, {}, scratch);
      }
    }
  }

  LayerShape shape_;
  KvType type_;
  std::uint32_t group_;
  std::size_t block_bytes_ = 0;
  std::vector<std::byte> memory_;
  std::vector<kernels::BlockView> blocks_[kLanes];
  std::vector<float> q_, out_, scratch_;
};

// Layers that a row of attention costs alike.
std::vector<LayerShape> shapes_of(const std::vector<LayerShape>& layers) {
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, LayerShape> shapes;
  for (const LayerShape& layer : layers) {
    shapes.try_emplace({layer.query_heads / layer.kv_heads, layer.key_size, layer.value_size},
                       layer);
  }
  std::vector<LayerShape> list;
  for (const auto& [key, shape] : shapes) list.push_back(shape);
  return list;
}

}  // namespace

Result<std::vector<TuneCell>> measure_chunks(const Model& model, const TuneOptions& options) {
  const auto* loaded = dynamic_cast<const GgufModel*>(&model);
  if (loaded == nullptr) return Status(Code::kUnsupported, "tune: not a model of a GGUF file");
  const linear::Kernels& linear = linear::kernels_for(options.isa);
  const kernels::Kernels& exact = kernels::kernels_for(options.isa);
  const kernels::Kernels* chunk = kernels::chunk_kernels_for(options.isa);
  const std::uint32_t pairs = options.quick ? kQuickPairs : kPairs;
  const auto list = [&](auto& all, auto& few) {
    return options.quick ? std::span<const std::uint32_t>(few)
                         : std::span<const std::uint32_t>(all);
  };
  const auto row_counts = list(kLinearRows, kQuickLinearRows);
  const auto token_counts = list(kTokens, kQuickTokens);

  std::vector<TuneCell> cells;
  const std::vector<LayerShape> shapes = shapes_of(model.info().attention);
  const auto all = static_cast<float>(row_counts.size() + token_counts.size() * shapes.size());
  const auto go_on = [&] {
    return !options.progress || options.progress(static_cast<float>(cells.size()) / all);
  };
  const Status cancelled(Code::kCancelled, "tune: cancelled");
  if (linear.chunk != nullptr) {
    LinearWork work(loaded->weights(), options.quick ? kQuickWeights : kWeights);
    for (const std::uint32_t rows : row_counts) {
      if (work.empty()) break;
      if (!go_on()) return cancelled;
      cells.push_back(work.measure(linear, rows, pairs));
    }
  }
  if (chunk != nullptr) {
    for (const LayerShape& shape : shapes) {
      AttendWork work(shape, options.kv_type, exact);
      for (const std::uint32_t tokens : token_counts) {
        if (!go_on()) return cancelled;
        cells.push_back(work.measure(exact, *chunk, tokens, pairs));
      }
    }
  }
  std::ranges::stable_sort(cells, {}, [](const TuneCell& c) { return std::tuple(c.work, c.rows); });
  return cells;
}

std::uint32_t chunk_rows_of(std::span<const TuneCell> cells, TuneCell::Work work,
                            std::uint32_t fallback) {
  std::uint32_t slow = 0;  // the most rows with which the exact kernels are as fast
  bool measured = false;
  for (const TuneCell& cell : cells) {
    if (cell.work != work) continue;
    measured = true;
    if (cell.ratio >= 1) slow = std::max(slow, cell.rows);
  }
  if (!measured) return fallback;
  std::uint32_t least = kNeverRows;
  for (const TuneCell& cell : cells) {
    if (cell.work == work && cell.rows > slow) least = std::min(least, cell.rows);
  }
  return least;
}

}  // namespace quire::model
