// quire batch: a file of requests in, a file of answers out.

#include <sys/stat.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <map>
#include <string>

#include "cli/batch_input.h"
#include "cli/batch_output.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/loop_flags.h"
#include "cli/open_engine.h"
#include "cli/report.h"
#include "cli/run_flags.h"
#include "cli/terminal.h"
#include "serve/openai_answer.h"

namespace quire::cli {
namespace {

using json = nlohmann::ordered_json;

struct BatchFlags {
  RunFlags answers;  // defaults of every request
  std::string input, output;
  LoopFlags loop;
};

// The same file by two names.
bool same_file(const std::string& a, const std::string& b) {
  struct stat first {
  }, second{};
  return stat(a.c_str(), &first) == 0 && stat(b.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

class Batch {
 public:
  Batch(const BatchFlags& flags, Engine& engine, const engine::GenerateOptions& defaults,
        BatchInput& input, BatchOutput& output)
      : flags_(flags),
        engine_(engine),
        defaults_(defaults),
        input_(input),
        output_(output),
        progress_("batch"),
        begin_(std::chrono::steady_clock::now()) {}

  // Until every line has its answer; kCancelled after ctrl-C, kIo when a line could not be written.
  Status run();
  std::string summary() const;

 private:
  std::string id_of(std::size_t i) const { return "batch_req_" + std::to_string(input_.number(i)); }
  void feed(engine::Engine& loop);
  void ask(engine::Engine& loop, std::size_t i);
  void answered(std::size_t i, serve::AnswerHead head, const engine::Answer& answer);
  void refused(std::size_t i, const Status& status, const std::string& field);
  void respond(std::size_t i, int http, json body);
  void write(std::size_t i, json response, json error);
  void show(const engine::EngineStats& stats);
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  const BatchFlags& flags_;
  Engine& engine_;
  const engine::GenerateOptions& defaults_;
  BatchInput& input_;
  BatchOutput& output_;
  ProgressLine progress_;
  const std::chrono::steady_clock::time_point begin_;
  std::size_t next_ = 0, skipped_ = 0, answered_ = 0, refused_ = 0;
  std::uint64_t prompt_tokens_ = 0, completion_tokens_ = 0;
  Status fault_;  // of writing: nothing after it would be kept
};

// Keeps a few requests waiting behind those that run; the rest stay in the file.
void Batch::feed(engine::Engine& loop) {
  for (; next_ < input_.size() && fault_.ok(); ++next_) {
    if (loop.stats().waiting >= flags_.loop.max_running) return;
    if (output_.has(input_.custom_id(next_), id_of(next_))) {
      ++skipped_;
    } else {
      ask(loop, next_);
    }
  }
}

void Batch::ask(engine::Engine& loop, std::size_t i) {
  const Result<BatchLine> line = input_.read(i);
  if (!line.ok()) {
    ++refused_;
    return write(i, nullptr, {{"code", "invalid_line"}, {"message", line.status().message()}});
  }
  serve::Body body{.endpoint = line->endpoint, .batch = true};
  body.request.options = defaults_;
  body.request.on_overflow = engine::Overflow::kStream;
  if (Status status = serve::read_body(line->body, body); !status.ok()) {
    return refused(i, status, serve::field_of(status));
  }
  if (Status status = serve::render(*engine_.model, body); !status.ok()) {
    return refused(i, status, serve::field_of(status));
  }
  const serve::AnswerHead head{.endpoint = body.endpoint,
                               .id = id_of(i),
                               .model = engine_.model->info().name,
                               .reader = body.reader};
  body.request.on_done = [this, i, head](engine::RequestId, const engine::Answer& answer) {
    answered(i, head, answer);
  };
  const Result<engine::RequestId> id = loop.submit(std::move(body.request));
  if (!id.ok()) refused(i, id.status(), {});
}

void Batch::answered(std::size_t i, serve::AnswerHead head, const engine::Answer& answer) {
  if (answer.finish == engine::Finish::kCancelled) return;  // it is done again next time
  if (answer.finish == engine::Finish::kError) return refused(i, answer.error, {});
  ++answered_;
  prompt_tokens_ += answer.prompt_tokens;
  completion_tokens_ += answer.completion_tokens;
  head.created = static_cast<std::int64_t>(std::time(nullptr));
  const serve::Choice choice{.answer = answer};
  respond(i, 200, serve::completion_json(head, {&choice, 1}));
}

void Batch::refused(std::size_t i, const Status& status, const std::string& field) {
  ++refused_;
  respond(i, serve::http_status(status), serve::refusal_json(status, field));
}

void Batch::respond(std::size_t i, int http, json body) {
  json response = {{"status_code", http}, {"request_id", id_of(i)}};
  response["body"] = std::move(body);
  write(i, std::move(response), nullptr);
}

void Batch::write(std::size_t i, json response, json error) {
  if (!fault_.ok()) return;
  json line = {{"quire_json", 1}, {"id", id_of(i)}};
  line["custom_id"] = input_.custom_id(i).empty() ? json(nullptr) : json(input_.custom_id(i));
  line["response"] = std::move(response);
  line["error"] = std::move(error);
  fault_ = output_.append(line);
}

void Batch::show(const engine::EngineStats& stats) {
  const std::size_t done = skipped_ + answered_ + refused_, all = input_.size();
  const double rate = static_cast<double>(completion_tokens_) / std::max(seconds(), 1e-3);
  progress_.show(static_cast<double>(done) / static_cast<double>(std::max(all, std::size_t{1})),
                 grouped(done) + " of " + grouped(all) + ", " + std::to_string(stats.running) +
                     " running, " + number(rate, 1) + " tok/s");
}

Status Batch::run() {
  Result<std::unique_ptr<engine::Engine>> loop =
      engine::Engine::open(*engine_.model, *engine_.cache, loop_options(flags_.loop));
  if (!loop.ok()) return loop.status();
  const Answering answering;
  while (fault_.ok()) {
    feed(**loop);
    if (answering.interrupted()) fault_ = {Code::kCancelled, "interrupted"};
    if (!fault_.ok() || !(*loop)->step()) break;
    show((*loop)->stats());
  }
  progress_.clear();
  return fault_;
}

std::string Batch::summary() const {
  std::string text = grouped(input_.size()) + " requests: " + grouped(answered_) + " answered, " +
                     grouped(refused_) + " refused";
  if (skipped_ > 0) text += ", " + grouped(skipped_) + " done before";
  return text + " | prompts " + grouped(prompt_tokens_) + " + answers " +
         grouped(completion_tokens_) + " tokens in " + number(seconds(), 1) + " s\n";
}

int failed(const Status& status) {
  complain(status.message());
  return kExitFailed;
}

int batch(const BatchFlags& flags) {
  if (Status status = check(flags.answers); !status.ok()) {
    complain(status.message());
    return kExitUsage;
  }
  if (same_file(flags.input, flags.output)) {
    complain("-o: " + flags.output + " is the file of the requests");
    return kExitUsage;
  }
  Result<engine::GenerateOptions> defaults = generate_options(flags.answers);
  if (!defaults.ok()) return failed(defaults.status());
  Result<BatchInput> input = BatchInput::open(flags.input);
  if (!input.ok()) return failed(input.status());
  Result<BatchOutput> output = BatchOutput::open(flags.output);
  if (!output.ok()) return failed(output.status());
  if (output->torn()) complain("note: " + flags.output + " ended in half a line, which is cut off");
  Result<Engine> engine = open_engine(flags.answers.engine);
  if (!engine.ok()) return failed(engine.status());
  if (Status status = set_roles(flags.answers, *engine->model, *defaults); !status.ok()) {
    return failed(status);
  }

  Batch work(flags, *engine, *defaults, *input, *output);
  const Status status = work.run();
  if (!flags.answers.quiet) std::fputs(work.summary().c_str(), stderr);
  if (status.ok()) return kExitDone;
  if (status.code() != Code::kCancelled) return failed(status);
  complain("interrupted: the same command goes on from here");
  return kExitInterrupted;
}

}  // namespace

Command add_batch(CLI::App& app) {
  auto flags = std::make_shared<BatchFlags>();
  RunFlags& answers = flags->answers;
  add_model_flag(app, answers.engine)->required();
  app.add_option("-i,--input", flags->input,
                 "Requests, one JSON object a line: {custom_id, method, url, body} with the url\n"
                 "/v1/chat/completions or /v1/completions")
      ->type_name("FILE")
      ->required();
  app.add_option("-o,--output", flags->output,
                 "Answers, one JSON object a line, in the order they are ready; what is there\n"
                 "already is not done again")
      ->type_name("FILE")
      ->required();
  add_loop_flags(app, flags->loop);
  add_number(app, "-n,--max-tokens", answers.max_tokens, 0u, 1u << 24,
             "Tokens of an answer whose request does not say, at most");
  add_cache_flags(app, answers.engine);
  add_policy_flags(app, answers);
  add_sampler_flags(app, answers);
  app.add_flag("-q,--quiet", answers.quiet, "No line of numbers at the end");
  return [flags] { return batch(*flags); };
}

}  // namespace quire::cli
