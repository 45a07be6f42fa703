#include "eval/vtoken_eval.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include "engine/budget.h"
#include "eval/block_oracle.h"

namespace quire::eval {
namespace {

using model::Token;

constexpr std::size_t kMi = std::size_t{1} << 20;
constexpr std::uint32_t kRows = 512;   // of a step
constexpr std::uint32_t kAnswer = 64;  // rows that policies of the answer's attention look at
constexpr std::uint32_t kFormulaBlocks = 200;  // of a lane
constexpr std::uint32_t kLogitPrompt = 448, kLogitTokens = 512, kLogitRows = 32;
constexpr std::uint32_t kHookPairs = 100;  // of steps

constexpr const char* kRandom = "random:sinks=0,recent=0";
constexpr const char* kRecency = "sink-recency:sinks=0,recent=0";
constexpr const char* kPaged = "paged-eviction";

struct ArmKind {
  const char* name;
  Reclaim reclaim;
};
constexpr ArmKind kArms[] = {
    {"never", Reclaim::kNever}, {"whole", Reclaim::kWhole}, {"repack", Reclaim::kRepack}};

// Setting of a row of cells.
struct Setting {
  const char* name;
  bool formula;
};
constexpr Setting kFormula{"formula", true}, kDefault{"default", false};

RepackOptions repack_of(const Setting& setting, std::uint32_t block_tokens) {
  RepackOptions options;
  options.watermark = 1;
  if (setting.formula) {
    options.waste = 0;
    options.fullness = 1 - 1 / static_cast<float>(block_tokens);
  }
  return options;
}

class Experiment {
 public:
  Experiment(model::Model& model, const CacheOptions& like, const VtokenOptions& options)
      : model_(model), like_(like), options_(options) {
    like_.max_rows = kRows;
    report_.model = model.info().name;
    tokens_ = model.tokenize(options.text, true, false);
  }

  Status run();
  VtokenReport report() && { return std::move(report_); }

 private:
  Status check() const;
  Result<std::vector<Trace>> recorded(std::uint32_t block_tokens, std::uint32_t length,
                                      const std::vector<std::string>& policies,
                                      const std::vector<double>& ratios, std::uint32_t multiple,
                                      const RecordOptions& how);
  Status sweep();
  Status formula();
  Status controls();
  Status logits();
  Status replay_all(const std::vector<Trace>& traces, const Setting& setting, bool control,
                    const std::vector<std::uint32_t>& blocks);
  Status replay_cell(const Trace& trace, const Setting& setting, bool control,
                     std::uint32_t block_tokens);
  std::vector<std::string> known(const std::vector<std::string>& policies);
  Status stage(double share, const std::string& doing);
  void summarise();

  model::Model& model_;
  CacheOptions like_;
  const VtokenOptions& options_;
  std::vector<Token> tokens_;
  VtokenReport report_;
  double from_ = 0, to_ = 1;  // of the progress, this stage
};

Status Experiment::stage(double share, const std::string& doing) {
  if (options_.cancel != nullptr && options_.cancel->load()) return {Code::kCancelled, "cancelled"};
  if (options_.on_progress) options_.on_progress(from_ + (to_ - from_) * share, doing);
  return {};
}

std::vector<std::string> Experiment::known(const std::vector<std::string>& policies) {
  std::vector<std::string> found;
  for (const std::string& policy : policies) {
    if (make_policy(policy).ok()) {
      found.push_back(policy);
    } else if (std::ranges::find(report_.left_out, policy) == report_.left_out.end()) {
      report_.left_out.push_back(policy);
    }
  }
  return found;
}

Status Experiment::check() const {
  for (const LayerShape& layer : like_.layers) {
    if (layer.window != 0) {
      return {Code::kUnsupported,
              "eval vtoken: this model has layers with a window, whose entries "
              "no policy evicts; take one without"};
    }
  }
  const std::uint32_t most = std::max({options_.tokens, options_.control_tokens, kLogitTokens});
  if (tokens_.size() < most) {
    return {Code::kInvalidArgument, "the text has " + std::to_string(tokens_.size()) + " tokens, " +
                                        std::to_string(most) + " are read"};
  }
  if (model_.info().context < most) {
    return {Code::kInvalidArgument, "the model's context is " +
                                        std::to_string(model_.info().context) + " tokens, " +
                                        std::to_string(most) + " are read"};
  }
  return {};
}

// A cache for the time of one recording.
Result<std::vector<Trace>> Experiment::recorded(std::uint32_t block_tokens, std::uint32_t length,
                                                const std::vector<std::string>& policies,
                                                const std::vector<double>& ratios,
                                                std::uint32_t multiple, const RecordOptions& how) {
  CacheOptions options = like_;
  options.block_tokens = block_tokens;
  const std::size_t runs = how.cadence == 0 ? 2 : policies.size() * ratios.size() + 1;
  options.budget_bytes = engine::kv_bytes(options, length, kRows) * (runs + 1) * 5 / 4 + 32 * kMi;
  const Result<std::unique_ptr<Cache>> cache = Cache::open(options);
  if (!cache.ok()) return cache.status();
  if (Status status = model_.attach(**cache); !status.ok()) return status;
  return record(model_, **cache, std::span(tokens_).first(length), policies, ratios, multiple, how);
}

Status Experiment::replay_cell(const Trace& trace, const Setting& setting, bool control,
                               std::uint32_t block_tokens) {
  std::uint64_t whole = 0;
  for (const ArmKind& arm : kArms) {
    CacheOptions options = like_;
    options.block_tokens = block_tokens;
    options.reclaim = arm.reclaim;
    options.repack = repack_of(setting, block_tokens);
    const Result<Replayed> replayed = replay(trace, options);
    if (!replayed.ok()) return replayed.status();
    const OracleBlocks oracle =
        oracle_blocks(replayed->live, trace.length, block_tokens, options.repack);
    std::uint64_t lanes = 0, entries = 0;
    for (const auto& layer : replayed->live) {
      lanes += layer.size();
      for (const auto& lane : layer) entries += lane.size();
    }
    VtokenCell cell{.model = report_.model,
                    .policy = trace.policy,
                    .setting = setting.name,
                    .arm = arm.name,
                    .ratio = trace.ratio,
                    .block_tokens = block_tokens,
                    .tokens = trace.length,
                    .kept_mean = static_cast<double>(entries) / static_cast<double>(lanes),
                    .blocks = replayed->blocks,
                    .blocks_peak = replayed->blocks_peak,
                    .control = control && arm.reclaim == Reclaim::kRepack,
                    .waste = replayed->waste,
                    .moves = replayed->moves};
    switch (arm.reclaim) {
      case Reclaim::kNever:
        cell.oracle_blocks = oracle.never;
        break;
      case Reclaim::kWhole:
        cell.oracle_blocks = oracle.whole;
        whole = cell.blocks;
        break;
      case Reclaim::kRepack:
        cell.oracle_blocks = oracle.repack;
        cell.saving = 1 - static_cast<double>(cell.blocks) / static_cast<double>(whole);
        if (setting.formula && trace.policy == kRandom) {
          const double e = trace.ratio;
          cell.expected_saving = 1 - (1 - e) / (1 - std::pow(e, block_tokens));
        }
        break;
    }
    report_.cells.push_back(std::move(cell));
  }
  return {};
}

Status Experiment::replay_all(const std::vector<Trace>& traces, const Setting& setting,
                              bool control, const std::vector<std::uint32_t>& blocks) {
  std::size_t done = 0;
  for (const Trace& trace : traces) {
    for (const std::uint32_t block : blocks) {
      const double share =
          static_cast<double>(done++) / static_cast<double>(traces.size() * blocks.size());
      if (Status status = stage(share, "replay of " + trace.policy); !status.ok()) return status;
      if (Status status = replay_cell(trace, setting, control, block); !status.ok()) return status;
    }
    if (options_.keep_victims) report_.victims.push_back(trace);
  }
  return {};
}

// Policies with their protection, thresholds of the cache.
Status Experiment::sweep() {
  if (Status status = stage(0, "victims of the policies"); !status.ok()) return status;
  const Result<std::vector<Trace>> traces =
      recorded(16, options_.tokens, known({"h2o", "random", "scissorhands", "sink-recency"}),
               options_.ratios, 1, {.prompt = options_.tokens - kAnswer});
  if (!traces.ok()) return traces.status();
  return replay_all(*traces, kDefault, false, options_.blocks);
}

// What arithmetic says of random holes, and of the newest entries alone.
Status Experiment::formula() {
  if (Status status = stage(0, "victims without protection"); !status.ok()) return status;
  // Lanes of at least kFormulaBlocks, as a repack rounds up to a whole block.
  for (const std::uint32_t block : options_.blocks) {
    std::vector<Trace> random;
    for (const double ratio : options_.ratios) {
      CacheOptions options = like_;
      options.block_tokens = block;
      Result<Trace> trace =
          record_unread(options, std::max(options_.tokens, kFormulaBlocks * block), kRandom, ratio);
      if (!trace.ok()) return trace.status();
      random.push_back(*std::move(trace));
    }
    if (Status status = replay_all(random, kFormula, false, {block}); !status.ok()) return status;
  }
  const RecordOptions how{.prompt = options_.tokens - kAnswer};
  // The newest entries, to a whole block of every size: one hole, of whole blocks.
  const Result<std::vector<Trace>> recency =
      recorded(16, options_.tokens, {kRecency}, options_.ratios, 64, how);
  if (!recency.ok()) return recency.status();
  return replay_all(*recency, kFormula, true, options_.blocks);
}

// PagedEviction gives up whole blocks of an answer, so its holes are measured on sequences that are
// answer from their first block on.
Status Experiment::controls() {
  if (known({kPaged}).empty()) return {};
  for (const std::uint32_t block : options_.control_blocks) {
    if (Status status = stage(0, "victims of whole blocks"); !status.ok()) return status;
    const Result<std::vector<Trace>> traces =
        recorded(block, options_.control_tokens, {kPaged}, options_.control_ratios, block,
                 {.prompt = block, .cadence = block});
    if (!traces.ok()) return traces.status();
    if (Status status = replay_all(*traces, kFormula, true, {block}); !status.ok()) return status;
  }
  return {};
}

Status Experiment::logits() {
  if (Status status = stage(0, "logits of the three arms"); !status.ok()) return status;
  const Result<std::vector<Trace>> traces = recorded(16, kLogitTokens, {"h2o", "random"}, {0.5}, 1,
                                                     {.prompt = kLogitPrompt, .cadence = 16});
  if (!traces.ok()) return traces.status();
  for (Trace trace : *traces) {
    // Rows must follow the last repack: its review is moved to where the last rows begin.
    std::erase_if(trace.reviews,
                  [](const Review& review) { return review.length > kLogitTokens - kLogitRows; });
    std::vector<float> bits[std::size(kArms)];
    for (std::size_t a = 0; a < std::size(kArms); ++a) {
      if (Status status = stage(static_cast<double>(a) / std::size(kArms), "logits of the arms");
          !status.ok()) {
        return status;
      }
      CacheOptions options = like_;
      options.reclaim = kArms[a].reclaim;
      options.repack = repack_of(kFormula, options.block_tokens);
      Result<std::vector<float>> rows =
          replay_logits(model_, options, std::span(tokens_).first(kLogitTokens), trace, kLogitRows);
      if (!rows.ok()) return rows.status();
      bits[a] = *std::move(rows);
    }
    CacheOptions options = like_;
    options.repack = repack_of(kFormula, options.block_tokens);
    const Result<Replayed> moved = replay(trace, options);
    if (!moved.ok()) return moved.status();
    const auto same = [&](const std::vector<float>& other) {
      return other.size() == bits[0].size() &&
             std::memcmp(other.data(), bits[0].data(), other.size() * sizeof(float)) == 0;
    };
    report_.logits.push_back({.model = report_.model,
                              .policy = trace.policy,
                              .rows = kLogitRows,
                              .reviews = static_cast<std::uint32_t>(trace.reviews.size()),
                              .moved_entries = moved->moves.entries,
                              .bit_equal = same(bits[1]) && same(bits[2])});
  }
  return {};
}

void Experiment::summarise() {
  for (const VtokenCell& cell : report_.cells) {
    if (cell.blocks != cell.oracle_blocks) ++report_.oracle_mismatches;
    if (cell.expected_saving) {
      report_.random_saving_error_points = std::max(
          report_.random_saving_error_points, std::fabs(cell.saving - *cell.expected_saving) * 100);
    }
    if (cell.control) report_.control_saving = std::max(report_.control_saving, cell.saving);
  }
}

Status Experiment::run() {
  if (Status status = check(); !status.ok()) return status;
  const std::pair<double, Status (Experiment::*)()> stages[] = {{0.45, &Experiment::sweep},
                                                                {0.7, &Experiment::formula},
                                                                {0.85, &Experiment::controls},
                                                                {0.95, &Experiment::logits}};
  for (const auto& [to, work] : stages) {
    to_ = to;
    if (Status status = (this->*work)(); !status.ok()) return status;
    from_ = to;
  }
  summarise();
  to_ = 1;
  if (Status status = stage(0, "cost of the hooks"); !status.ok()) return status;
  if (!options_.hook_cost) return {};
  CacheOptions options = like_;
  options.repack = {};
  const Result<HookCost> cost =
      idle_hook_cost(model_, options, std::span(tokens_).first(kLogitTokens), kHookPairs);
  if (!cost.ok()) return cost.status();
  report_.hooks = *cost;
  return {};
}

}  // namespace

Result<VtokenReport> evaluate_vtoken(model::Model& model, const CacheOptions& like,
                                     const VtokenOptions& options) {
  Experiment experiment(model, like, options);
  if (Status status = experiment.run(); !status.ok()) return status;
  return std::move(experiment).report();
}

void merge(VtokenReport& report, VtokenReport other) {
  std::ranges::move(other.cells, std::back_inserter(report.cells));
  std::ranges::move(other.logits, std::back_inserter(report.logits));
  std::ranges::move(other.victims, std::back_inserter(report.victims));
  report.oracle_mismatches += other.oracle_mismatches;
  const auto worse = [](double& of, double found) { of = std::max(of, found); };
  worse(report.random_saving_error_points, other.random_saving_error_points);
  worse(report.control_saving, other.control_saving);
}

std::vector<std::string> models_of(const VtokenReport& report) {
  std::vector<std::string> models;
  for (const VtokenCell& cell : report.cells) {
    if (std::ranges::find(models, cell.model) == models.end()) models.push_back(cell.model);
  }
  return models;
}

}  // namespace quire::eval
