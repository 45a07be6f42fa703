// Flags of `quire run`.

#include "cli/run_flags.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

#include "cli/gate_file.h"
#include "quire/policy.h"

namespace quire::cli {
namespace {

void add_prompt_flags(CLI::App& app, RunFlags& flags) {
  app.add_option("-p,--prompt", flags.prompt, "The prompt; - reads it from stdin")
      ->type_name("TEXT");
  app.add_option("-f,--file", flags.file, "Text that goes before -p; - is stdin")
      ->type_name("FILE");
  add_number(app, "-n,--max-tokens", flags.max_tokens, 0u, 1u << 24,
             "Tokens of an answer, at most");
  app.add_flag("--raw", flags.raw, "The prompt as it is, without the model's chat template");
  app.add_flag("--chat", flags.chat, "Chat also when stdin is no terminal: a line, a message");
  app.add_flag("--ignore-eos", flags.ignore_eos, "Do not stop where the model wants to end");
}

void add_output_flags(CLI::App& app, RunFlags& flags) {
  app.add_flag("--json", flags.json, "One JSON object instead of the streamed text");
  app.add_flag("-q,--quiet", flags.quiet, "Only the answer, without the numbers after it");
  app.add_flag("--explain{all}", flags.explain,
               "After the answer, the prompt with what survives in colour;\n"
               "--explain=LAYER shows one layer")
      ->check([](const std::string& text) -> std::string {
        std::uint32_t layer = 0;
        if (text == "all" || CLI::detail::lexical_cast(text, layer)) return {};
        return "\"" + text + "\" is not a layer number";
      });
}

constexpr std::string_view kProbe = "probe:";

std::string check_roles(const std::string& text) {
  const bool probe = text.starts_with(kProbe) && text.size() > kProbe.size();
  if (text == "parser" || text == "none" || probe) return {};
  return "\"" + text + "\" is none of parser, none, probe:FILE";
}

}  // namespace

std::string check_policy(const std::string& text) {
  if (text == "none") return {};
  const Result<Policy> policy = make_policy(text);
  return policy.ok() ? std::string() : policy.status().message();
}

std::string check_keep(const std::string& text) {
  const Result<engine::Keep> keep = engine::parse_keep(text);
  return keep.ok() ? std::string() : keep.status().message();
}

Result<engine::RoleSource> read_probe(std::string_view bytes, const std::string& path,
                                      const model::Model& model) {
  Result<engine::RoleSource> source = engine::probe_source(model, bytes);
  if (!source.ok()) return Status(source.status().code(), path + ": " + source.status().message());
  return source;
}

Result<engine::RoleSource> read_probe_file(const std::string& path, const model::Model& model) {
  const Result<std::string> bytes = read_text(path);
  if (!bytes.ok()) return bytes.status();
  return read_probe(*bytes, path, model);
}

Status set_roles(const RunFlags& flags, const model::Model& model,
                 engine::GenerateOptions& options) {
  if (flags.roles == "none") options.roles.kind = engine::RoleSource::Kind::kNone;
  if (!flags.roles.starts_with(kProbe)) return {};
  Result<engine::RoleSource> source = read_probe_file(flags.roles.substr(kProbe.size()), model);
  if (source.ok()) options.roles = *std::move(source);
  return source.status();
}

Status set_policy(const std::string& policy, const std::string& keep,
                  engine::GenerateOptions& options) {
  if (policy != "none") {
    Result<Policy> made = make_policy(policy);
    if (!made.ok()) return made.status();
    options.policy = *std::move(made);
  }
  if (!keep.empty()) {
    const Result<engine::Keep> parsed = engine::parse_keep(keep);
    if (!parsed.ok()) return parsed.status();
    options.keep = *parsed;
  }
  return {};
}

void add_policy_flags(CLI::App& app, RunFlags& flags) {
  app.add_option("--policy", flags.policy,
                 "What to drop when a sequence must shrink: NAME or NAME:key=value,...\n"
                 "(`quire policies` lists them); none: nothing is dropped")
      ->type_name("NAME")
      ->check(check_policy)
      ->capture_default_str();
  app.add_option("--keep", flags.keep,
                 "What a review leaves of the sequence: 1024tok, 25% of its tokens, 16MiB\n"
                 "(default: what fits the pool)")
      ->type_name("SIZE")
      ->check(check_keep);
  app.add_option("--gate", flags.gate,
                 "Whether the policy may drop anything of a prompt: open, closed (never), auto\n"
                 "(judged by the attention of the prompt's last rows; by page-d at its published\n"
                 "threshold unless --gate-file says otherwise), self-check (judged by what the\n"
                 "review would change of the first token's prediction)")
      ->type_name("WHEN")
      ->check([](const std::string& text) {
        const bool known = engine::parse_gate_rule(text).has_value();
        return known ? std::string() : "\"" + text + "\" is none of " + engine::kGateRules;
      })
      ->capture_default_str();
  app.add_option("--gate-file", flags.gate_file, "What `quire train gate` measured for this model")
      ->type_name("FILE");
  app.add_option("--gate-kl", flags.gate_kl,
                 "The most that self-check lets a review change, in nats (KL from all kept)")
      ->type_name("X")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  app.add_option("--roles", flags.roles,
                 "Who tells role-conditional what is a key: parser (JSON, XML, tables), none, or\n"
                 "probe:FILE (of `quire train roles`)")
      ->type_name("WHO")
      ->check(check_roles)
      ->capture_default_str();
}

void add_sampler_flags(CLI::App& app, RunFlags& flags) {
  model::SamplerOptions& sampler = flags.sampler;
  add_number(app, "--temp", sampler.temperature, 0.0f, 100.0f,
             "Temperature; 0: the likeliest token");
  add_number(app, "--top-k", sampler.top_k, 0, 1 << 24, "Sample from the k likeliest; 0: all");
  add_number(app, "--top-p", sampler.top_p, 0.0f, 1.0f, "Sample from this share of probability");
  add_number(app, "--min-p", sampler.min_p, 0.0f, 1.0f, "Drop tokens below this share of the best");
  add_number(app, "--repeat-penalty", sampler.repeat_penalty, 0.01f, 100.0f, "1: none");
  add_number(app, "--seed", sampler.seed, 0u, 0xFFFFFFFFu, "4294967295: a random one");
  app.add_option("--grammar-file", flags.grammar_file, "Only text that this GBNF grammar allows")
      ->type_name("FILE");
}

void add_run_flags(CLI::App& app, RunFlags& flags) {
  add_model_flag(app, flags.engine)->required();
  add_prompt_flags(app, flags);
  add_cache_flags(app, flags.engine);
  add_policy_flags(app, flags);
  add_sampler_flags(app, flags);
  add_output_flags(app, flags);
}

Status check(const RunFlags& flags) {
  const auto refuse = [](const std::string& text) { return Status(Code::kInvalidArgument, text); };
  if (flags.policy == "none" && !flags.keep.empty()) {
    return refuse("--keep: without --policy nothing is dropped; name one (`quire policies`)");
  }
  if (flags.policy == "none" && !flags.explain.empty()) {
    return refuse("--explain: without --policy everything survives; name one");
  }
  const bool one_shot = flags.prompt || flags.file;
  if (flags.chat && one_shot) return refuse("--chat: takes its messages from stdin, not -p or -f");
  if (flags.chat && flags.json) return refuse("--json: one answer, not a --chat");
  if (flags.chat && !flags.explain.empty()) return refuse("--explain: one answer, not a --chat");
  if (flags.prompt == "-" && flags.file == "-") return refuse("-p, -f: stdin can be only one");
  return {};
}

Result<std::string> read_text(const std::string& path) {
  if (path == "-") {
    return std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!file.is_open() || file.bad() || (text.str().empty() && !file.eof())) {
    return Status(Code::kIo, "cannot read " + path + ": " + std::strerror(errno));
  }
  return text.str();
}

Result<engine::GenerateOptions> generate_options(const RunFlags& flags) {
  engine::GenerateOptions options;
  options.max_tokens = flags.max_tokens;
  options.chunk = flags.engine.chunk;
  options.context = flags.engine.context;
  options.sampler = flags.sampler;
  options.stop_at_end = !flags.ignore_eos;
  if (Status status = set_policy(flags.policy, flags.keep, options); !status.ok()) return status;
  options.gate.rule = *engine::parse_gate_rule(flags.gate);
  options.gate.self_check = flags.gate_kl;
  if (!flags.gate_file.empty()) {
    const Result<GateFile> file = read_gate_file(flags.gate_file, flags.engine.model);
    if (!file.ok()) return file.status();
    options.gate.calibration = file->calibration;
  }
  if (!flags.grammar_file.empty()) {
    Result<std::string> grammar = read_text(flags.grammar_file);
    if (!grammar.ok()) return grammar.status();
    options.sampler.grammar = *std::move(grammar);
  }
  return options;
}

}  // namespace quire::cli
