// The flags of `quire run`; those of the policy and the sampler are `quire batch`'s, too.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "cli/flags.h"
#include "engine/generate.h"

namespace quire::cli {

struct RunFlags {
  EngineFlags engine;
  std::optional<std::string> prompt;  // "-": stdin
  std::optional<std::string> file;    // "-": stdin
  std::uint32_t max_tokens = 256;
  std::string keep, policy = "none", roles = "parser", grammar_file;
  std::string gate = "open", gate_file;
  double gate_kl = engine::kSelfCheckKl;
  model::SamplerOptions sampler;
  bool ignore_eos = false, raw = false, chat = false, json = false, quiet = false;
  std::string explain;  // empty: off; "all": over all layers; or a layer's number
};

void add_run_flags(CLI::App& app, RunFlags& flags);
void add_policy_flags(CLI::App& app, RunFlags& flags);
void add_sampler_flags(CLI::App& app, RunFlags& flags);

// Texts of --policy and --keep: what is wrong with them, or nothing; and what they mean ("none" and
// "" change nothing).
std::string check_policy(const std::string& text);
std::string check_keep(const std::string& text);
Status set_policy(const std::string& policy, const std::string& keep,
                  engine::GenerateOptions& options);

// Reads --roles, with the model at hand: a probe is of one vocabulary.
Status set_roles(const RunFlags& flags, const model::Model& model,
                 engine::GenerateOptions& options);
// `path`: what it is called where it is refused.
Result<engine::RoleSource> read_probe(std::string_view bytes, const std::string& path,
                                      const model::Model& model);
Result<engine::RoleSource> read_probe_file(const std::string& path, const model::Model& model);

// What can only be judged with all flags read; a refusal is a usage error that names the flag.
Status check(const RunFlags& flags);
// The engine's options of checked flags; kIo when a grammar's or a gate's file cannot be read.
Result<engine::GenerateOptions> generate_options(const RunFlags& flags);
// The whole of a file, "-" being stdin.
Result<std::string> read_text(const std::string& path);

}  // namespace quire::cli
