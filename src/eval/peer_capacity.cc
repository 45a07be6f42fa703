#include "eval/peer_capacity.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <utility>

#include "engine/budget.h"
#include "eval/statistics.h"

namespace quire::eval {
namespace {

using Clock = std::chrono::steady_clock;
using model::PeerRow;
using model::Token;

constexpr std::uint32_t kStepRows = 2048;
constexpr const char* kLlama = "llama";

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A request in its slot.
struct Slot {
  std::span<const Token> prompt;  // empty: the slot is free
  std::uint32_t read = 0;         // of the prompt
  std::uint32_t answered = 0;
  Token next = 0;  // the newest answer token, not yet read
  std::size_t row = 0;
  bool wanted = false;  // row: its index among the step's wanted ones
};

class Serving {
 public:
  Serving(model::Peer& peer, const CapacityOptions& options, std::uint32_t slots)
      : peer_(peer), options_(options), slots_(slots) {}

  // Seconds of each request, from the first arrival on.
  Result<std::vector<double>> serve(const std::vector<std::span<const Token>>& prompts);

 private:
  void admit(const std::vector<std::span<const Token>>& prompts);
  void fill();
  void take(Clock::time_point start, std::vector<double>& latency);

  model::Peer& peer_;
  const CapacityOptions& options_;
  std::vector<Slot> slots_;
  std::size_t started_ = 0;
  std::vector<PeerRow> rows_;
};

void Serving::admit(const std::vector<std::span<const Token>>& prompts) {
  for (std::uint32_t s = 0; s < slots_.size() && started_ < prompts.size(); ++s) {
    if (!slots_[s].prompt.empty()) continue;
    slots_[s] = {.prompt = prompts[started_++]};
  }
}

void Serving::fill() {
  rows_.clear();
  std::size_t wanted = 0;
  const auto add = [&](std::uint32_t s, Token token, bool want) {
    if (want) {
      slots_[s].row = wanted++;
      slots_[s].wanted = true;
    }
    rows_.push_back({.sequence = s, .token = token, .wanted = want});
  };
  for (std::uint32_t s = 0; s < slots_.size(); ++s) {
    slots_[s].wanted = false;
    if (slots_[s].answered > 0) add(s, slots_[s].next, true);
  }
  for (std::uint32_t s = 0; s < slots_.size(); ++s) {
    Slot& slot = slots_[s];
    while (slot.read < slot.prompt.size() && rows_.size() < kStepRows) {
      const Token token = slot.prompt[slot.read++];
      add(s, token, slot.read == slot.prompt.size());
    }
  }
}

// The next token of every answer; those that are whole leave.
void Serving::take(Clock::time_point start, std::vector<double>& latency) {
  for (std::uint32_t s = 0; s < slots_.size(); ++s) {
    Slot& slot = slots_[s];
    if (!slot.wanted) continue;
    const std::span<const float> logits = peer_.logits(static_cast<std::uint32_t>(slot.row));
    slot.next = static_cast<Token>(std::ranges::max_element(logits) - logits.begin());
    if (++slot.answered < options_.answer) continue;
    latency.push_back(seconds_since(start));
    peer_.cut(s, 0);
    slot = {};
  }
}

Result<std::vector<double>> Serving::serve(const std::vector<std::span<const Token>>& prompts) {
  const Clock::time_point start = Clock::now();
  std::vector<double> latency;
  while (latency.size() < prompts.size()) {
    if (options_.cancel != nullptr && options_.cancel->load()) {
      return Status(Code::kCancelled, "interrupted");
    }
    admit(prompts);
    fill();
    if (Status status = peer_.step(rows_); !status.ok()) return status;
    take(start, latency);
  }
  return latency;
}

// As measure_capacity() takes them from the text.
std::vector<std::span<const Token>> prompts_of(std::span<const Token> tokens,
                                               const CapacityOptions& options, std::uint32_t seed) {
  const std::size_t starts = tokens.size() - options.prompt;
  std::vector<std::span<const Token>> prompts;
  for (std::uint32_t i = 0; i < options.requests; ++i) {
    const std::size_t first = (std::size_t{seed} * 7919 + std::size_t{i} * 977) % starts;
    prompts.push_back(tokens.subspan(first, options.prompt));
  }
  return prompts;
}

Result<CapacityCell> cell_of(model::Peer& peer, std::span<const Token> tokens,
                             const CacheOptions& like, const CapacityOptions& options, double pool,
                             std::uint32_t seed) {
  const std::size_t each = engine::kv_bytes_per_token(like);
  const std::uint32_t length = options.prompt + options.answer;
  CapacityCell cell{.arm = kLlama, .pool = pool, .seed = seed};
  cell.pool_bytes =
      static_cast<std::size_t>(pool * static_cast<double>(each) * length * options.requests);
  const auto cells = static_cast<std::uint32_t>(cell.pool_bytes / each);
  cell.concurrency =
      std::min({cells / length, options.requests, std::uint32_t{model::kMaxPeerSequences}});
  if (cell.concurrency == 0) {
    return Status(Code::kOutOfMemory, "llama: a pool of " + std::to_string(cells) +
                                          " tokens holds no request of " + std::to_string(length));
  }
  if (Status status = peer.open_shared(cell.concurrency, cells, kStepRows); !status.ok()) {
    return status;
  }
  const std::vector<std::span<const Token>> prompts = prompts_of(tokens, options, seed);
  const Clock::time_point start = Clock::now();
  const Result<std::vector<double>> latency =
      Serving(peer, options, cell.concurrency).serve(prompts);
  if (!latency.ok()) return latency.status();
  cell.tok_s = static_cast<double>(options.requests) * length / seconds_since(start);
  cell.latency_p95 = quantile(*latency, 0.95);
  return cell;
}

// The median over seeds; NaN: there is no such cell.
double median_of(const std::vector<CapacityCell>& cells, const std::string& policy,
                 const std::string& arm, double pool, auto field) {
  std::vector<double> found;
  for (const CapacityCell& cell : cells) {
    if (cell.policy != policy || cell.arm != arm || cell.pool != pool) continue;
    found.push_back(static_cast<double>(cell.*field));
  }
  return median(found);
}

// Policy, arm and pool of every kind of cell, in their order.
std::vector<CapacityCell> kinds(const std::vector<CapacityCell>& cells) {
  std::vector<CapacityCell> found;
  for (const CapacityCell& cell : cells) {
    const bool known = std::ranges::any_of(found, [&](const CapacityCell& other) {
      return other.policy == cell.policy && other.arm == cell.arm && other.pool == cell.pool;
    });
    if (!known) found.push_back(cell);
  }
  return found;
}

void compare(PeerCapacity& peer, const CapacityReport& ours) {
  peer.concurrency = peer.throughput = std::numeric_limits<double>::infinity();
  for (const CapacityCell& kind : kinds(ours.cells)) {
    if (kind.arm != "repack") continue;
    const auto least = [&](double& to, auto field) {
      const double ratio = median_of(ours.cells, kind.policy, kind.arm, kind.pool, field) /
                           median_of(peer.cells, "", kLlama, kind.pool, field);
      to = std::min(to, ratio);
    };
    least(peer.concurrency, &CapacityCell::concurrency);
    least(peer.throughput, &CapacityCell::tok_s);
  }
}

}  // namespace

Result<PeerCapacity> measure_peer_capacity(model::Peer& peer, std::span<const Token> tokens,
                                           const CacheOptions& like, const CapacityOptions& options,
                                           const CapacityReport& ours) {
  if (tokens.size() <= options.prompt) {
    return Status(Code::kInvalidArgument, "text: " + std::to_string(tokens.size()) +
                                              " tokens; prompts of " +
                                              std::to_string(options.prompt) + " need more");
  }
  PeerCapacity found;
  const double all = static_cast<double>(options.pools.size()) * options.seeds;
  for (std::uint32_t seed = 0; seed < options.seeds; ++seed) {
    for (const double pool : options.pools) {
      if (options.on_progress) {
        options.on_progress(static_cast<double>(found.cells.size()) / all,
                            "requests together, llama");
      }
      Result<CapacityCell> cell = cell_of(peer, tokens, like, options, pool, seed);
      if (!cell.ok()) return cell.status();
      found.cells.push_back(*std::move(cell));
    }
  }
  compare(found, ours);
  return found;
}

std::string page_of(const PeerCapacity& peer, const CapacityReport& ours) {
  std::string text =
      "## Beside libllama's unified cache\n\nThe same model file, prompts, answers, threads and "
      "bytes of f16 keys and values; the loop of its server in process, a slot for every request "
      "whose prompt and answer the cells hold. Medians over seeds (of libllama one), ratios to "
      "it.\n\n"
      "| pool | policy | arm | requests together | ratio | tok/s | ratio | p95 of a request, s |\n"
      "|---|---|---|---|---|---|---|---|\n";
  const auto row = [&](const std::vector<CapacityCell>& cells, const CapacityCell& kind) {
    const auto of = [&](auto field) {
      return median_of(cells, kind.policy, kind.arm, kind.pool, field);
    };
    const auto to_llama = [&](auto field) {
      return of(field) / median_of(peer.cells, "", kLlama, kind.pool, field);
    };
    char buffer[200];
    std::snprintf(
        buffer, sizeof(buffer), "| %.0f %% | %s | %s | %g | %.2f | %.1f | %.2f | %.2f |\n",
        kind.pool * 100, kind.policy.empty() ? "-" : kind.policy.c_str(), kind.arm.c_str(),
        of(&CapacityCell::concurrency), to_llama(&CapacityCell::concurrency),
        of(&CapacityCell::tok_s), to_llama(&CapacityCell::tok_s), of(&CapacityCell::latency_p95));
    text += buffer;
  };
  for (const CapacityCell& llama : kinds(peer.cells)) {
    row(peer.cells, llama);
    for (const CapacityCell& kind : kinds(ours.cells)) {
      if (kind.pool == llama.pool) row(ours.cells, kind);
    }
  }
  return text + "\n";
}

Json json_of(const PeerCapacity& peer) {
  Json cells = Json::array();
  for (const CapacityCell& cell : peer.cells) {
    cells.push_back({{"arm", cell.arm},
                     {"pool", cell.pool},
                     {"seed", cell.seed},
                     {"pool_bytes", cell.pool_bytes},
                     {"concurrency", cell.concurrency},
                     {"tok_s", cell.tok_s},
                     {"latency_p95", cell.latency_p95}});
  }
  return cells;
}

}  // namespace quire::eval
