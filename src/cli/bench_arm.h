// The engines that `quire bench` compares, each doing the same rows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/bench_rows.h"
#include "cli/flags.h"
#include "cli/open_engine.h"
#include "model/model.h"
#include "quire/policy.h"
#include "quire/status.h"

namespace quire::cli {

struct BenchOptions {
  EngineFlags engine;
  std::vector<BenchRow> rows;
  std::string policy = "h2o";  // of rows with keep
};

using OnTokens = std::function<void(std::uint64_t done, std::uint64_t total)>;

class Arm {
 public:
  virtual ~Arm() = default;

  // Reads what the row's depth asks for, reading on from the row before where that serves; then a
  // short untimed run.
  virtual Status prepare(const BenchRow& row, const OnTokens& on_tokens) = 0;
  // Does the prepared row's work once and forgets it again: seconds of the work alone.
  virtual Result<double> run(const BenchRow& row) = 0;

  // Appends tokens to a text of their own, begun anew with `first`: logits after the last.
  virtual Result<std::vector<float>> logits_after(std::span<const model::Token> tokens,
                                                  bool first) = 0;

  // Between pause() and resume() no thread of the engine runs.
  virtual void pause() = 0;
  virtual void resume() = 0;
};

// quire itself, on `engine`, whose cache it replaces by one that holds every row.
Result<std::unique_ptr<Arm>> quire_arm(Engine& engine, const BenchOptions& options);
// libllama on the same file.
struct PeerArm {
  std::unique_ptr<Arm> arm;
  std::string system_info;
};
Result<PeerArm> llama_arm(const model::Model& model, const BenchOptions& options);

// The token at a position of a sequence's random text: the same for every engine.
model::Token bench_token(std::uint32_t sequence, std::uint32_t position, std::uint32_t vocabulary);
// The same for positions [first, first + count).
std::vector<model::Token> bench_tokens(std::uint32_t sequence, std::uint32_t first,
                                       std::uint32_t count, std::uint32_t vocabulary);

// Positions that the longest row of so many sequences reaches.
std::uint32_t bench_length(const std::vector<BenchRow>& rows, std::uint32_t batch);

}  // namespace quire::cli
