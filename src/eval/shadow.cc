#include "eval/shadow.h"

#include <algorithm>

#include "engine/budget.h"

namespace quire::eval {
namespace {

constexpr std::size_t kMi = std::size_t{1} << 20;

// The positions of [0, length) that are not in `kept`.
std::vector<Position> others(std::uint32_t length, const std::vector<Position>& kept) {
  std::vector<Position> victims;
  victims.reserve(length - std::min<std::size_t>(length, kept.size()));
  std::size_t next = 0;
  for (Position p = 0; p < length; ++p) {
    if (next < kept.size() && kept[next] == p) {
      ++next;
    } else {
      victims.push_back(p);
    }
  }
  return victims;
}

}  // namespace

void repack_all(Cache& cache) {
  constexpr std::size_t kEverything = std::size_t{1} << 40;
  while (cache.plan_moves(kEverything).plans > 0) {
    while (cache.copy_moves(kEverything) > 0) {
    }
    cache.install_moves();
  }
}

Result<LanePositions> live_positions(const Cache& cache, SequenceId sequence) {
  const std::vector<LayerShape>& layers = cache.options().layers;
  LanePositions live(layers.size());
  for (std::uint32_t layer = 0; layer < layers.size(); ++layer) {
    live[layer].resize(layers[layer].kv_heads);
    if (layers[layer].window != 0) continue;
    for (std::uint32_t head = 0; head < layers[layer].kv_heads; ++head) {
      Result<std::vector<Position>> lane = cache.positions(sequence, layer, head);
      if (!lane.ok()) return lane.status();
      live[layer][head] = *std::move(lane);
    }
  }
  return live;
}

Result<Shadow> Shadow::open(const CacheOptions& like, std::uint32_t tokens) {
  CacheOptions options = like;
  // Repacked as far as it goes: what a pool under pressure pays for these entries.
  options.reclaim = Reclaim::kRepack;
  options.repack = {
      .waste = 0, .fullness = 1 - 1 / static_cast<float>(like.block_tokens), .watermark = 1};
  // Twice the keys and values: tables, sums per head, and blocks under way.
  options.budget_bytes = 2 * engine::kv_bytes(like, tokens, like.max_rows) + 16 * kMi;
  Result<std::unique_ptr<Cache>> cache = Cache::open(std::move(options));
  if (!cache.ok()) return cache.status();
  return Shadow(*std::move(cache));
}

Status Shadow::fill(SequenceId sequence, std::uint32_t length, std::uint32_t window_rows,
                    const LanePositions& kept) {
  const std::uint32_t step = cache_->options().max_rows;
  const std::uint32_t window_begin = length - std::min(length, window_rows);
  for (std::uint32_t done = 0; done < length;) {
    const std::uint32_t rows = std::min(step, length - done), end = done + rows;
    const Segment segment{.sequence = sequence,
                          .rows = rows,
                          .window_rows = end - std::clamp(window_begin, done, end)};
    if (Status status = cache_->begin({&segment, 1}); !status.ok()) return status;
    cache_->commit();
    done = end;
  }
  const std::vector<LayerShape>& layers = cache_->options().layers;
  for (std::uint32_t layer = 0; layer < layers.size(); ++layer) {
    if (layers[layer].window != 0) continue;
    for (std::uint32_t head = 0; head < layers[layer].kv_heads; ++head) {
      const std::vector<Position> victims = others(length, kept[layer][head]);
      if (victims.empty()) continue;
      if (Status status = cache_->evict(sequence, layer, head, victims); !status.ok()) {
        return status;
      }
    }
  }
  return {};
}

Result<SequenceStats> Shadow::measure(const Needs& needs, std::uint32_t length,
                                      std::uint32_t window_rows, const LanePositions& kept) {
  const Result<SequenceId> sequence = cache_->start(needs);
  if (!sequence.ok()) return sequence.status();
  const std::vector<Role> roles(needs.roles ? length : 0, Role::kProse);  // their bytes count
  Status status;
  if (needs.roles) status = cache_->set_roles(*sequence, 0, roles);
  if (status.ok()) status = fill(*sequence, length, window_rows, kept);
  repack_all(*cache_);
  Result<SequenceStats> stats = cache_->stats(*sequence);
  if (Status dropped = cache_->drop(*sequence); !dropped.ok()) return dropped;
  if (!status.ok()) return status;
  return stats;
}

}  // namespace quire::eval
