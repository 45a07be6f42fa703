// Runs a trace through the engine, without HTTP, and records what happened.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "cli/bench_serve_summary.h"
#include "cli/bench_serve_trace.h"
#include "cli/open_engine.h"
#include "engine/engine.h"

namespace quire::cli {

struct ServeRun {
  std::vector<Arrival> trace;
  // 0: requests come when the trace says; else the next one comes when fewer than so many are under
  // way.
  std::uint32_t concurrency = 0;
  engine::EngineOptions loop{};  // its clock and on_step are the run's own
  // Of every request; max_tokens is the trace's, and no answer ends before it.
  engine::GenerateOptions options{};
  std::function<void(std::size_t ended, std::size_t running)> on_progress{};  // after every step
  const std::atomic<bool>* cancel = nullptr;
};

struct ServeRecord {
  std::vector<ServedRequest> requests;  // as in the trace
  std::vector<ServeSample> samples;
  engine::EngineStats stats;
  CacheStats cache;  // at the end
};

// kCancelled when `cancel` was raised; the engine's refusals to open.
Result<ServeRecord> serve_trace(Engine& engine, const PromptMaker& prompts, const ServeRun& run);

}  // namespace quire::cli
