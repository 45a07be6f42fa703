#include "eval/replay.h"

#include <algorithm>
#include <functional>

#include "engine/budget.h"
#include "eval/sequences.h"

namespace quire::eval {
namespace {

constexpr std::size_t kMi = std::size_t{1} << 20;

Result<std::unique_ptr<Cache>> open_for(const Trace& trace, CacheOptions& options) {
  options.budget_bytes =
      engine::kv_bytes(options, trace.length, options.max_rows) * 3 / 2 + 16 * kMi;
  return Cache::open(options);
}

Status evict_all(Cache& cache, SequenceId sequence, const LanePositions& victims) {
  for (std::uint32_t layer = 0; layer < victims.size(); ++layer) {
    for (std::uint32_t head = 0; head < victims[layer].size(); ++head) {
      if (victims[layer][head].empty()) continue;
      const Status status = cache.evict(sequence, layer, head, victims[layer][head]);
      if (!status.ok()) return status;
    }
  }
  return {};
}

// Grows the sequence to each review and to the end by `grow(to)`, and evicts.
Status follow(Cache& cache, SequenceId sequence, const Trace& trace,
              const std::function<Status(std::uint32_t to)>& grow,
              const std::function<Status()>& after) {
  const bool repacks = cache.options().reclaim == Reclaim::kRepack;
  for (const Review& review : trace.reviews) {
    if (Status status = grow(review.length); !status.ok()) return status;
    if (Status status = after(); !status.ok()) return status;
    if (Status status = evict_all(cache, sequence, review.victims); !status.ok()) return status;
    if (repacks) repack_all(cache);
    if (Status status = after(); !status.ok()) return status;
  }
  if (Status status = grow(trace.length); !status.ok()) return status;
  return after();
}

}  // namespace

Result<Replayed> replay(const Trace& trace, CacheOptions options) {
  const Result<std::unique_ptr<Cache>> opened = open_for(trace, options);
  if (!opened.ok()) return opened.status();
  Cache& cache = **opened;
  const Result<Held> sequence = Held::start(cache, {});
  if (!sequence.ok()) return sequence.status();
  std::uint32_t length = 0;
  const auto grow = [&](std::uint32_t to) -> Status {
    while (length < to) {
      const std::uint32_t rows = std::min(options.max_rows, to - length);
      const Segment segment{.sequence = sequence->id(), .rows = rows};
      if (Status status = cache.begin({&segment, 1}); !status.ok()) return status;
      cache.commit();
      length += rows;
    }
    return {};
  };
  Replayed replayed;
  const auto after = [&]() -> Status {
    const Result<SequenceStats> stats = cache.stats(sequence->id());
    if (!stats.ok()) return stats.status();
    replayed.blocks = stats->blocks;
    replayed.blocks_peak = std::max(replayed.blocks_peak, stats->blocks);
    replayed.waste = stats->waste;
    return {};
  };
  if (Status status = follow(cache, sequence->id(), trace, grow, after); !status.ok()) {
    return status;
  }
  Result<LanePositions> live = live_positions(cache, sequence->id());
  if (!live.ok()) return live.status();
  replayed.live = *std::move(live);
  replayed.moves = cache.stats().moves;
  return replayed;
}

Result<std::vector<float>> replay_logits(model::Model& model, CacheOptions options,
                                         std::span<const model::Token> tokens, const Trace& trace,
                                         std::uint32_t rows) {
  const Result<std::unique_ptr<Cache>> opened = open_for(trace, options);
  if (!opened.ok()) return opened.status();
  Cache& cache = **opened;
  if (Status status = model.attach(cache); !status.ok()) return status;
  const Result<Held> sequence = Held::start(cache, {});
  if (!sequence.ok()) return sequence.status();
  std::uint32_t length = 0;
  std::vector<float> logits;
  const auto grow = [&](std::uint32_t to) -> Status {
    while (length < to) {
      const std::uint32_t count = std::min(options.max_rows, to - length), end = length + count;
      const std::uint32_t first = trace.length - std::min(rows, trace.length);
      const model::Chunk chunk{.sequence = sequence->id(),
                               .tokens = tokens.subspan(length, count),
                               .logit_rows = end - std::clamp(first, length, end)};
      const Status status =
          model.forward({&chunk, 1}, [&](std::size_t, std::uint32_t, std::span<const float> row) {
            logits.insert(logits.end(), row.begin(), row.end());
          });
      if (!status.ok()) return status;
      length = end;
    }
    return {};
  };
  const Status status = follow(cache, sequence->id(), trace, grow, []() -> Status { return {}; });
  if (!status.ok()) return status;
  return logits;
}

}  // namespace quire::eval
