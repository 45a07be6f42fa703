// quire train roles: a probe for a model's tokens, from texts made for it and from texts given.

#include <memory>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/eval_session.h"
#include "cli/eval_texts.h"
#include "cli/flags.h"
#include "cli/run_flags.h"
#include "cli/train_commands.h"
#include "eval/probe_eval.h"

namespace quire::cli {
namespace {

struct TrainFlags {
  EngineFlags engine;
  std::vector<std::string> data;
  std::string text, out;
  std::uint32_t prompts = 50, tokens = 8192, epochs = 20, seed = 1;
  float hidden = eval::ProbeOptions().hidden;
  bool no_transfer = false, json = false;
};

Result<eval::ProbeOptions> options_of(const TrainFlags& flags) {
  eval::ProbeOptions options{.prompts = flags.prompts,
                             .tokens = flags.tokens,
                             .epochs = flags.epochs,
                             .seed = flags.seed,
                             .hidden = flags.hidden,
                             .transfer = !flags.no_transfer};
  Result<EvalText> prose = read_eval_text(flags.text);
  if (!prose.ok()) return prose.status();
  options.prose = std::move(prose->text);
  for (const std::string& file : flags.data) {
    Result<std::string> text = read_text(file);
    if (!text.ok()) return text.status();
    options.files.push_back({file, *std::move(text)});
  }
  return options;
}

Result<eval::ProbeReport> train(const TrainFlags& flags) {
  Result<eval::ProbeOptions> options = options_of(flags);
  if (!options.ok()) return options.status();
  const Result<Engine> engine = open_engine(flags.engine);
  if (!engine.ok()) return engine.status();
  ProgressLine progress("train");
  const Answering answering;
  show_progress(*options, progress, answering.cancel());
  Result<eval::ProbeReport> report = eval::train_role_probe(*engine->model, *options);
  progress.clear();
  if (!report.ok() || flags.out.empty()) return report;
  const Status written = eval::write_file(flags.out, roles::write_probe(report->probe));
  if (!written.ok()) return written;
  return report;
}

int train_roles(const TrainFlags& flags) {
  const Result<eval::ProbeReport> report = train(flags);
  if (!report.ok()) return eval_failed(report.status(), flags.json);
  print_report(*report, flags.json);
  return kExitDone;
}

}  // namespace

Command add_train_roles(CLI::App& app) {
  const auto flags = std::make_shared<TrainFlags>();
  add_model_flag(app, flags->engine)->required();
  app.add_option("--data", flags->data,
                 "Texts of yours to learn from as well, labelled by the parser")
      ->type_name("FILE ...");
  app.add_option("-o,--output", flags->out,
                 "Write the probe here (--roles probe:FILE of run, serve, batch reads it)")
      ->type_name("FILE");
  app.add_option("--text", flags->text,
                 "Prose for made texts (default: openings of two novels, 16,000 tokens)")
      ->type_name("FILE");
  add_number(app, "--prompts", flags->prompts, 5u, 10000u,
             "Prompts of each kind of text; of every five the last one is left out to judge by");
  add_number(app, "--tokens", flags->tokens, 64u, 1u << 20, "Tokens of a prompt, about");
  add_number(app, "--epochs", flags->epochs, 1u, 1000u, "Times that every token is seen");
  add_number(app, "--hidden", flags->hidden, 0.0f, 1.0f,
             "Share of ids that a step hides, for those that training never sees");
  add_number(app, "--seed", flags->seed, 0u, 0xFFFFFFFFu, "Of the texts, and of their order");
  app.add_flag("--no-transfer", flags->no_transfer,
               "Leave out the probes that see all kinds of text but one");
  app.add_flag("--json", flags->json, "One JSON object instead of a table");
  return [flags] { return train_roles(*flags); };
}

}  // namespace quire::cli
