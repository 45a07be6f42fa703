#include "eval/victims.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "engine/budget.h"
#include "eval/log.h"
#include "eval/sequences.h"

namespace quire::eval {
namespace {

using model::Token;

LanePositions without(const LanePositions& before, const LanePositions& after) {
  LanePositions gone(before.size());
  for (std::size_t layer = 0; layer < before.size(); ++layer) {
    gone[layer].resize(before[layer].size());
    for (std::size_t head = 0; head < before[layer].size(); ++head) {
      std::ranges::set_difference(before[layer][head], after[layer][head],
                                  std::back_inserter(gone[layer][head]));
    }
  }
  return gone;
}

// One policy at one ratio.
struct Run {
  Policy policy;
  Trace trace;
  Held sequence;
};

class Recorder {
 public:
  Recorder(model::Model& model, Cache& cache, std::span<const Token> tokens,
           std::uint32_t keep_multiple, const RecordOptions& options)
      : model_(model),
        cache_(cache),
        tokens_(tokens),
        multiple_(keep_multiple),
        options_(options) {}

  // Runs of equal needs.
  Status go(std::vector<Run>& runs) const {
    Result<Held> reading = Held::start(cache_, runs[0].policy.needs);
    if (!reading.ok()) return reading.status();
    const std::span<const Token> prompt = tokens_.first(options_.prompt);
    const Needs& needs = runs[0].policy.needs;
    if (Status status = tell_roles(model_, cache_, *reading, needs, prompt); !status.ok()) {
      return status;
    }
    const std::uint32_t window = needs.tap == Tap::kLastRows ? needs.window : 0;
    if (Status status =
            read(model_, *reading, prompt, {.chunk = options_.chunk, .window_rows = window});
        !status.ok()) {
      return status;
    }
    if (options_.cadence == 0) {
      const ReadOptions answer{.chunk = options_.chunk, .answer = true};
      if (Status status = read(model_, *reading, tokens_.subspan(options_.prompt), answer);
          !status.ok()) {
        return status;
      }
    }
    for (Run& run : runs) {
      Result<Held> fork = reading->fork();
      if (!fork.ok()) return fork.status();
      run.sequence = *std::move(fork);
      const auto now =
          static_cast<std::uint32_t>(options_.cadence == 0 ? tokens_.size() : options_.prompt);
      if (Status status = review(run, now); !status.ok()) return status;
      if (options_.cadence == 0) run.sequence = {};
    }
    return options_.cadence == 0 ? Status() : decode(runs);
  }

 private:
  Status decode(std::vector<Run>& runs) const {
    for (std::size_t done = options_.prompt; done < tokens_.size(); done += options_.cadence) {
      const std::size_t rows = std::min<std::size_t>(options_.cadence, tokens_.size() - done);
      const std::size_t together = std::max<std::size_t>(1, cache_.options().max_rows / rows);
      for (std::size_t first = 0; first < runs.size(); first += together) {
        std::vector<model::Chunk> chunks;
        for (std::size_t r = first; r < std::min(first + together, runs.size()); ++r) {
          chunks.push_back({.sequence = runs[r].sequence.id(),
                            .tokens = tokens_.subspan(done, rows),
                            .answer = true});
        }
        const Status status = model_.forward(chunks, [](auto...) {});
        if (!status.ok()) return status;
      }
      for (Run& run : runs) {
        const Status status = review(run, static_cast<std::uint32_t>(done + rows));
        if (!status.ok()) return status;
      }
    }
    return {};
  }

  Status review(Run& run, std::uint32_t length) const {
    const double kept = (1 - run.trace.ratio) * length / multiple_;
    // With a cadence the budget is that of the end: it is held from when it is first passed.
    const double end = (1 - run.trace.ratio) * static_cast<double>(tokens_.size()) / multiple_;
    const double keep = std::round(options_.cadence == 0 ? kept : end) * multiple_;
    run.trace.length = static_cast<std::uint32_t>(tokens_.size());
    if (keep >= length) return {};
    const Result<LanePositions> before = live_positions(cache_, run.sequence.id());
    if (!before.ok()) return before.status();
    const auto entries = std::max(1u, static_cast<std::uint32_t>(keep));
    const Result<ShrinkReport> report = cache_.shrink(run.sequence.id(), run.policy, entries);
    if (!report.ok()) return report.status();
    const Result<LanePositions> after = live_positions(cache_, run.sequence.id());
    if (!after.ok()) return after.status();
    run.trace.reviews.push_back({length, without(*before, *after)});
    return {};
  }

  model::Model& model_;
  Cache& cache_;
  const std::span<const Token> tokens_;
  const std::uint32_t multiple_;
  const RecordOptions& options_;
};

}  // namespace

Result<std::vector<Trace>> record(model::Model& model, Cache& cache,
                                  std::span<const model::Token> tokens,
                                  const std::vector<std::string>& policies,
                                  const std::vector<double>& ratios, std::uint32_t keep_multiple,
                                  const RecordOptions& options) {
  if (options.prompt == 0 || tokens.size() < options.prompt) {
    return Status(Code::kInvalidArgument, "the text has " + std::to_string(tokens.size()) +
                                              " tokens, the prompt takes " +
                                              std::to_string(options.prompt));
  }
  std::vector<std::pair<Needs, std::vector<Run>>> groups;
  for (const std::string& spec : policies) {
    const Result<Policy> policy = make_policy(spec);
    if (!policy.ok()) return policy.status();
    auto group =
        std::ranges::find(groups, policy->needs, &std::pair<Needs, std::vector<Run>>::first);
    if (group == groups.end())
      group = groups.emplace(groups.end(), policy->needs, std::vector<Run>());
    for (const double ratio : ratios) {
      group->second.push_back({*policy, {.policy = spec, .ratio = ratio}, {}});
    }
  }
  std::vector<Trace> traces;
  const Recorder recorder(model, cache, tokens, keep_multiple, options);
  for (auto& [needs, runs] : groups) {
    if (Status status = recorder.go(runs); !status.ok()) return status;
    for (Run& run : runs) traces.push_back(std::move(run.trace));
  }
  return traces;
}

Result<Trace> record_unread(CacheOptions options, std::uint32_t length, const std::string& spec,
                            double ratio) {
  const Result<Policy> policy = make_policy(spec);
  if (!policy.ok()) return policy.status();
  if (!(policy->needs == Needs{})) {
    return Status(Code::kInvalidArgument, "policy " + spec + " looks at more than positions");
  }
  options.budget_bytes =
      engine::kv_bytes(options, length, options.max_rows) * 5 / 4 + (std::size_t{32} << 20);
  const Result<std::unique_ptr<Cache>> cache = Cache::open(std::move(options));
  if (!cache.ok()) return cache.status();
  const Result<SequenceId> id = (*cache)->start();
  if (!id.ok()) return id.status();
  for (std::uint32_t at = 0; at < length;) {
    const Segment rows{.sequence = *id,
                       .rows = std::min((*cache)->options().max_rows, length - at)};
    if (Status status = (*cache)->begin({&rows, 1}); !status.ok()) return status;
    (*cache)->commit();
    at += rows.rows;
  }
  const Result<LanePositions> before = live_positions(**cache, *id);
  if (!before.ok()) return before.status();
  const auto keep = static_cast<std::uint32_t>(std::round((1 - ratio) * length));
  const Result<ShrinkReport> report = (*cache)->shrink(*id, *policy, keep);
  if (!report.ok()) return report.status();
  const Result<LanePositions> after = live_positions(**cache, *id);
  if (!after.ok()) return after.status();
  Trace trace{.policy = spec, .ratio = ratio, .length = length};
  trace.reviews.push_back({length, without(*before, *after)});
  return trace;
}

std::string victims_text(const std::vector<Trace>& traces) {
  std::string text;
  for (const Trace& trace : traces) {
    for (const Review& review : trace.reviews) {
      for (std::size_t layer = 0; layer < review.victims.size(); ++layer) {
        for (std::size_t head = 0; head < review.victims[layer].size(); ++head) {
          const Json line = {{"policy", trace.policy}, {"ratio", trace.ratio},
                             {"step", review.length},  {"layer", layer},
                             {"head", head},           {"positions", review.victims[layer][head]}};
          text += line.dump() + "\n";
        }
      }
    }
  }
  return text;
}

}  // namespace quire::eval
