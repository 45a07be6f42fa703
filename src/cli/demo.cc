// quire demo: one question about a text, with the full cache and with a quarter of it.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/located.h"
#include "cli/open_engine.h"
#include "cli/report.h"
#include "cli/run_flags.h"
#include "cli/terminal.h"

namespace quire::cli {
namespace {

constexpr const char* kModel = ".models/SmolLM2-135M-Instruct.Q4_1.gguf";
constexpr const char* kText = "examples/the-time-machine.txt";
// What a small model can be asked: to find one sentence again and continue it.
constexpr const char* kNeedle = "The special magic number for apple is 48120.";
constexpr const char* kQuestion = "The special magic number for apple is";
constexpr const char* kExpected = "48120";

struct DemoFlags {
  EngineFlags engine{.model = kModel, .budget = "64MiB"};
  std::string text = kText;
  std::uint32_t tokens = 1800;
};

struct Arm {
  const char* name;
  const char* policy;  // null: the full cache
};
constexpr Arm kArms[] = {{"full cache", nullptr},
                         {"snapkv-ahead, a quarter", "snapkv-ahead"},
                         {"sink-recency, a quarter", "sink-recency"}};

// The first paragraphs of the text up to `limit` tokens, with the needle after two fifths of them,
// and the question.
std::string prompt_of(const std::string& text, std::uint32_t limit, const model::Model& model) {
  std::vector<std::string> paragraphs;
  std::size_t tokens = 0;
  for (std::size_t begin = 0; begin < text.size() && tokens < limit;) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    paragraphs.push_back(text.substr(begin, end - begin) + "\n");
    tokens += model.tokenize(paragraphs.back(), false, false).size();
    begin = end + 1;
  }
  std::string prompt;
  for (std::size_t i = 0; i < paragraphs.size(); ++i) {
    if (i == paragraphs.size() * 2 / 5) prompt += std::string(kNeedle) + "\n";
    prompt += paragraphs[i];
  }
  return prompt + "\n" + kQuestion;
}

std::string first_line(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find('\n', begin) - begin);
}

Result<engine::Answer> ask(Engine& engine, const Arm& arm, const std::vector<model::Token>& prompt,
                           std::uint32_t chunk) {
  ProgressLine progress(std::string("reading, ") + arm.name);
  Answering answering;
  engine::GenerateOptions options;
  options.max_tokens = 10;
  options.chunk = chunk;
  options.sampler.temperature = 0;
  options.on_prompt = [&](std::uint32_t done, std::uint32_t total) {
    progress.show(static_cast<double>(done) / total);
  };
  options.cancel = answering.cancel();
  if (arm.policy != nullptr) {
    Result<Policy> policy = make_policy(arm.policy);
    if (!policy.ok()) return policy.status();
    options.policy = *std::move(policy);
    options.keep = {.unit = engine::Keep::Unit::kPercent, .amount = 25};
  }
  const auto session = engine::Session::open(*engine.model, *engine.cache, std::move(options));
  if (!session.ok()) return session.status();
  return (*session)->answer(prompt);
}

void print_row(const Arm& arm, const engine::Answer& answer) {
  const std::string line = first_line(answer.text);
  std::printf("%-24s %8s %10s %10s %8s %8s  %-5s  %s\n", arm.name,
              number(answer.kv.tokens_kept_mean, 0).c_str(),
              readable_bytes(static_cast<double>(answer.kv.bytes_now)).c_str(),
              number(prefill_tokens_per_second(answer), 0).c_str(),
              number(decode_tokens_per_second(answer), 0).c_str(),
              number(answer.first_token_seconds, 1).c_str(),
              line.starts_with(kExpected) ? "right" : "wrong", line.c_str());
  std::fflush(stdout);
}

int demo(const DemoFlags& flags) {
  const Result<std::string> text = read_text(located(flags.text));
  if (!text.ok()) {
    complain(text.status().message() + " (--text names another)");
    return kExitFailed;
  }
  EngineFlags engine_flags = flags.engine;
  engine_flags.model = located(engine_flags.model);
  Result<Engine> engine = open_engine(engine_flags);
  if (!engine.ok()) {
    complain(engine.status().message());
    return kExitFailed;
  }
  const std::string prompt = prompt_of(*text, flags.tokens, *engine->model);
  const std::vector<model::Token> tokens = engine->model->tokenize(prompt, true, false);
  std::printf(
      "%s reads %s tokens of %s within a cache of %s.\n"
      "This demonstration put one sentence into the text: \"%s\"\n"
      "and ends with: \"%s\". What comes next?\n\n"
      "%-24s %8s %10s %10s %8s %8s\n%-24s %8s %10s %10s %8s %8s  answer\n",
      engine->model->info().name.c_str(), grouped(tokens.size()).c_str(),
      std::filesystem::path(flags.text).filename().c_str(),
      readable_bytes(static_cast<double>(engine->cache->stats().budget_bytes)).c_str(), kNeedle,
      kQuestion, "", "tokens", "bytes in", "read", "answer", "first", "cache", "kept", "cache",
      "tok/s", "tok/s", "token s");
  std::fflush(stdout);
  for (const Arm& arm : kArms) {
    const Result<engine::Answer> answer = ask(*engine, arm, tokens, engine_flags.chunk);
    if (!answer.ok() || answer->finish == engine::Finish::kError) {
      complain(answer.ok() ? answer->error.message() : answer.status().message());
      return kExitFailed;
    }
    if (answer->finish == engine::Finish::kCancelled) return kExitInterrupted;
    print_row(arm, *answer);
  }
  const model::ModelInfo& info = engine->model->info();
  std::printf(
      "\nMost memory the process held: %s (weights %s, copies of them %s, cache at most %s).\n"
      "The right answer is %s. All arms keep the first 4 and last 64 tokens; what else stays "
      "is the policy's choice.\nTry: quire run -m MODEL -f TEXT -p \"...\" --policy snapkv-ahead "
      "--keep 25%% --explain\n",
      readable_bytes(static_cast<double>(peak_rss_bytes())).c_str(),
      readable_bytes(static_cast<double>(info.weights_bytes)).c_str(),
      readable_bytes(static_cast<double>(info.copies_bytes)).c_str(),
      readable_bytes(static_cast<double>(engine->cache->stats().peak_bytes)).c_str(), kExpected);
  return kExitDone;
}

}  // namespace

Command add_demo(CLI::App& app) {
  auto flags = std::make_shared<DemoFlags>();
  add_model_flag(app, flags->engine)->capture_default_str();
  app.add_option("--text", flags->text, "A text, one paragraph a line")
      ->type_name("FILE")
      ->capture_default_str();
  add_number(app, "--tokens", flags->tokens, 100u, 1u << 20, "Tokens of it to read");
  add_cache_flags(app, flags->engine);
  return [flags] { return demo(*flags); };
}

}  // namespace quire::cli
