// quire bench: speed of this model on this machine, alone or against a peer.

#include <chrono>
#include <cstdio>
#include <memory>

#include "cli/bench_arm.h"
#include "cli/bench_check.h"
#include "cli/bench_flags.h"
#include "cli/bench_limits.h"
#include "cli/bench_measure.h"
#include "cli/bench_report.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "cli/terminal.h"

namespace quire::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kPairs = 7, kQuickPairs = 3;
// --quick: after the first no row is begun, after the second no pair.
constexpr std::chrono::seconds kQuickRows{20}, kQuickPairsEnd{30};

int failed(const BenchFlags& flags, const Status& status) {
  complain(status.message());
  if (flags.json) std::puts(dump(error_json(status)).c_str());
  return status.code() == Code::kCancelled ? kExitInterrupted : kExitFailed;
}

// Moves default rows that are longer than the model's context to `left_out`; other such rows are
// refused.
Status fit_context(const BenchFlags& flags, std::uint32_t context, std::vector<BenchRow>& rows,
                   std::vector<std::string>& left_out) {
  std::vector<BenchRow> fit;
  for (const BenchRow& row : rows) {
    if (row.depth + row.tokens <= context) {
      fit.push_back(row);
      continue;
    }
    const std::string why = row.name() + ": " + std::to_string(row.depth + row.tokens) +
                            " tokens are over the model's context of " + std::to_string(context);
    if (!default_rows(flags)) return {Code::kInvalidArgument, why};
    left_out.push_back(why);
  }
  rows = std::move(fit);
  if (rows.empty()) {
    return {Code::kInvalidArgument, "no row fits the model's context of " +
                                        std::to_string(context) + "; --tests names shorter ones"};
  }
  return {};
}

class Bench {
 public:
  explicit Bench(const BenchFlags& flags) : flags_(flags), progress_("bench") {}

  Status open();
  Status measure();
  const BenchReport& report() const { return report_; }

 private:
  Status open_peer();

  const BenchFlags& flags_;
  ProgressLine progress_;
  const Clock::time_point start_ = Clock::now();
  BenchOptions options_;
  Engine engine_;
  std::unique_ptr<Arm> ours_, peer_;
  BenchReport report_;
};

Status Bench::open() {
  options_ = {.engine = flags_.engine, .rows = bench_rows(flags_), .policy = flags_.policy};
  Result<Engine> engine = open_engine(flags_.engine);
  if (!engine.ok()) return engine.status();
  engine_ = *std::move(engine);
  const model::ModelInfo& info = engine_.model->info();
  if (Status status = fit_context(flags_, info.context, options_.rows, report_.left_out);
      !status.ok()) {
    return status;
  }
  Result<std::unique_ptr<Arm>> ours = quire_arm(engine_, options_);
  if (!ours.ok()) return ours.status();
  ours_ = *std::move(ours);
  ours_->pause();
  const Result<model::MatrixTraffic> matrices = model::matrix_traffic(flags_.engine.model);
  if (!matrices.ok()) return matrices.status();

  progress_.show(0, "what the machine can do");
  report_.limits = measure_limits(engine_.model->threads());
  report_.model = info;
  report_.cache = engine_.cache->options();
  report_.attention_isa = name_of(engine_.cache->isa());
  report_.chunk_isa = name_of(engine_.cache->chunk_isa());
  report_.policy = flags_.policy;
  report_.matrices = *matrices;
  report_.chunk = flags_.engine.chunk;
  const Status status = flags_.vs.empty() ? Status() : open_peer();
  progress_.clear();
  return status;
}

Status Bench::open_peer() {
  progress_.show(0, "libllama loads the model");
  Result<PeerArm> peer = llama_arm(*engine_.model, options_);
  if (!peer.ok()) return peer.status();
  peer_ = std::move(peer->arm);
  report_.peer_system_info = std::move(peer->system_info);
  progress_.show(0, "both continue a text");
  const Result<SameText> same =
      check_same_text(*ours_, *peer_, *engine_.model, flags_.engine.chunk);
  if (!same.ok()) return same.status();
  report_.same_text = *same;
  return {};
}

Status Bench::measure() {
  MeasureOptions how{.pairs = flags_.pairs};
  if (how.pairs == 0) how.pairs = flags_.quick ? kQuickPairs : kPairs;
  if (flags_.quick) {
    how.repeat = false;
    how.deadline = start_ + kQuickPairsEnd;
  }
  const double all = static_cast<double>(options_.rows.size());
  for (std::size_t i = 0; i < options_.rows.size(); ++i) {
    const BenchRow& row = options_.rows[i];
    if (flags_.quick && i > 0 && Clock::now() - start_ > kQuickRows) {
      report_.left_out.push_back(row.name() + ": the time of --quick is up");
      continue;
    }
    how.on_progress = [&](double share, const std::string& doing) {
      progress_.show((static_cast<double>(i) + share) / all, doing);
    };
    Result<RowResult> result = measure_row(row, *ours_, peer_.get(), how);
    progress_.clear();
    if (!result.ok())
      return {result.status().code(), row.name() + ": " + result.status().message()};
    report_.rows.push_back(*std::move(result));
    if (!flags_.json) print_bench_row(report_, report_.rows.back());
  }
  return {};
}

int bench(const BenchFlags& flags) {
  if (Status status = check(flags); !status.ok()) {
    complain(status.message());
    return kExitUsage;
  }
  Bench bench(flags);
  if (Status status = bench.open(); !status.ok()) return failed(flags, status);
  if (!flags.json) print_bench_head(bench.report());
  if (Status status = bench.measure(); !status.ok()) return failed(flags, status);
  if (flags.json) {
    std::puts(dump(bench_json(bench.report())).c_str());
  } else {
    print_bench_notes(bench.report());
  }
  return kExitDone;
}

}  // namespace

Command add_bench(CLI::App& app) {
  auto flags = std::make_shared<BenchFlags>();
  add_bench_flags(app, *flags);
  CLI::App* serve = app.add_subcommand(
      "serve", "Requests that arrive by a trace: latencies, goodput, concurrency, bytes");
  const Command run_serve = add_bench_serve(*serve);
  return [=] { return serve->parsed() ? run_serve() : bench(*flags); };
}

}  // namespace quire::cli
