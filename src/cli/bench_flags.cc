#include "cli/bench_flags.h"

#include <algorithm>
#include <cmath>

#include "engine/generate.h"
#include "quire/policy.h"

namespace quire::cli {
namespace {

// "512,4096": numbers in [least, most].
void add_numbers(CLI::App& app, const char* flag, std::vector<std::uint32_t>& numbers,
                 std::uint32_t least, std::uint32_t most, const std::string& about) {
  app.add_option(flag, numbers, about)
      ->delimiter(',')
      ->type_name("N,...")
      ->check([least, most](const std::string& text) -> std::string {
        std::uint32_t number = 0;
        if (CLI::detail::lexical_cast(text, number) && number >= least && number <= most) return {};
        return "\"" + text + "\" is not a number from " + std::to_string(least) + " to " +
               std::to_string(most);
      });
}

std::string check_tests(const std::string& list) {
  for (const std::string& word : split_list(list)) {
    if (const Result<BenchRow> row = parse_bench_row(word); !row.ok()) {
      return row.status().message();
    }
  }
  return {};
}

std::string check_keep(const std::string& text) {
  const Result<engine::Keep> keep = engine::parse_keep(text);
  if (!keep.ok()) return keep.status().message();
  const bool counts =
      keep->unit == engine::Keep::Unit::kTokens || keep->unit == engine::Keep::Unit::kPercent;
  return counts ? std::string() : "\"" + text + "\": a benchmark keeps tokens or a percentage";
}

void add_what(CLI::App& app, BenchFlags& flags) {
  app.add_option("--tests", flags.tests,
                 "Rows: ppN reads N tokens, tgN generates N, tgNxB for B sequences at once;\n"
                 "@dD: when each sequence holds D already; +keepK: and a policy kept K of them")
      ->type_name("TEST,...")
      ->check(check_tests);
  add_numbers(app, "-p,--n-prompt", flags.prompts, 0, kMaxBenchTokens,
              "Instead of --tests, as for llama-bench: prompts to read; 0: none (default: 512)");
  add_numbers(app, "-n,--n-gen", flags.generations, 0, kMaxBenchTokens,
              "Tokens to generate; 0: none (default: 128)");
  add_numbers(app, "-d,--n-depth", flags.depths, 0, kMaxBenchTokens,
              "Each at these depths (default: 0)");
  add_numbers(app, "--parallel", flags.parallel, 1, kMaxBenchBatch,
              "Generating for so many sequences at once (default: 1)");
  app.add_flag("--quick", flags.quick, "A short list and 3 pairs: under 50 s with a small model");
}

void add_how(CLI::App& app, BenchFlags& flags) {
  app.add_option("--vs", flags.vs, "Also on this engine, in pairs, in the same process: llama")
      ->type_name("ENGINE")
      ->check([](const std::string& text) -> std::string {
        return text == "llama" ? std::string() : "\"" + text + "\" is not llama";
      });
  add_number(app, "-r,--pairs", flags.pairs, 0u, 1000u,
             "Measurements of each row, with each engine; 0: 7, or 3 with --quick");
  add_number(app, "-t,--threads", flags.engine.threads, 0u, 256u,
             "Threads; 0: the machine's cores");
  add_number(app, "-b,--chunk", flags.engine.chunk, 1u, 512u,
             "Prompt tokens computed in one step, at most");
  app.add_option("--kv-type", flags.engine.kv_type,
                 "How quire stores keys and values: f16, bf16, f32 (libllama: f16)")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"f16", "bf16", "f32"}))
      ->capture_default_str();
  app.add_flag("--deterministic", flags.engine.deterministic,
               "One linear path for every row count: bit-equal logits however the prompt is cut");
  add_tune_flag(app, flags.engine);
  app.add_option("--policy", flags.policy, "The policy of rows with +keep, and of --keep")
      ->type_name("NAME")
      ->check([](const std::string& text) {
        const Result<Policy> policy = make_policy(text);
        return policy.ok() ? std::string() : policy.status().message();
      })
      ->capture_default_str();
  app.add_option("--keep", flags.keep, "Every generating row at a depth keeps this: 1024tok, 25%")
      ->type_name("SIZE")
      ->check(check_keep);
  app.add_flag("--json", flags.json, "One JSON object instead of a table");
}

std::vector<std::uint32_t> or_default(const std::vector<std::uint32_t>& given,
                                      std::uint32_t fallback) {
  return given.empty() ? std::vector<std::uint32_t>{fallback} : given;
}

bool crossed(const BenchFlags& flags) {
  return !flags.prompts.empty() || !flags.generations.empty() || !flags.depths.empty() ||
         !flags.parallel.empty();
}

std::vector<BenchRow> listed_rows(const BenchFlags& flags) {
  if (crossed(flags)) {
    return cross_bench_rows(or_default(flags.prompts, 512), or_default(flags.generations, 128),
                            or_default(flags.depths, 0), or_default(flags.parallel, 1));
  }
  if (flags.tests.empty()) return flags.quick ? quick_bench_rows() : default_bench_rows();
  std::vector<BenchRow> rows;
  for (const std::string& word : split_list(flags.tests)) rows.push_back(*parse_bench_row(word));
  return rows;
}

}  // namespace

void add_bench_flags(CLI::App& app, BenchFlags& flags) {
  add_model_flag(app, flags.engine);
  add_what(app, flags);
  add_how(app, flags);
}

bool default_rows(const BenchFlags& flags) {
  return flags.tests.empty() && !crossed(flags);
}

std::vector<BenchRow> bench_rows(const BenchFlags& flags) {
  std::vector<BenchRow> rows = listed_rows(flags);
  if (flags.keep.empty()) return rows;
  const engine::Keep keep = *engine::parse_keep(flags.keep);
  for (BenchRow& row : rows) {
    if (row.kind != BenchRow::Kind::kDecode || row.depth == 0 || row.keep > 0) continue;
    const double kept = keep.unit == engine::Keep::Unit::kTokens
                            ? keep.amount
                            : std::ceil(row.depth * keep.amount / 100);
    row.keep = static_cast<std::uint32_t>(std::min<double>(kept, row.depth));
  }
  return rows;
}

Status check(const BenchFlags& flags) {
  const auto refuse = [](const std::string& text) { return Status(Code::kInvalidArgument, text); };
  if (flags.engine.model.empty()) return refuse("--model is required");
  if (!flags.tests.empty() && crossed(flags)) {
    return refuse("--tests: names every row; -p, -n, -d and --parallel do so, too");
  }
  if (flags.quick && !default_rows(flags)) {
    return refuse("--quick: is a list of its own; give tests and --pairs instead");
  }
  if (bench_rows(flags).empty()) return refuse("-p, -n: 0 of both leaves nothing to measure");
  return {};
}

}  // namespace quire::cli
