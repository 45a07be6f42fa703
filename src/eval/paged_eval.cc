#include "eval/paged_eval.h"

#include <algorithm>
#include <utility>

namespace quire::eval {
namespace {

std::string spec(const char* option, const char* value) {
  return std::string(kPublished) + ":" + option + "=" + value;
}

std::vector<std::string> quality_policies(bool every_score) {
  std::vector<std::string> policies = {
      "knorm",  "keydiff",    kPublished, spec("scope", "layer"), spec("scope", "sequence"),
      kInverse, kRandomBlocks};
  if (!every_score) return policies;
  for (const char* score : {"inv_k", "v", "k_plus_v", "knorm_high", "keydiff"}) {
    policies.push_back(spec("score", score));
  }
  return policies;
}

// The score of the lowest NLL on prose, over all its cells; another choice of documents may name
// another.
std::string winner(const std::vector<InputResult>& results) {
  std::string best = kPublished;
  if (results.empty()) return best;
  double most = 0;
  for (const ArmResult& arm : results[0].arms) {  // every input has the same
    const std::string& policy = arm.arm.policy;
    if (!policy.starts_with(kPublished) || policy.find("scope=") != std::string::npos) continue;
    const double better = contrast(results, policy, kPublished, {}).value;
    if (better <= most) continue;
    most = better;
    best = policy;
  }
  return best;
}

std::string nats(const Estimate& estimate) {
  return with_interval(estimate) + " nats over " + std::to_string(estimate.clusters) + " documents";
}

Check sign_check(const std::vector<InputResult>& results) {
  const Estimate inverse = contrast(results, kPublished, kInverse, {});
  const Estimate random = contrast(results, kPublished, kRandomBlocks, {});
  Check check{.name = "sign test: |v| / |k| is better than |k| / |v| and than random blocks, prose",
              .threshold = "both intervals above 0 (NLL, all budgets and block sizes)",
              .found = nats(inverse) + " over the inverse, " + with_interval(random) +
                       " over random blocks",
              .pass = sign_of(inverse) > 0 && sign_of(random) > 0};
  if (check.pass) return check;
  check.found += sign_of(inverse) < 0 ? ": refuted" : ": not shown";
  check.found += "; lowest NLL: " + winner(results);
  return check;
}

}  // namespace

Status arrange(PagedOptions& options) {
  const std::uint32_t tokens = options.quality.inputs.tokens;
  options.quality.keeps.clear();
  options.rates.keeps.clear();
  for (const std::uint32_t keep : options.keeps) {
    if (keep >= tokens) continue;
    options.quality.keeps.push_back(static_cast<double>(keep) / tokens);
    options.rates.keeps.push_back(keep);
  }
  if (options.rates.keeps.empty()) {
    return {Code::kInvalidArgument,
            "keep: no budget is below the " + std::to_string(tokens) + " tokens of a document"};
  }
  options.quality.policies = quality_policies(options.every_score);
  options.quality.blocks = options.rates.blocks = options.blocks;
  options.quality.aware = false;  // no score here looks at a question
  options.quality.oracle = false;
  options.quality.equal = Equal::kBlocks;
  options.rates.policies = {"sink-recency", "random", "knorm", "keydiff", kPublished};
  options.rates.depth = tokens;
  if (!options.quality.log_path.empty()) {
    options.rates.log_path = options.quality.log_path + ".rates";
  }
  options.capacity.policies = options.rates.policies;
  return {};
}

Result<PagedReport> evaluate_paged(model::Model& model, const CacheOptions& like,
                                   const PagedOptions& options) {
  Result<PoliciesReport> quality = evaluate_policies(model, like, options.quality);
  if (!quality.ok()) return quality.status();
  PagedReport report{.quality = *std::move(quality)};
  Result<std::vector<RateCell>> rates = measure_decode_rates(model, like, options.rates);
  if (!rates.ok()) return rates.status();
  report.rates = *std::move(rates);
  Result<CapacityReport> capacity = measure_capacity(model, like, options.capacity);
  if (!capacity.ok()) return capacity.status();
  report.capacity = *std::move(capacity);
  report.checks = report.quality.summary.checks;
  // There is no oracle among these arms.
  std::erase_if(report.checks, [](const Check& check) { return check.name == kOracleCheck; });
  report.checks.push_back(sign_check(report.quality.results));
  return report;
}

}  // namespace quire::eval
