// quire train gate: where prompts of a model lie.

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/eval_session.h"
#include "cli/eval_texts.h"
#include "cli/gate_file.h"
#include "cli/run_flags.h"
#include "cli/train_commands.h"
#include "engine/sha256.h"
#include "eval/gate_calibration.h"
#include "eval/log.h"

namespace quire::cli {
namespace {

struct GateFlags {
  EngineFlags engine;
  std::vector<std::string> texts;
  std::string out, statistic = info_of(Statistic::kPageD).name, mode = "z";
  std::optional<double> threshold;
  std::uint32_t prompts = 112, tokens = 768;
};

std::string statistics() {
  std::string text = "What prompts are judged by:";
  for (const StatisticInfo& info : kStatistics) {
    if (info.control) continue;
    const std::string name = info.name;
    text += "\n  " + name + std::string(16 - name.size(), ' ') + info.about;
  }
  return text;
}

void add_gate_flags(CLI::App& app, GateFlags& flags) {
  add_model_flag(app, flags.engine)->required();
  app.add_option("--text", flags.texts,
                 "Prompts are cut from these texts (default: prose, lookups, needles and chains\n"
                 "made from a seed)")
      ->type_name("FILE...");
  app.add_option("-o,--output", flags.out, "Write the file here (default: to stdout)")
      ->type_name("FILE");
  app.add_option("--statistic", flags.statistic, statistics())
      ->type_name("NAME")
      ->check([](const std::string& text) {
        return parse_statistic(text) ? std::string() : "\"" + text + "\" is no statistic";
      })
      ->capture_default_str();
  app.add_option(
         "--mode", flags.mode,
         "What the threshold is of: z (deviations from the mean of the prompts), raw (the\n"
         "statistic), labelled (raw, half way between prompts that need every entry and\n"
         "prompts that do not, 20 each and more), signed (likewise, but which of them have\n"
         "the larger values is measured as well: models differ)")
      ->type_name("MODE")
      ->check([](const std::string& text) {
        const bool known = engine::parse_gate_mode(text).has_value();
        return known ? std::string() : "\"" + text + "\" is none of raw, z, labelled, signed";
      })
      ->capture_default_str();
  app.add_option("--threshold", flags.threshold,
                 "Instead of PAGE's: -0.69 deviations, raw 0.07 for page-d; signed: 0")
      ->type_name("X");
  add_number(app, "--prompts", flags.prompts, 20u, 100000u, "Prompts, about; PAGE asks for 100");
  add_number(app, "--tokens", flags.tokens, 64u, 1u << 20, "Tokens of a prompt, about");
  add_number(app, "-t,--threads", flags.engine.threads, 0u, 256u,
             "Threads; 0: the machine's cores");
}

// The texts as one, for the hash, and each for itself, if they were named.
struct Texts {
  std::vector<std::string> each;
  std::string all, names;
};

Result<Texts> texts_of(const GateFlags& flags) {
  Texts texts;
  if (flags.texts.empty()) {
    Result<EvalText> text = read_eval_text({});
    if (!text.ok()) return text.status();
    texts.all = std::move(text->text);
    texts.names = "made around " + text->name;
    return texts;
  }
  for (const std::string& path : flags.texts) {
    Result<std::string> text = read_text(path);
    if (!text.ok()) return text.status();
    texts.all += *text;
    texts.names += (texts.names.empty() ? "" : ", ");
    texts.names += std::filesystem::path(path).filename().string();
    texts.each.push_back(*std::move(text));
  }
  return texts;
}

Result<GateFile> train(const GateFlags& flags) {
  const Result<Texts> texts = texts_of(flags);
  if (!texts.ok()) return texts.status();
  const Result<std::string> fingerprint = eval::file_fingerprint(flags.engine.model);
  if (!fingerprint.ok()) return fingerprint.status();
  const Result<Engine> engine = open_eval_engine(flags.engine);
  if (!engine.ok()) return engine.status();
  ProgressLine progress("gate");
  const Answering answering;
  eval::GateCalibrationOptions options{.statistic = *parse_statistic(flags.statistic),
                                       .mode = *engine::parse_gate_mode(flags.mode),
                                       .threshold = flags.threshold,
                                       .prompts = flags.prompts,
                                       .tokens = flags.tokens,
                                       .texts = texts->each,
                                       .filler = texts->all};
  show_progress(options, progress, answering.cancel());
  const Result<eval::GateCalibrationResult> found =
      eval::calibrate_gate(*engine->model, engine->cache->options(), options);
  progress.clear();
  if (!found.ok()) return found.status();
  return GateFile{.calibration = found->calibration,
                  .model = engine->model->info().name,
                  .fingerprint = *fingerprint,
                  .prompts = found->prompts,
                  .texts = texts->names,
                  .texts_sha256 = engine::sha256_hex(texts->all)};
}

int train_gate(const GateFlags& flags) {
  const Result<GateFile> file = train(flags);
  if (!file.ok()) return eval_failed(file.status(), false);
  const std::string text = gate_file_json(*file).dump(1) + "\n";
  if (flags.out.empty()) {
    std::fputs(text.c_str(), stdout);
    return kExitDone;
  }
  if (Status status = eval::write_file(flags.out, text); !status.ok()) {
    return eval_failed(status, false);
  }
  const engine::GateCalibration& by = file->calibration;
  std::printf("%s: %s of %u prompts, mean %s, deviation %s; open from %s (%s)\n", flags.out.c_str(),
              info_of(by.statistic).name, file->prompts, number(by.mean, 4).c_str(),
              number(by.deviation, 4).c_str(), number(by.threshold, 4).c_str(), name_of(by.mode));
  return kExitDone;
}

}  // namespace

Command add_train_gate(CLI::App& app) {
  auto flags = std::make_shared<GateFlags>();
  add_gate_flags(app, *flags);
  return [flags] { return train_gate(*flags); };
}

}  // namespace quire::cli
