// quire eval paged-eviction: flags, progress, and where the results go.

#include <iterator>
#include <memory>
#include <string>

#include "cli/cli.h"
#include "cli/eval_commands.h"
#include "cli/eval_flags.h"
#include "eval/paged_eval.h"

namespace quire::cli {
namespace {

struct PagedFlags : InputFlags {
  std::uint32_t seeds = 3, tokens = 4608;
  bool quick = false, full = false;
};

void add_paged_flags(CLI::App& app, PagedFlags& flags) {
  add_model_flag(app, flags.engine)->required();
  add_number(app, "--seeds", flags.seeds, 1u, 10000u, "Documents of each task");
  add_number(app, "--tokens", flags.tokens, 512u, 1u << 20, "Tokens of a document");
  add_text_flag(app, flags);
  app.add_flag("--quick", flags.quick,
               "2 documents of 768 tokens, one budget, blocks of 16: under a minute, small model");
  app.add_flag("--full", flags.full,
               "Every form of the score, five budgets, longer continuations, more rounds");
  add_number(app, "-t,--threads", flags.engine.threads, 0u, 256u,
             "Threads; 0: the machine's cores");
  add_result_flags(app, flags,
                   "Results of finished inputs, and of speed in LOG.jsonl.rates; given again, they "
                   "are not\nmeasured again",
                   "Also a line per cell and measure");
}

// --quick stands for numbers that were not given.
void settle(const CLI::App& app, PagedFlags& flags) {
  if (!flags.quick) return;
  if (app.count("--seeds") == 0) flags.seeds = 2;
  if (app.count("--tokens") == 0) flags.tokens = 768;
}

eval::PagedOptions sizes_of(const PagedFlags& flags) {
  eval::PagedOptions options{.keeps = {256, 1024, 4096}, .blocks = {8, 16, 32}};
  options.quality.tasks.assign(std::begin(eval::kBasicTasks), std::end(eval::kBasicTasks));
  options.quality.inputs.questions = 4;
  options.capacity.answer = 128;
  options.capacity.requests = 8;
  options.capacity.pools = {0.35};
  if (flags.quick) {
    options.keeps = {256};
    options.blocks = {16};
    options.quality.inputs.continuation = 64;
    options.rates.rounds = 1;
    options.capacity.prompt = options.capacity.answer = 128;
    options.capacity.requests = 4;
    options.capacity.pools = {0.5};
  }
  if (flags.full) {
    options.keeps = {256, 512, 1024, 2048, 4096};
    options.every_score = true;
    options.quality.inputs.continuation = 256;
    options.rates.rounds = 5;
    options.capacity.requests = 16;
    options.capacity.seeds = 3;
  }
  options.quality.seeds = flags.seeds;
  options.quality.inputs.tokens = flags.tokens;
  return options;
}

Result<eval::PagedOptions> options_of(const PagedFlags& flags) {
  eval::PagedOptions options = sizes_of(flags);
  if (Status status = apply(flags, options.quality); !status.ok()) return status;
  options.capacity.text = options.quality.text;
  if (Status status = eval::arrange(options); !status.ok()) return status;
  return options;
}

// One bar over the parts, of which the quality takes most of the time.
void connect(eval::PagedOptions& options, ProgressLine& progress, const std::atomic<bool>* cancel) {
  options.quality.cancel = options.rates.cancel = options.capacity.cancel = cancel;
  const auto part = [&progress](double from, double to) {
    return [&progress, from, to](double share, const std::string& doing) {
      progress.show(from + (to - from) * share, doing);
    };
  };
  options.quality.on_progress = part(0, 0.7);
  options.rates.on_progress = part(0.7, 0.85);
  options.capacity.on_progress = part(0.85, 1);
}

int failed(const PagedFlags& flags, const Status& status) {
  const bool resumes = status.code() == Code::kCancelled && !flags.log.empty();
  return eval_failed(status, flags.json,
                     resumes ? "; the same command goes on after what was finished" : "");
}

int eval_paged(const PagedFlags& flags) {
  if (flags.quick && flags.full) {
    complain("--quick, --full: one of them");
    return kExitUsage;
  }
  return run_eval(flags, options_of(flags), connect, eval::evaluate_paged,
                  [&](const Status& status) { return failed(flags, status); });
}

}  // namespace

Command add_eval_paged(CLI::App& app) {
  auto flags = std::make_shared<PagedFlags>();
  add_paged_flags(app, *flags);
  return [flags, &app] {
    settle(app, *flags);
    return eval_paged(*flags);
  };
}

}  // namespace quire::cli
