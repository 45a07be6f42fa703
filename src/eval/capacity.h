// How many requests a pool serves at once, and how fast, under each way to reclaim memory (vToken,
// arXiv 2608.13263, section 5): all arrive together, half of what each has read is kept.
//   full     nothing is evicted: the native cache
//   whole    the policy's victims free blocks whose entries are all dead
//   repack   and survivors of sparse blocks move together
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "eval/log.h"
#include "model/model.h"
#include "quire/cache.h"

namespace quire::eval {

// Thresholds, fixed before any run.
constexpr double kConcurrencyVsFullLeast = 2.0;   // repack, medians over seeds
constexpr double kConcurrencyVsWholeLeast = 1.5;  // likewise
constexpr double kThroughputVsWholeLeast = 1.37;  // repack, where p95 allows: see kLatencyMost
constexpr double kThroughputCellLeast = 0.97;     // no cell below
constexpr double kLatencyMost = 1.05;             // p95 of a request, of the native cache's

struct CapacityOptions {
  std::string text;
  std::uint32_t prompt = 512, answer = 512, requests = 16, seeds = 1, block_tokens = 16;
  double evicted = 0.5;
  std::vector<double> pools = {0.35, 0.5};  // of what all requests would hold
  std::vector<std::string> policies = {"random", "h2o"};
  // As in engine::GenerateOptions; null: the model's own, greedy.
  std::function<Result<std::unique_ptr<model::Sampler>>(const model::Model& model,
                                                        const model::SamplerOptions& options)>
      make_sampler{};
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(double share, const std::string& doing)> on_progress{};
};

struct CapacityCell {
  std::string policy, arm;
  double pool = 0;
  std::uint32_t seed = 0;
  std::size_t pool_bytes = 0;
  // The most requests that ran together, each from its first row to its last without waiting for
  // room: as many as the bytes of one promise, less one each time that a run had one wait.
  std::uint32_t concurrency = 0;
  double tok_s = 0;        // prompts and answers, all requests, first arrival to last token
  double latency_p95 = 0;  // seconds of a request, from arrival to its last token
  std::uint64_t moved_bytes = 0, preemptions = 0, pauses = 0;
};

struct CapacityReport {
  std::vector<CapacityCell> cells;
  // The least over policies and pools of medians over seeds.
  double concurrency_vs_full = 0, concurrency_vs_whole = 0, throughput_vs_whole = 0;
  double latency_vs_full = 0;        // the most: p95 of repack to that of full
  double worst_throughput_cell = 0;  // the least ratio of repack to whole in any seed
};

// The model is left without a cache.  kInvalidArgument: a text too short for the prompts.
Result<CapacityReport> measure_capacity(model::Model& model, const CacheOptions& like,
                                        const CapacityOptions& options);

}  // namespace quire::eval
