// `quire eval vtoken`: what repacking frees, against an independent count of blocks (vToken, arXiv
// 2608.13263).
//
// Victims are recorded on the real model, once; each way to reclaim memory then replays them:
//   never    no block comes back before the end
//   whole    a block comes back when all its entries are dead: the honest baseline
//   repack   survivors of sparse blocks move together
// Settings: `formula` rows have no protected entries and repack as far as it goes (waste 0,
// fullness 1 - 1/block, watermark 1), so that random holes have a known answer; `default` rows have
// the cache's thresholds and the policies' protection (watermark 1, because the pool is ample).
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "eval/capacity.h"
#include "eval/hook_cost.h"
#include "eval/inputs.h"
#include "eval/log.h"
#include "eval/peer_capacity.h"
#include "eval/replay.h"

namespace quire::eval {

// Thresholds, fixed before any run.
constexpr std::uint64_t kMismatchesMost = 0;    // cells whose blocks are not the oracle's
constexpr double kSavingErrorPointsMost = 1.0;  // random, formula: from 1 - (1 - e) / (1 - e^B)
constexpr double kControlSavingMost = 0.01;     // holes of whole blocks leave nothing to repack
constexpr double kIdleOverheadMost = 0.01;      // of a step, where memory is ample

struct VtokenOptions {
  std::string text;
  std::uint32_t tokens =
      2048;  // of a sequence; a multiple of 64, so that no block is still filling
  std::vector<double> ratios = {0.3, 0.5, 0.7, 0.9};
  std::vector<std::uint32_t> blocks = {8, 16, 32, 64};
  std::uint32_t control_tokens = 2048;  // of the sequences decoded from their first block
  std::vector<double> control_ratios = {0.3, 0.5, 0.7, 0.9};
  std::vector<std::uint32_t> control_blocks = {8, 16, 32, 64};
  bool keep_victims = false;
  bool hook_cost = true;  // also the cost of the hooks where memory is ample
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(double share, const std::string& doing)> on_progress{};
};

struct VtokenCell {
  std::string model, policy, setting, arm;  // setting: formula, default
  double ratio = 0;                         // asked; kept is what was found
  std::uint32_t block_tokens = 0, tokens = 0;
  double kept_mean = 0;  // entries a lane
  std::uint64_t blocks = 0, oracle_blocks = 0, blocks_peak = 0;
  double saving = 0;                        // over `whole`, of the same victims
  std::optional<double> expected_saving{};  // formula, random, repack
  bool control = false;                     // holes are whole blocks: the saving should be 0
  double waste = 0;                         // what is left of it
  MovesReport moves{};
};

// The bits of a continuation whose cache was repacked, against those of `never` and `whole`.
struct VtokenLogits {
  std::string model, policy;
  std::uint32_t rows = 0, reviews = 0;
  std::uint64_t moved_entries = 0;
  bool bit_equal = false;
};

struct VtokenReport {
  std::string model;  // the first, whose hooks and requests were timed
  std::vector<VtokenCell> cells;
  std::vector<VtokenLogits> logits;
  std::uint64_t oracle_mismatches = 0;
  double random_saving_error_points = 0, control_saving = 0;
  std::optional<HookCost> hooks{};  // of the first model
  std::optional<CapacityReport> capacity{};
  std::optional<PeerCapacity> peer{};  // not without capacity
  std::vector<std::string> left_out;   // policies this build does not have
  std::vector<Trace> victims;          // with keep_victims
};

// `like`: shape and element types of the cache.  The model is left without a cache.
// kUnsupported: a model with window layers, whose lanes nobody evicts.
Result<VtokenReport> evaluate_vtoken(model::Model& model, const CacheOptions& like,
                                     const VtokenOptions& options);

// Adds the cells of another model, and what is worst of both.
void merge(VtokenReport& report, VtokenReport other);
// The models of the cells, in their order.
std::vector<std::string> models_of(const VtokenReport& report);

// {quire_json: 1, cells, logits, summary: {oracle_mismatches, random_saving_error_points, ...}}
Json json_of(const VtokenReport& report);
std::string table_of(const VtokenReport& report);
// vtoken.md, vtoken.csv and plots/vtoken-*.svg; the plots of the second model have a 2 in their
// names.
Status write_report(const VtokenReport& report, const std::string& directory);

}  // namespace quire::eval
