// The flags of `quire bench`.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/bench_rows.h"
#include "cli/flags.h"

namespace quire::cli {

struct BenchFlags {
  EngineFlags engine;
  std::string tests, vs, policy = "h2o", keep;
  std::vector<std::uint32_t> prompts, generations, depths, parallel;  // empty: not given
  std::uint32_t pairs = 0;                                            // 0: 7, or 3 with --quick
  bool quick = false, json = false;
};

void add_bench_flags(CLI::App& app, BenchFlags& flags);

// What can only be judged with all flags read; a refusal is a usage error that names the flag.
Status check(const BenchFlags& flags);
// The rows of checked flags.
std::vector<BenchRow> bench_rows(const BenchFlags& flags);
// True when the rows are a default list, of which a model runs those that fit its context.
bool default_rows(const BenchFlags& flags);

}  // namespace quire::cli
