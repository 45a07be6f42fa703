// The flags of `quire bench serve`.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "cli/bench_serve_summary.h"
#include "cli/bench_serve_trace.h"
#include "cli/flags.h"
#include "cli/loop_flags.h"
#include "engine/engine.h"

namespace quire::cli {

struct ServeFlags {
  EngineFlags engine;
  float rate = 0;                 // requests a second; 0: not given
  std::uint32_t concurrency = 0;  // 0: not given
  std::string trace;              // a file; empty: not given
  std::uint32_t requests = 0;     // 0: 32
  std::string prompt = "256:64", answer = "64:16", text;
  std::uint32_t shared = 0;  // first tokens that all prompts have in common
  LoopFlags loop;
  std::uint32_t seed = 1, reserve = engine::EngineOptions().reserve_tokens;
  std::string policy = "none", keep;
  float limit_ttft_ms = 0, limit_tpot_ms = 0;  // 0: none
  bool json = false;
  std::string report;  // a folder
};

void add_serve_flags(CLI::App& app, ServeFlags& flags);
// What can only be judged with all flags read; a refusal is a usage error that names the flag.
Status check(const ServeFlags& flags);
// Requests that are under way at once, or 0 where the trace has times.
std::uint32_t concurrency_of(const ServeFlags& flags);
// kIo and kInvalidArgument of a trace file.
Result<std::vector<Arrival>> trace_of(const ServeFlags& flags);
ServeLimits limits_of(const ServeFlags& flags);

}  // namespace quire::cli
