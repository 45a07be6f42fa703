#include "eval/decode_rate.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "engine/budget.h"
#include "eval/arms.h"
#include "eval/random.h"
#include "eval/sequences.h"

namespace quire::eval {
namespace {

using Clock = std::chrono::steady_clock;
using model::Token;

constexpr std::size_t kMi = std::size_t{1} << 20;
constexpr std::uint32_t kRows = 512;           // of a step without a forward pass
constexpr std::uint32_t kWarmSteps = 2;        // untimed
constexpr std::size_t kRepackBytes = 1 * kMi;  // after the reviews of a step, as an engine would

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Row {
  std::string policy;
  std::uint32_t block_tokens, keep, round;
};

struct Measured {
  double tok_s = 0, bytes = 0, blocks = 0, review_share = 0;
};

class Rates {
 public:
  Rates(model::Model& model, const CacheOptions& like, const RateOptions& options)
      : model_(model), like_(like), options_(options) {
    like_.max_rows = kRows;
    like_.repack = {};
    like_.repack.watermark = 1;  // blocks are to be read, although memory is ample
    std::size_t widest = 0;
    for (const LayerShape& layer : like_.layers) {
      const std::size_t width = std::max(layer.key_size, layer.value_size);
      widest = std::max(widest, std::size_t{layer.kv_heads} * width);
    }
    // One chunk and as many numbers again, so that chunks begin elsewhere and none repeats.
    const Stream stream(0, "decode rate");
    numbers_.resize(2 * kRows * widest);
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      numbers_[i] = static_cast<float>(stream.unit(i) * 2 - 1);
    }
  }

  Status run();
  std::vector<RateCell> cells() && { return std::move(cells_); }

 private:
  std::vector<Row> rows() const;
  Json header() const;
  Result<Measured> measure(const Row& row);
  Status fill(Cache& cache, SequenceId sequence, std::uint32_t number) const;
  Status cut(Cache& cache, const Row& row, const std::optional<Policy>& policy,
             std::vector<Held>& held) const;
  Status decode(Cache& cache, const Row& row, const std::optional<Policy>& policy,
                const std::vector<Held>& held, std::uint32_t steps, double& reviewing);
  void add(const Row& row, const Measured& measured);

  model::Model& model_;
  CacheOptions like_;
  const RateOptions& options_;
  std::vector<float> numbers_;
  std::vector<RateCell> cells_;
};

// A round after the other, so that all rows meet the same machine.
std::vector<Row> Rates::rows() const {
  std::vector<Row> rows;
  for (std::uint32_t round = 0; round < options_.rounds; ++round) {
    for (const std::uint32_t block : options_.blocks) {
      rows.push_back({kFull, block, options_.depth, round});
      for (const std::uint32_t keep : options_.keeps) {
        for (const std::string& policy : options_.policies) {
          rows.push_back({policy, block, keep, round});
        }
      }
    }
  }
  return rows;
}

Json Rates::header() const {
  return {{"quire_json", 1},
          {"log", "decode rates"},
          {"version", 1},
          {"model", model_.info().name},
          {"depth", options_.depth},
          {"sequences", options_.sequences},
          {"steps", options_.steps},
          {"threads", model_.threads()}};
}

Status Rates::fill(Cache& cache, SequenceId sequence, std::uint32_t number) const {
  for (std::uint32_t done = 0; done < options_.depth;) {
    const std::uint32_t rows = std::min(kRows, options_.depth - done);
    const Segment segment{.sequence = sequence, .rows = rows};
    if (Status status = cache.begin({&segment, 1}); !status.ok()) return status;
    for (std::uint32_t layer = 0; layer < like_.layers.size(); ++layer) {
      const std::size_t at = 16u * (number * 7919u + done + layer * 31u) % (numbers_.size() / 2);
      cache.append(layer, &numbers_[at], &numbers_[numbers_.size() / 2 - at], 0, 1);
    }
    cache.commit();
    done += rows;
  }
  return {};
}

Status Rates::cut(Cache& cache, const Row& row, const std::optional<Policy>& policy,
                  std::vector<Held>& held) const {
  for (std::uint32_t i = 0; i < options_.sequences; ++i) {
    Result<Held> sequence = Held::start(cache, policy ? policy->needs : Needs{});
    if (!sequence.ok()) return sequence.status();
    if (Status status = fill(cache, sequence->id(), i); !status.ok()) return status;
    if (policy) {
      const Result<ShrinkReport> cut = cache.shrink(sequence->id(), *policy, row.keep);
      if (!cut.ok()) return cut.status();
      repack_all(cache);
    }
    held.push_back(*std::move(sequence));
  }
  return {};
}

Status Rates::decode(Cache& cache, const Row& row, const std::optional<Policy>& policy,
                     const std::vector<Held>& held, std::uint32_t steps, double& reviewing) {
  std::vector<Token> tokens(held.size());
  std::vector<model::Chunk> chunks;
  for (std::size_t i = 0; i < held.size(); ++i) {
    chunks.push_back(
        {.sequence = held[i].id(), .tokens = {&tokens[i], 1}, .answer = true, .logit_rows = 1});
  }
  for (std::uint32_t step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < held.size(); ++i) {
      tokens[i] = static_cast<Token>((step * 131 + i * 17 + 40) % model_.info().vocabulary);
    }
    if (Status status = model_.forward(chunks, [](auto...) {}); !status.ok()) return status;
    if (!policy || (step + 1) % row.block_tokens != 0) continue;
    const Clock::time_point start = Clock::now();
    for (const Held& sequence : held) {
      const Result<ShrinkReport> cut = cache.shrink(sequence.id(), *policy, row.keep);
      if (!cut.ok()) return cut.status();
    }
    cache.plan_moves(kRepackBytes);
    cache.copy_moves(kRepackBytes);
    cache.install_moves();
    reviewing += seconds_since(start);
  }
  return {};
}

Result<Measured> Rates::measure(const Row& row) {
  std::optional<Policy> policy;
  if (row.policy != kFull) {
    Result<Policy> made = make_policy(row.policy);
    if (!made.ok()) return made.status();
    policy = *std::move(made);
  }
  CacheOptions options = like_;
  options.block_tokens = row.block_tokens;
  // All of them whole while they are filled, and tables, sums and blocks under way.
  options.budget_bytes =
      engine::kv_bytes(options, options_.depth + options_.steps + 2 * kRows, kRows) *
          options_.sequences * 9 / 8 +
      64 * kMi;
  const Result<std::unique_ptr<Cache>> cache = Cache::open(options);
  if (!cache.ok()) return cache.status();
  if (Status status = model_.attach(**cache); !status.ok()) return status;
  std::vector<Held> held;
  if (Status status = cut(**cache, row, policy, held); !status.ok()) return status;
  Measured found;
  for (const Held& sequence : held) {
    const Result<SequenceStats> stats = (*cache)->stats(sequence.id());
    if (!stats.ok()) return stats.status();
    found.bytes += static_cast<double>(stats->bytes) / options_.sequences;
    found.blocks += static_cast<double>(stats->blocks) / options_.sequences;
  }
  double reviewing = 0;
  if (Status status = decode(**cache, row, {}, held, kWarmSteps, reviewing); !status.ok()) {
    return status;
  }
  const Clock::time_point start = Clock::now();
  if (Status status = decode(**cache, row, policy, held, options_.steps, reviewing); !status.ok()) {
    return status;
  }
  const double seconds = seconds_since(start);
  found.tok_s = options_.steps * options_.sequences / seconds;
  found.review_share = reviewing / seconds;
  return found;
}

void Rates::add(const Row& row, const Measured& measured) {
  auto cell = std::ranges::find_if(cells_, [&](const RateCell& one) {
    return one.policy == row.policy && one.block_tokens == row.block_tokens && one.keep == row.keep;
  });
  if (cell == cells_.end()) {
    cells_.push_back({.policy = row.policy, .block_tokens = row.block_tokens, .keep = row.keep});
    cell = std::prev(cells_.end());
  }
  cell->tok_s.push_back(measured.tok_s);
  cell->bytes = measured.bytes;
  cell->blocks = measured.blocks;
  cell->review_share = measured.review_share;
}

Json line_of(const Row& row, const Measured& measured) {
  return {{"policy", row.policy},      {"block_tokens", row.block_tokens},
          {"keep", row.keep},          {"round", row.round},
          {"tok_s", measured.tok_s},   {"bytes", measured.bytes},
          {"blocks", measured.blocks}, {"review_share", measured.review_share}};
}

// Of the log's line of this row; nothing: it is not there.
std::optional<Measured> known(const std::vector<Json>& lines, const Row& row) {
  const auto same = [&](const Json& line) {
    const Json mine = line_of(row, {});
    return std::ranges::all_of(
        std::array{"policy", "block_tokens", "keep", "round"},
        [&](const char* key) { return line.value(key, Json()) == mine[key]; });
  };
  const auto line = std::ranges::find_if(lines, same);
  if (line == lines.end()) return {};
  try {
    return Measured{.tok_s = line->at("tok_s"),
                    .bytes = line->at("bytes"),
                    .blocks = line->at("blocks"),
                    .review_share = line->at("review_share")};
  } catch (const Json::exception&) {
    return {};  // measured again
  }
}

Status Rates::run() {
  for (const LayerShape& layer : like_.layers) {
    if (layer.window != 0) {
      return {Code::kUnsupported, "decode rates: this model has layers with a window"};
    }
  }
  Result<Log> log = Log::open(options_.log_path, header());
  if (!log.ok()) return log.status();
  const std::vector<Row> all = rows();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (options_.cancel != nullptr && options_.cancel->load())
      return {Code::kCancelled, "cancelled"};
    const Row& row = all[i];
    if (const std::optional<Measured> before = known(log->finished(), row)) {
      add(row, *before);
      continue;
    }
    if (options_.on_progress) {
      options_.on_progress(static_cast<double>(i) / static_cast<double>(all.size()),
                           "decoding, " + row.policy + ", keep " + std::to_string(row.keep) +
                               ", blocks of " + std::to_string(row.block_tokens));
    }
    const Result<Measured> measured = measure(row);
    if (!measured.ok()) return measured.status();
    if (Status status = log->append(line_of(row, *measured)); !status.ok()) return status;
    add(row, *measured);
  }
  return {};
}

}  // namespace

Result<std::vector<RateCell>> measure_decode_rates(model::Model& model, const CacheOptions& like,
                                                   const RateOptions& options) {
  Rates rates(model, like, options);
  if (Status status = rates.run(); !status.ok()) return status;
  return std::move(rates).cells();
}

}  // namespace quire::eval
