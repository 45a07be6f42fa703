// quire eval vtoken: flags, progress, and where the results go.

#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/cli.h"
#include "cli/eval_commands.h"
#include "cli/eval_texts.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/open_engine.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "eval/policies_report.h"
#include "eval/vtoken_eval.h"

namespace quire::cli {
namespace {

struct VtokenFlags {
  EngineFlags engine;
  std::string text, report, victims;
  bool quick = false, full = false, json = false;
};

eval::VtokenOptions options_of(const VtokenFlags& flags) {
  eval::VtokenOptions options;
  options.keep_victims = !flags.victims.empty();
  if (flags.quick) {
    options.control_tokens = 1024;
    options.control_ratios = {0.5};
    options.control_blocks = {16, 32};
  } else if (flags.full) {
    options.tokens = options.control_tokens = 4096;
    options.ratios = {0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9};
  }
  return options;
}

eval::CapacityOptions capacity_of(const VtokenFlags& flags) {
  eval::CapacityOptions options;
  if (flags.quick) {
    options.prompt = options.answer = 192;
    options.requests = 6;
    options.pools = {0.5};
    options.policies = {"random"};
  }
  if (flags.full) options.seeds = 5;
  return options;
}

int failed(const VtokenFlags& flags, const Status& status) {
  complain(status.message());
  if (flags.json) std::puts(dump(error_json(status)).c_str());
  return status.code() == Code::kCancelled ? kExitInterrupted : kExitFailed;
}

Result<eval::VtokenReport> evaluated(const VtokenFlags& flags) {
  const Result<EvalText> text = read_eval_text(flags.text);
  if (!text.ok()) return text.status();
  EngineFlags engine_flags = flags.engine;
  engine_flags.deterministic = true;
  engine_flags.budget = "64MiB";  // of a cache that nobody fills: the evaluation opens its own
  const Result<Engine> engine = open_engine(engine_flags);
  if (!engine.ok()) return engine.status();
  ProgressLine progress("eval");
  Answering answering;
  eval::VtokenOptions options = options_of(flags);
  options.text = text->text;
  options.cancel = answering.cancel();
  options.on_progress = [&](double share, const std::string& doing) {
    progress.show(share, doing);
  };
  const CacheOptions like = engine->cache->options();
  Result<eval::VtokenReport> report = eval::evaluate_vtoken(*engine->model, like, options);
  if (!report.ok()) return report;
  eval::CapacityOptions capacity = capacity_of(flags);
  capacity.text = text->text;
  capacity.cancel = answering.cancel();
  capacity.on_progress = options.on_progress;
  Result<eval::CapacityReport> served = eval::measure_capacity(*engine->model, like, capacity);
  if (!served.ok()) return served.status();
  report->capacity = *std::move(served);
  return report;
}

int eval_vtoken(const VtokenFlags& flags) {
  if (flags.quick && flags.full) {
    complain("--quick, --full: one of them");
    return kExitUsage;
  }
  const Result<eval::VtokenReport> report = evaluated(flags);
  if (!report.ok()) return failed(flags, report.status());
  if (!flags.victims.empty()) {
    const Status status = eval::write_file(flags.victims, eval::victims_text(report->victims));
    if (!status.ok()) return failed(flags, status);
  }
  if (!flags.report.empty()) {
    if (Status status = eval::write_report(*report, flags.report); !status.ok()) {
      return failed(flags, status);
    }
  }
  if (flags.json) {
    std::puts(dump(eval::json_of(*report)).c_str());
  } else {
    std::fputs(eval::table_of(*report).c_str(), stdout);
  }
  return kExitDone;
}

}  // namespace

Command add_eval_vtoken(CLI::App& app) {
  auto flags = std::make_shared<VtokenFlags>();
  add_model_flag(app, flags->engine)->required();
  app.add_flag("--quick", flags->quick, "Short controls: under 50 s with a small model");
  app.add_flag("--full", flags->full,
               "Sequences of 4,096 tokens, more ratios, five seeds of requests together");
  app.add_option("--text", flags->text, "Prose to read (default: openings of two novels)")
      ->type_name("FILE");
  app.add_option(
         "--victims", flags->victims,
         "Also write what was evicted: {policy, ratio, step, layer, head, positions} a line")
      ->type_name("FILE.jsonl");
  add_number(app, "-t,--threads", flags->engine.threads, 0u, 256u,
             "Threads; 0: the machine's cores");
  app.add_flag("--json", flags->json, "One JSON object instead of a table");
  app.add_option("--report", flags->report, "Also a page with plots")->type_name("DIR");
  return [flags] { return eval_vtoken(*flags); };
}

}  // namespace quire::cli
