// quire run: one answer, or a chat.

#include <cstdio>
#include <iostream>
#include <string>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/conversation.h"
#include "cli/explain.h"
#include "cli/interrupt.h"
#include "cli/open_engine.h"
#include "cli/report.h"
#include "cli/run_flags.h"
#include "cli/terminal.h"

namespace quire::cli {
namespace {

// A prompt this long is worth a progress bar.
constexpr std::uint32_t kLongPrompt = 256;

int failed(const RunFlags& flags, const Status& status) {
  complain(status.message());
  if (flags.json) std::puts(dump(error_json(status)).c_str());
  return kExitFailed;
}

int exit_status(const engine::Answer& answer) {
  if (answer.finish == engine::Finish::kError) return kExitFailed;
  return answer.finish == engine::Finish::kCancelled ? kExitInterrupted : kExitDone;
}

// Options that stream to stdout and draw the bar, for as long as `progress` lives.
void stream_to_terminal(engine::GenerateOptions& options, const RunFlags& flags,
                        ProgressLine& progress) {
  options.on_prompt = [&progress](std::uint32_t done, std::uint32_t total) {
    if (total < kLongPrompt) return;
    progress.show(static_cast<double>(done) / total, grouped(done) + " of " + grouped(total));
    if (done == total) progress.clear();
  };
  if (flags.json) return;
  options.on_text = [&progress](std::string_view text) {
    progress.clear();
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
}

void after_answer(const engine::Answer& answer, const RunFlags& flags) {
  if (answer.finish == engine::Finish::kError) complain(answer.error.message());
  if (!flags.quiet) std::fputs(summary(answer).c_str(), stderr);
}

// A whole file without the newlines that editors and `echo` leave at its end.
Result<std::string> prompt_part(const std::string& path) {
  Result<std::string> text = read_text(path);
  while (text.ok() && (text->ends_with('\n') || text->ends_with('\r'))) text->pop_back();
  return text;
}

// The text of -f, a blank line, and the text of -p; of stdin when there is neither.
Result<std::string> prompt_text(const RunFlags& flags) {
  if (!flags.prompt && !flags.file) return prompt_part("-");
  std::string text;
  if (flags.file) {
    const Result<std::string> file = prompt_part(*flags.file);
    if (!file.ok()) return file;
    text = *file + (flags.prompt ? "\n\n" : "");
  }
  if (flags.prompt) {
    const Result<std::string> prompt = *flags.prompt == "-" ? prompt_part("-") : *flags.prompt;
    if (!prompt.ok()) return prompt;
    text += *prompt;
  }
  return text;
}

// The prompt's tokens; without a template in the model, of the text as it is.
std::vector<model::Token> prompt_tokens(const model::Model& model, const std::string& text,
                                        bool raw) {
  if (text.empty()) return {};
  Conversation conversation(model, raw);
  const Result<Conversation::Turn> turn = conversation.ask(text);
  if (turn.ok()) return turn->tokens;
  complain("note: " + turn.status().message() + "; the prompt goes in as it is");
  return model.tokenize(text, true, true);
}

Status explain(const Engine& engine, const engine::Session& session, std::uint32_t count,
               const RunFlags& flags) {
  std::optional<std::uint32_t> layer;
  if (flags.explain != "all") layer = static_cast<std::uint32_t>(std::stoul(flags.explain));
  const Result<std::vector<double>> share =
      survival(*engine.cache, session.sequence(), count, layer);
  if (!share.ok()) return share.status();
  std::FILE* const out = flags.json ? stderr : stdout;
  const bool colour = flags.json ? stderr_is_terminal() : stdout_is_terminal();
  std::fputc('\n', out);
  print_survival(out, *engine.model, session.history(), *share, colour);
  return {};
}

int run_once(const RunFlags& flags, Engine& engine, engine::GenerateOptions options) {
  const Result<std::string> text = prompt_text(flags);
  if (!text.ok()) return failed(flags, text.status());
  ProgressLine progress("reading");
  stream_to_terminal(options, flags, progress);
  Answering answering;
  options.cancel = answering.cancel();
  const auto session = engine::Session::open(*engine.model, *engine.cache, std::move(options));
  if (!session.ok()) return failed(flags, session.status());
  const std::vector<model::Token> tokens = prompt_tokens(*engine.model, *text, flags.raw);
  const Result<engine::Answer> answer = (*session)->answer(tokens);
  progress.clear();
  if (!answer.ok()) return failed(flags, answer.status());

  if (flags.json) {
    std::puts(dump(answer_json(*answer, engine.model->info())).c_str());
  } else if (!answer->text.empty() && (answer->text.back() != '\n' || stdout_is_terminal())) {
    std::fputc('\n', stdout);
  }
  std::fflush(stdout);
  after_answer(*answer, flags);
  if (!flags.explain.empty()) {
    const Status status = explain(engine, **session, answer->prompt_tokens, flags);
    if (!status.ok()) return failed(flags, status);
  }
  return exit_status(*answer);
}

// False at the end of input.
bool next_message(const RunFlags& flags, model::Model& model, std::string& line) {
  if (!flags.quiet && stdin_is_terminal()) std::fputs("\n> ", stderr);
  model.pause();
  const bool read = static_cast<bool>(std::getline(std::cin, line));
  model.resume();
  return read && line != "/quit";
}

int chat(const RunFlags& flags, Engine& engine, engine::GenerateOptions options) {
  ProgressLine progress("reading");
  stream_to_terminal(options, flags, progress);
  {
    const Answering source;  // the flag outlives the scope: only its address is taken here
    options.cancel = source.cancel();
  }
  const auto session = engine::Session::open(*engine.model, *engine.cache, std::move(options));
  if (!session.ok()) return failed(flags, session.status());
  if (!flags.quiet && stdin_is_terminal()) {
    std::fprintf(
        stderr, "%s, %s of cache. /reset forgets, /quit or ctrl-D leaves, ctrl-C ends an answer.\n",
        engine.model->info().name.c_str(),
        readable_bytes(static_cast<double>(engine.cache->stats().budget_bytes)).c_str());
  }
  Conversation conversation(*engine.model, flags.raw);
  int status = kExitDone;
  for (std::string line; next_message(flags, *engine.model, line);) {
    if (line.empty()) continue;
    Result<Conversation::Turn> turn = Conversation::Turn{.restart = true};
    if (line == "/reset") {
      conversation.clear();
    } else {
      turn = conversation.ask(line);
    }
    if (!turn.ok()) return failed(flags, turn.status());
    if (turn->restart) {
      if (Status reset = (*session)->reset(); !reset.ok()) return failed(flags, reset);
    }
    if (line == "/reset") continue;

    const Answering answering;
    const Result<engine::Answer> answer = (*session)->answer(turn->tokens);
    progress.clear();
    if (!answer.ok()) {
      // Refused before anything was computed: the question is forgotten, the chat goes on.
      complain(answer.status().message());
      conversation.refused();
      status = kExitFailed;
      continue;
    }
    std::fputc('\n', stdout);
    std::fflush(stdout);
    after_answer(*answer, flags);
    conversation.answered(*answer);
    status = answer->finish == engine::Finish::kError ? kExitFailed : kExitDone;
  }
  return status;
}

int run(const RunFlags& flags) {
  if (Status status = check(flags); !status.ok()) {
    complain(status.message());
    return kExitUsage;
  }
  Result<engine::GenerateOptions> options = generate_options(flags);
  if (!options.ok()) return failed(flags, options.status());
  Result<Engine> engine = open_engine(flags.engine);
  if (!engine.ok()) return failed(flags, engine.status());
  if (Status status = set_roles(flags, *engine->model, *options); !status.ok()) {
    return failed(flags, status);
  }
  const bool one_shot = flags.prompt || flags.file || (!stdin_is_terminal() && !flags.chat);
  if (one_shot) return run_once(flags, *engine, *std::move(options));
  if (flags.json || !flags.explain.empty()) {
    complain("--json and --explain need one prompt: give it with -p or -f");
    return kExitUsage;
  }
  return chat(flags, *engine, *std::move(options));
}

}  // namespace

Command add_run(CLI::App& app) {
  auto flags = std::make_shared<RunFlags>();
  add_run_flags(app, *flags);
  return [flags] { return run(*flags); };
}

}  // namespace quire::cli
