// `quire eval paged-eviction`: whole-block eviction by |v| / |k| (PagedEviction, arXiv 2509.04377)
// beside what it is compared with, at equal entries: quality, decode speed, and requests through a
// pool where the full cache must queue.
//
// The sign test, written down before any run.  The paper keeps tokens of a large |v| / |k|; an
// unattributed program in circulation computes the inverse.  Statistic: nats of NLL on prose by
// which |v| / |k| is better than |k| / |v|, and than random blocks, in the same machinery
// (score=k_over_v, score=random): per document the mean over all budgets and block sizes, the
// interval over documents (95 %, bootstrap).  The published sign holds if both intervals lie above
// 0; it is refuted if the first lies below 0; else the documents do not decide.  Needles and
// lookups (log-probability of the answer) are reported beside it and decide nothing.  If it does
// not hold, the score of the lowest NLL is named.  Added after a first trial of two documents,
// which was against the published sign: KL to the full cache, which decides nothing, either.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "eval/capacity.h"
#include "eval/contrast.h"
#include "eval/decode_rate.h"
#include "eval/policies_eval.h"

namespace quire::eval {

constexpr const char* kPublished = "paged-eviction";
constexpr const char* kInverse = "paged-eviction:score=k_over_v";
constexpr const char* kRandomBlocks = "paged-eviction:score=random";

struct PagedOptions {
  PoliciesOptions quality;            // its policies, keeps and blocks are set by arrange()
  std::vector<std::uint32_t> keeps;   // entries a lane; those below the document's tokens count
  std::vector<std::uint32_t> blocks;  // tokens of a block
  bool every_score = false;           // all forms of the score, not only those of the sign test
  RateOptions rates;                  // likewise set
  CapacityOptions capacity;           // of blocks of 16
};

struct PagedReport {
  PoliciesReport quality;
  std::vector<RateCell> rates;
  CapacityReport capacity;
  std::vector<Check> checks;  // the machinery's and the sign test's
};

// Fills the policies, keeps, blocks and logs of the parts.  kInvalidArgument: no keep is below the
// document's tokens.
Status arrange(PagedOptions& options);

// `options` as arrange() left them.  What the logs have is not measured again.  The model is left
// without a cache.
Result<PagedReport> evaluate_paged(model::Model& model, const CacheOptions& like,
                                   const PagedOptions& options);

// {quire_json: 1, model, options, cells, contrasts, rates, capacity, checks}
Json json_of(const PagedReport& report);
std::string table_of(const PagedReport& report);
// A line per cell and measure of the quality, then of the speed.
std::string csv_of(const PagedReport& report);
// paged-eviction.md, paged-eviction.csv and plots/paged-*.svg.
Status write_report(const PagedReport& report, const std::string& directory);

}  // namespace quire::eval
