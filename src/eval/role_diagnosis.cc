#include "eval/role_diagnosis.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "engine/budget.h"
#include "eval/sequences.h"
#include "eval/shadow.h"
#include "roles/roles.h"

namespace quire::eval {
namespace {

using model::Token;

constexpr std::uint32_t kChunk = 512;
constexpr Needs kWatchAll{.tap = Tap::kAllRows, .group = Reduce::kMean};

constexpr std::size_t index(Role role) {
  return static_cast<std::size_t>(role);
}

// Roles of an input's document, and which of its keys share a token with another role.
struct Labels {
  std::vector<Role> role;
  std::vector<bool> merged;
};

Labels token_labels(const model::Model& model, std::span<const Token> tokens) {
  std::string text;
  std::vector<std::size_t> ends;
  for (const Token token : tokens) {
    text += model.piece(token, true);
    ends.push_back(text.size());
  }
  const std::vector<Role> bytes = roles::label_text(text);
  Labels labels{.role = roles::label_tokens(bytes, ends), .merged = {}};
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(i == 0 ? 0 : ends[i - 1]);
    const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(ends[i]);
    labels.merged.push_back(std::any_of(
        begin, end, [&](Role role) { return role == Role::kDelimiter || role == Role::kValue; }));
  }
  return labels;
}

// One document on its way through its readings.
class Diagnosing {
 public:
  Diagnosing(model::Model& model, Cache& cache, const Input& input, RoleDiagnosis& out)
      : cache_(cache),
        input_(input),
        out_(out),
        prompts_(model, cache, input.document, kChunk),
        labels_(token_labels(model, input.document)) {}

  Status run(const DiagnosisOptions& options) {
    count_tokens();
    if (Status status = weigh(); !status.ok()) return status;
    for (const std::string& policy : options.policies) {
      for (const double keep : options.keeps) {
        if (Status status = review(policy, keep); !status.ok()) return status;
      }
    }
    return {};
  }

 private:
  std::size_t length() const { return labels_.role.size(); }

  void count_tokens() {
    double merged = 0;
    for (std::size_t i = 0; i < length(); ++i) {
      out_.tokens[index(labels_.role[i])] += 1;
      if (labels_.role[i] == Role::kKey && labels_.merged[i]) merged += 1;
    }
    out_.merged_keys = merged / std::max(1.0, out_.tokens[index(Role::kKey)]);
  }

  // The first question is behind the document, as it is when a policy decides.
  Result<Held> read(const Needs& needs) { return prompts_.aware(needs, input_.asked[0].prompt); }

  // Attention of each of the document's tokens, over all lanes.
  Status weigh() {
    const Result<Held> sequence = read(kWatchAll);
    if (!sequence.ok()) return sequence.status();
    Mass mass;
    if (Status status = add_mass(cache_, sequence->id(), mass); !status.ok()) return status;
    std::vector<double> attention(length(), 0);
    double all = 0;
    for (const auto& layer : mass) {
      for (const std::vector<float>& lane : layer) {
        for (std::size_t i = 0; i < lane.size(); ++i) {
          all += lane[i];
          if (i < length()) attention[i] += lane[i];
        }
      }
    }
    if (all <= 0) return {};
    out_.first_mass = attention[0] / all;
    for (std::size_t i = 1; i < length(); ++i) {
      out_.mass[index(labels_.role[i])] += attention[i] / all;
    }
    out_.low_values = low_values(attention);
    return {};
  }

  double low_values(const std::vector<double>& attention) const {
    std::vector<std::size_t> order(length());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return attention[i]; });
    order.resize(length() / 4);
    const auto low = std::ranges::count_if(
        order, [&](std::size_t i) { return labels_.role[i] == Role::kValue; });
    return static_cast<double>(low) / std::max(1.0, out_.tokens[index(Role::kValue)]);
  }

  Status review(const std::string& spec, double keep) {
    const Result<Policy> policy = make_policy(spec);
    if (!policy.ok()) return policy.status();
    const Result<Held> sequence = read(policy->needs.watches() ? policy->needs : Needs{});
    if (!sequence.ok()) return sequence.status();
    const auto entries = std::max<long>(1, std::lround(keep * static_cast<double>(length())));
    const Result<ShrinkReport> cut =
        cache_.shrink(sequence->id(), *policy, static_cast<std::uint32_t>(entries));
    if (!cut.ok()) return cut.status();
    const Result<LanePositions> live = live_positions(cache_, sequence->id());
    if (!live.ok()) return live.status();
    RoleRetention found{.policy = spec, .keep = keep};
    double lanes = 0;
    for (const auto& layer : *live) {
      for (const std::vector<Position>& lane : layer) {
        if (lane.empty()) continue;  // of a window layer: nobody evicts it
        ++lanes;
        for (const Position p : lane) {
          if (p < length()) found.kept[index(labels_.role[p])] += 1;
        }
      }
    }
    for (double& kept : found.kept) kept /= std::max(1.0, lanes);
    out_.retention.push_back(std::move(found));
    return {};
  }

  Cache& cache_;
  const Input& input_;
  RoleDiagnosis& out_;
  Prompts prompts_;
  const Labels labels_;
};

// --- the log ---

std::optional<RoleDiagnosis> diagnosis_of(const Json& line) {
  try {
    const std::optional<Task> task = parse_task(line.at("task").get<std::string>());
    if (!task) return {};
    RoleDiagnosis found{.task = *task,
                        .seed = line.at("seed"),
                        .tokens = line.at("tokens").get<RoleShares>(),
                        .mass = line.at("mass").get<RoleShares>(),
                        .first_mass = line.at("first_mass"),
                        .low_values = line.at("low_values"),
                        .merged_keys = line.at("merged_keys")};
    for (const Json& one : line.at("retention")) {
      found.retention.push_back({.policy = one.at("policy"),
                                 .keep = one.at("keep"),
                                 .kept = one.at("kept").get<RoleShares>()});
    }
    return found;
  } catch (const Json::exception&) {
    return {};
  }
}

Result<Log> open_log(const Json& header, const DiagnosisOptions& options) {
  Json own = header;
  own["log"] = "eval roles, diagnosis";
  own["diagnosis"] = {{"policies", options.policies}, {"keeps", options.keeps}};
  return Log::open(options.log_path, own);
}

Result<std::unique_ptr<Cache>> open_cache(const CacheOptions& like, const InputSizes& sizes) {
  CacheOptions options = like;
  options.max_rows = kChunk;
  // A reading for each kind of needs, one on its way, and what a review adds.
  options.budget_bytes =
      engine::kv_bytes(options, sizes.document + sizes.after + kChunk, kChunk) * 6 +
      (std::size_t{64} << 20);
  return Cache::open(options);
}

}  // namespace

Json to_json(const RoleDiagnosis& diagnosis) {
  Json retention = Json::array();
  for (const RoleRetention& one : diagnosis.retention) {
    retention.push_back({{"policy", one.policy}, {"keep", one.keep}, {"kept", one.kept}});
  }
  return {{"task", name_of(diagnosis.task)},      {"seed", diagnosis.seed},
          {"tokens", diagnosis.tokens},           {"mass", diagnosis.mass},
          {"first_mass", diagnosis.first_mass},   {"low_values", diagnosis.low_values},
          {"merged_keys", diagnosis.merged_keys}, {"retention", retention}};
}

Result<std::vector<RoleDiagnosis>> diagnose_roles(model::Model& model, const CacheOptions& like,
                                                  const InputMaker& maker, const Json& header,
                                                  const DiagnosisOptions& options) {
  Result<Log> log = open_log(header, options);
  if (!log.ok()) return log.status();
  std::vector<RoleDiagnosis> all;
  for (std::size_t i = 0; i < log->finished().size(); ++i) {
    std::optional<RoleDiagnosis> found = diagnosis_of(log->finished()[i]);
    if (!found) {
      return Status(Code::kCorrupt, options.log_path + ":" + std::to_string(i + 2) +
                                        ": no diagnosis; name another log, or remove the line");
    }
    all.push_back(*std::move(found));
  }
  const Result<std::unique_ptr<Cache>> cache =
      open_cache(like, sizes_of(maker, options.tasks, options.seeds));
  if (!cache.ok()) return cache.status();
  if (Status status = model.attach(**cache); !status.ok()) return status;
  std::vector<std::pair<Task, std::uint32_t>> open;
  for (const Task task : options.tasks) {
    for (std::uint32_t seed = 0; seed < maker.count(task, options.seeds); ++seed) {
      const bool known = std::ranges::any_of(
          all, [&](const RoleDiagnosis& one) { return one.task == task && one.seed == seed; });
      if (!known) open.emplace_back(task, seed);
    }
  }
  for (std::size_t i = 0; i < open.size(); ++i) {
    if (options.cancel != nullptr && options.cancel->load()) {
      return Status(Code::kCancelled, "cancelled");
    }
    const auto [task, seed] = open[i];
    if (options.on_progress) {
      options.on_progress(static_cast<double>(i) / static_cast<double>(open.size()),
                          std::string(name_of(task)) + " " + std::to_string(seed) + ": roles");
    }
    RoleDiagnosis found{.task = task, .seed = seed};
    const Input input = maker.make(task, seed);
    if (Status status = Diagnosing(model, **cache, input, found).run(options); !status.ok()) {
      return status;
    }
    if (Status status = log->append(to_json(found)); !status.ok()) return status;
    all.push_back(std::move(found));
  }
  return all;
}

}  // namespace quire::eval
