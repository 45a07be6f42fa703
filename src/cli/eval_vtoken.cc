// quire eval vtoken: flags, progress, and where the results go.

#include <algorithm>
#include <memory>
#include <optional>

#include "cli/cli.h"
#include "cli/eval_commands.h"
#include "cli/eval_session.h"
#include "cli/eval_texts.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/terminal.h"
#include "eval/policies_report.h"
#include "eval/vtoken_eval.h"
#include "model/peer.h"

namespace quire::cli {
namespace {

struct VtokenFlags {
  EngineFlags engine;
  std::vector<std::string> also;  // models whose blocks are replayed, too
  std::string vs, text, report, victims;
  std::uint32_t seeds = 0;
  bool quick = false, full = false, json = false;
};

// `also`: of a model after the first, whose blocks are replayed and nothing is timed.
eval::VtokenOptions options_of(const VtokenFlags& flags, bool also) {
  eval::VtokenOptions options;
  options.keep_victims = !flags.victims.empty();
  options.hook_cost = !also;
  if (flags.full) {
    options.tokens = options.control_tokens = 4096;
    options.ratios = {0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9};
  } else if (flags.quick || also) {
    options.control_tokens = 1024;
    options.control_ratios = {0.5};
    options.control_blocks = {16, 32};
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
  if (flags.seeds > 0) options.seeds = flags.seeds;
  return options;
}

// What one command measures with.
struct Session {
  const VtokenFlags& flags;
  std::string text;
  ProgressLine progress{"eval"};
  Answering answering{};
};

Result<Engine> engine_of(const VtokenFlags& flags, const std::string& model) {
  EngineFlags engine = flags.engine;
  engine.model = model;
  return open_eval_engine(std::move(engine));
}

Result<eval::VtokenReport> replayed(Session& session, const Engine& engine, bool also) {
  eval::VtokenOptions options = options_of(session.flags, also);
  options.text = session.text;
  options.cancel = session.answering.cancel();
  options.on_progress = [&](double share, const std::string& doing) {
    session.progress.show(share, also ? engine.model->info().name + ", " + doing : doing);
  };
  return eval::evaluate_vtoken(*engine.model, engine.cache->options(), options);
}

Status serve(Session& session, const Engine& engine, eval::VtokenReport& report) {
  eval::CapacityOptions options = capacity_of(session.flags);
  options.text = session.text;
  options.cancel = session.answering.cancel();
  options.on_progress = [&](double share, const std::string& doing) {
    session.progress.show(share, doing);
  };
  const CacheOptions like = engine.cache->options();
  Result<eval::CapacityReport> served = eval::measure_capacity(*engine.model, like, options);
  if (!served.ok()) return served.status();
  report.capacity = *std::move(served);
  if (session.flags.vs.empty()) return {};
  const Result<std::unique_ptr<model::Peer>> peer =
      model::Peer::load(session.flags.engine.model, engine.model->threads());
  if (!peer.ok()) return peer.status();
  engine.model->pause();
  const std::vector<model::Token> tokens = engine.model->tokenize(session.text, true, false);
  options.seeds = 1;  // seeds change policies' draws; libllama evicts nothing
  Result<eval::PeerCapacity> beside =
      eval::measure_peer_capacity(**peer, tokens, like, options, *report.capacity);
  engine.model->resume();
  if (!beside.ok()) return beside.status();
  report.peer = *std::move(beside);
  return {};
}

Result<eval::VtokenReport> evaluated(const VtokenFlags& flags) {
  Result<EvalText> text = read_eval_text(flags.text);
  if (!text.ok()) return text.status();
  Session session{.flags = flags, .text = std::move(text->text)};
  std::optional<eval::VtokenReport> all;
  std::vector<std::string> models = {flags.engine.model};
  models.insert(models.end(), flags.also.begin(), flags.also.end());
  for (const std::string& model : models) {
    const Result<Engine> engine = engine_of(flags, model);
    if (!engine.ok()) return engine.status();
    Result<eval::VtokenReport> report = replayed(session, *engine, all.has_value());
    if (!report.ok()) return report;
    if (all) {
      eval::merge(*all, *std::move(report));
      continue;
    }
    all = *std::move(report);
    if (Status status = serve(session, *engine, *all); !status.ok()) return status;
  }
  return *std::move(all);
}

int eval_vtoken(const VtokenFlags& flags) {
  if (flags.quick && flags.full) {
    complain("--quick, --full: one of them");
    return kExitUsage;
  }
  const Result<eval::VtokenReport> report = evaluated(flags);
  if (!report.ok()) return eval_failed(report.status(), flags.json);
  if (!flags.victims.empty()) {
    const Status status = eval::write_file(flags.victims, eval::victims_text(report->victims));
    if (!status.ok()) return eval_failed(status, flags.json);
  }
  if (!flags.report.empty()) {
    if (Status status = eval::write_report(*report, flags.report); !status.ok()) {
      return eval_failed(status, flags.json);
    }
  }
  print_report(*report, flags.json);
  return kExitDone;
}

}  // namespace

Command add_eval_vtoken(CLI::App& app) {
  auto flags = std::make_shared<VtokenFlags>();
  add_model_flag(app, flags->engine)->required();
  app.add_flag("--quick", flags->quick, "Short controls: under 50 s with a small model");
  app.add_flag("--full", flags->full,
               "Sequences of 4,096 tokens, more ratios, five seeds of requests together");
  add_number(app, "--seeds", flags->seeds, 0u, 100u,
             "Seeds of requests together; 0: one, five with --full");
  app.add_option("--also", flags->also, "Replay the blocks of this model as well, in one report")
      ->type_name("MODEL.gguf")
      ->allow_extra_args(false);
  app.add_option("--vs", flags->vs,
                 "Also the requests that this serves in as many bytes, in the same process: llama")
      ->type_name("ENGINE")
      ->check(CLI::IsMember({"llama"}));
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
