// Flags of commands that run many requests at once: in which order, at which pace, with which of
// their rows shared.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "engine/engine.h"

namespace quire::cli {

struct LoopFlags {
  std::uint32_t max_running = engine::EngineOptions().max_running;
  std::string prefix_cache = "on", queue = "fcfs";
  float step_ms = 0;
};

void add_loop_flags(CLI::App& app, LoopFlags& flags);
// Of checked flags.
engine::EngineOptions loop_options(const LoopFlags& flags);

}  // namespace quire::cli
