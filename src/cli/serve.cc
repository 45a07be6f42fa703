// quire serve: OpenAI's HTTP interface on one model.

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/loop_flags.h"
#include "cli/open_engine.h"
#include "cli/run_flags.h"
#include "cli/terminal.h"
#include "serve/server.h"

namespace quire::cli {
namespace {

struct ServerFlags {
  RunFlags answers;  // defaults of every request
  serve::ServerOptions server;
  LoopFlags loop;
  std::uint32_t port = 8080, max_waiting = 512;
  std::uint32_t connections = serve::Limits().connections;
  std::uint32_t drain_seconds = 30, stall_seconds = 120;
  std::string key_file, metrics_alias, max_body = "8MiB", rate, token_rate;
  std::string session_space = engine::bytes_text(serve::SessionOptions().most_bytes);
};

std::string is_size(const std::string& text) {
  const Result<std::size_t> bytes = engine::parse_bytes(text);
  return bytes.ok() ? std::string() : bytes.status().message();
}

void add_network_flags(CLI::App& app, ServerFlags& flags) {
  app.add_option("--host", flags.server.host, "Numeric address to listen on")
      ->type_name("ADDRESS")
      ->capture_default_str();
  add_number(app, "--port", flags.port, 0u, 65535u, "Port to listen on; 0: a free one");
  app.add_option("--api-key-file", flags.key_file,
                 "Keys that clients must send, one a line; /health and /ready need none")
      ->type_name("FILE");
  app.add_flag("--insecure", flags.server.insecure,
               "Listen on an address that others can reach, without keys");
  app.add_option("--allowed-host", flags.server.access.hosts,
                 "Answer requests to this host name, too (more than one: repeat); *: to any")
      ->type_name("NAME")
      ->allow_extra_args(false);
  add_number(app, "--max-connections", flags.connections, 1u, 65536u, "Connections, at most");
  app.add_option("--max-body", flags.max_body, "Bytes of a request, at most")
      ->type_name("SIZE")
      ->check(is_size)
      ->capture_default_str();
}

void add_session_flags(CLI::App& app, ServerFlags& flags) {
  app.add_option("--session-dir", flags.server.sessions.directory,
                 "Conversations may be saved to this directory, and restored from it")
      ->type_name("DIR");
  app.add_option("--session-space", flags.session_space, "Bytes of all files there, at most")
      ->type_name("SIZE")
      ->check(is_size)
      ->capture_default_str();
}

void add_work_flags(CLI::App& app, ServerFlags& flags) {
  add_loop_flags(app, flags.loop);
  add_number(app, "--max-waiting", flags.max_waiting, 0u, 65536u,
             "Answers that wait for those, at most; others are told to come again (503)");
  add_number(app, "-n,--max-tokens", flags.answers.max_tokens, 0u, 1u << 24,
             "Tokens of an answer whose request does not say, at most; 0: what fits, of\n"
             "/v1/completions 16");
  app.add_option("--alias", flags.server.model_name, "The model's name in answers")
      ->type_name("NAME");
  app.add_option("--metrics-alias", flags.metrics_alias,
                 "Also show metrics under the names of this server: vllm")
      ->type_name("NAME")
      ->check([](const std::string& text) {
        return text == "vllm" ? std::string() : "\"" + text + "\" is not vllm";
      });
  add_number(app, "--drain-seconds", flags.drain_seconds, 0u, 86400u,
             "After SIGTERM: time to finish what is being answered");
  add_number(app, "--stall-seconds", flags.stall_seconds, 1u, 86400u,
             "Without progress for so long, /ready says 503");
}

void add_rate_flags(CLI::App& app, ServerFlags& flags) {
  const auto is_rate = [](const std::string& text) {
    const Result<std::uint32_t> rate = serve::parse_rate(text);
    return rate.ok() ? std::string() : rate.status().message();
  };
  app.add_option("--rate-limit", flags.rate,
                 "Requests of one key, at most; others get 429. Without keys: of all together")
      ->type_name("N/min")
      ->check(is_rate);
  app.add_option("--token-rate-limit", flags.token_rate,
                 "Tokens of one key, prompts and answers together, likewise")
      ->type_name("N/min")
      ->check(is_rate);
}

// As many descriptors as the system allows, up to one a connection and a few for files.
void allow_descriptors(std::uint32_t connections) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = connections + 64;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = limit.rlim_max == RLIM_INFINITY ? wanted : std::min(limit.rlim_max, wanted);
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));
}

Status read_keys(const std::string& path, serve::Access& access) {
  if (path.empty()) return {};
  const Result<std::string> text = read_text(path);
  if (!text.ok()) return text.status();
  Result<std::vector<std::string>> keys = serve::parse_keys(*text);
  if (!keys.ok()) return {keys.status().code(), path + ": " + keys.status().message()};
  access.keys = *std::move(keys);
  return {};
}

Result<serve::ServerOptions> server_options(const ServerFlags& flags) {
  serve::ServerOptions options = flags.server;
  options.version = QUIRE_VERSION;
  options.port = static_cast<std::uint16_t>(flags.port);
  options.limits.connections = flags.connections;
  options.limits.answers = flags.loop.max_running + flags.max_waiting;
  options.limits.body_bytes = *engine::parse_bytes(flags.max_body);
  options.limits.bodies_bytes = std::max(options.limits.bodies_bytes, options.limits.body_bytes);
  options.engine = loop_options(flags.loop);
  options.sessions.most_bytes = *engine::parse_bytes(flags.session_space);
  options.drain_seconds = flags.drain_seconds;
  options.stall_seconds = flags.stall_seconds;
  options.vllm_names = flags.metrics_alias == "vllm";
  if (!flags.rate.empty()) options.rate.requests = *serve::parse_rate(flags.rate);
  if (!flags.token_rate.empty()) options.rate.tokens = *serve::parse_rate(flags.token_rate);
  options.signals = true;
  if (!flags.answers.quiet) {
    options.log = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  }
  Result<engine::GenerateOptions> defaults = generate_options(flags.answers);
  if (!defaults.ok()) return defaults.status();
  options.defaults = *std::move(defaults);
  if (Status status = read_keys(flags.key_file, options.access); !status.ok()) return status;
  return options;
}

int failed(const Status& status) {
  complain(status.message());
  return status.code() == Code::kInvalidArgument ? kExitUsage : kExitFailed;
}

int run_server(const ServerFlags& flags) {
  if (Status status = check(flags.answers); !status.ok()) return failed(status);
  Result<serve::ServerOptions> options = server_options(flags);
  if (!options.ok()) return failed(options.status());
  if (Status status = serve::Server::check(*options); !status.ok()) return failed(status);
  allow_descriptors(flags.connections);
  std::signal(SIGXFSZ, SIG_IGN);  // a file over the limit is an error of who writes it
  EngineFlags engine_flags = flags.answers.engine;
  engine_flags.hash_model = !flags.server.sessions.directory.empty();
  const Result<Engine> engine = open_engine(engine_flags);
  if (!engine.ok()) return failed(engine.status());
  if (Status status = set_roles(flags.answers, *engine->model, options->defaults); !status.ok()) {
    return failed(status);
  }
  const std::string host = options->host;
  const Result<std::unique_ptr<serve::Server>> server =
      serve::Server::open(*engine->model, *engine->cache, *std::move(options));
  if (!server.ok()) return failed(server.status());
  const bool six = host.find(':') != std::string::npos;
  std::fprintf(stderr, "quire: serving %s at http://%s:%u/v1\n", engine->model->info().name.c_str(),
               (six ? "[" + host + "]" : host).c_str(), (*server)->port());
  (*server)->run();
  if (!flags.answers.quiet) std::fputs("quire: all answered, good-bye\n", stderr);
  return kExitDone;
}

}  // namespace

Command add_serve(CLI::App& app) {
  auto flags = std::make_shared<ServerFlags>();
  flags->answers.max_tokens = 0;
  RunFlags& answers = flags->answers;
  add_model_flag(app, answers.engine)->required();
  add_network_flags(app, *flags);
  add_work_flags(app, *flags);
  add_rate_flags(app, *flags);
  add_session_flags(app, *flags);
  add_cache_flags(app, answers.engine);
  add_template_flag(app, answers.engine);
  add_policy_flags(app, answers);
  add_sampler_flags(app, answers);
  app.add_flag("-q,--quiet", answers.quiet, "No line a request on stderr");
  return [flags] { return run_server(*flags); };
}

}  // namespace quire::cli
