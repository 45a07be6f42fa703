// quire bench serve: requests that arrive by a trace, served by the engine without HTTP.

#include <cstdio>
#include <memory>

#include "cli/bench_serve_report.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/report.h"
#include "cli/run_flags.h"
#include "cli/terminal.h"

namespace quire::cli {
namespace {

// Tokens that mean something in a text: no end, and every one has letters.
std::vector<model::Token> words_of(const model::Model& model) {
  std::vector<model::Token> words;
  for (std::uint32_t i = 0; i < model.info().vocabulary; ++i) {
    const auto token = static_cast<model::Token>(i);
    if (!model.is_end(token) && !model.piece(token).empty()) words.push_back(token);
  }
  return words;
}

Result<PromptMaker> prompts_of(const ServeFlags& flags, const model::Model& model) {
  std::vector<model::Token> words = words_of(model);
  if (words.empty()) return Status(Code::kUnsupported, "the model has no token with a text");
  std::vector<model::Token> text;
  if (!flags.text.empty()) {
    const Result<std::string> read = read_text(flags.text);
    if (!read.ok()) return read.status();
    text = model.tokenize(*read, false, false);
    if (text.empty()) return Status(Code::kInvalidArgument, flags.text + ": has no token");
  }
  return PromptMaker(std::move(words), std::move(text), flags.seed, flags.shared);
}

Result<engine::GenerateOptions> options_of(const ServeFlags& flags) {
  engine::GenerateOptions options;
  options.chunk = flags.engine.chunk;
  options.context = flags.engine.context;
  options.sampler.temperature = 0;
  if (Status status = set_policy(flags.policy, flags.keep, options); !status.ok()) return status;
  return options;
}

engine::EngineOptions loop_of(const ServeFlags& flags) {
  engine::EngineOptions options = loop_options(flags.loop);
  options.reserve_tokens = flags.reserve;
  return options;
}

Result<ServeReport> serve(const ServeFlags& flags) {
  Result<std::vector<Arrival>> trace = trace_of(flags);
  if (!trace.ok()) return trace.status();
  Result<engine::GenerateOptions> options = options_of(flags);
  if (!options.ok()) return options.status();
  Result<Engine> engine = open_engine(flags.engine);
  if (!engine.ok()) return engine.status();
  const Result<PromptMaker> prompts = prompts_of(flags, *engine->model);
  if (!prompts.ok()) return prompts.status();

  ProgressLine progress("serving");
  const Answering answering;
  const auto all = static_cast<double>(trace->size());
  const ServeRun run{.trace = *std::move(trace),
                     .concurrency = concurrency_of(flags),
                     .loop = loop_of(flags),
                     .options = *std::move(options),
                     .on_progress =
                         [&](std::size_t ended, std::size_t running) {
                           progress.show(static_cast<double>(ended) / all,
                                         std::to_string(running) + " running");
                         },
                     .cancel = answering.cancel()};
  Result<ServeRecord> record = serve_trace(*engine, *prompts, run);
  progress.clear();
  if (!record.ok()) return record.status();
  return report_of(*engine, flags, *std::move(record));
}

int failed(const ServeFlags& flags, const Status& status) {
  complain(status.message());
  if (flags.json) std::puts(dump(error_json(status)).c_str());
  return status.code() == Code::kCancelled ? kExitInterrupted : kExitFailed;
}

}  // namespace

Command add_bench_serve(CLI::App& app) {
  auto flags = std::make_shared<ServeFlags>();
  add_serve_flags(app, *flags);
  return [flags] {
    if (Status status = check(*flags); !status.ok()) {
      complain(status.message());
      return kExitUsage;
    }
    const Result<ServeReport> report = serve(*flags);
    if (!report.ok()) return failed(*flags, report.status());
    if (flags->json) {
      std::puts(dump(serve_json(*report)).c_str());
    } else {
      print_serve(*report);
    }
    if (!flags->report.empty()) {
      const Status status = write_serve(*report, flags->report);
      if (!status.ok()) return failed(*flags, status);
    }
    return kExitDone;
  };
}

}  // namespace quire::cli
