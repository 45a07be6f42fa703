// libllama's side of a benchmark: as llama-bench runs it, with the chunk and threads of our side.

#include <algorithm>
#include <chrono>

#include "cli/bench_arm.h"
#include "model/peer.h"

namespace quire::cli {
namespace {

using Clock = std::chrono::steady_clock;
using model::Token;

constexpr std::uint32_t kWarmSteps = 2;
constexpr std::uint32_t kTextTokens = 512;

class LlamaArm final : public Arm {
 public:
  LlamaArm(std::unique_ptr<model::Peer> peer, const BenchOptions& options, std::uint32_t vocabulary)
      : peer_(std::move(peer)),
        rows_(options.rows),
        chunk_(options.engine.chunk),
        vocabulary_(vocabulary) {}

  Status prepare(const BenchRow& row, const OnTokens& on_tokens) override;
  Result<double> run(const BenchRow& row) override { return timed(row, row.tokens); }
  Result<std::vector<float>> logits_after(std::span<const Token> tokens, bool first) override;
  void pause() override { peer_->pause(); }
  void resume() override { peer_->resume(); }

 private:
  Status read(std::span<const Token> tokens, const OnTokens& on_tokens);
  Status decode(const BenchRow& row, std::uint32_t steps);
  Result<double> timed(const BenchRow& row, std::uint32_t tokens);

  std::unique_ptr<model::Peer> peer_;
  std::vector<BenchRow> rows_;
  std::uint32_t chunk_, vocabulary_;
  std::uint32_t batch_ = 0, depth_ = 0;  // sequences of the open context, tokens in each
  float sink_ = 0;
};

// Into sequence 0.
Status LlamaArm::read(std::span<const Token> tokens, const OnTokens& on_tokens) {
  for (std::size_t at = 0; at < tokens.size();) {
    const std::size_t rows = std::min<std::size_t>(chunk_, tokens.size() - at);
    if (Status status = peer_->read(0, tokens.subspan(at, rows)); !status.ok()) return status;
    at += rows;
    if (on_tokens) on_tokens(at, tokens.size());
  }
  sink_ += peer_->logits(0)[0];
  return {};
}

Status LlamaArm::prepare(const BenchRow& row, const OnTokens& on_tokens) {
  if (batch_ != row.batch) {
    const std::uint32_t rows = std::max(chunk_, row.batch);
    batch_ = depth_ = 0;
    if (Status status = peer_->open(row.batch, bench_length(rows_, row.batch), rows);
        !status.ok()) {
      return status;
    }
    batch_ = row.batch;
  }
  if (depth_ > row.depth) {
    depth_ = row.depth;
    for (std::uint32_t i = 0; i < batch_; ++i) peer_->cut(i, depth_);
  }
  if (depth_ < row.depth) {
    const std::vector<Token> tokens = bench_tokens(0, depth_, row.depth - depth_, vocabulary_);
    if (Status status = read(tokens, on_tokens); !status.ok()) return status;
    depth_ = row.depth;
    // The same text for all, each in memory of its own: the traffic of a step is that of texts
    // that differ.
    for (std::uint32_t i = 1; i < batch_; ++i) peer_->copy(0, i);
  }
  const std::uint32_t warm = row.kind == BenchRow::Kind::kPrefill ? chunk_ : kWarmSteps;
  return timed(row, std::min(warm, row.tokens)).status();
}

Status LlamaArm::decode(const BenchRow& row, std::uint32_t steps) {
  std::vector<Token> tokens(row.batch);
  for (std::uint32_t step = 0; step < steps; ++step) {
    for (std::uint32_t i = 0; i < row.batch; ++i) {
      tokens[i] = bench_token(i, row.depth + step, vocabulary_);
    }
    if (Status status = peer_->step(tokens); !status.ok()) return status;
    for (std::uint32_t i = 0; i < row.batch; ++i) sink_ += peer_->logits(i)[0];
  }
  return {};
}

Result<double> LlamaArm::timed(const BenchRow& row, std::uint32_t tokens) {
  const bool prefill = row.kind == BenchRow::Kind::kPrefill;
  const std::vector<Token> prompt = bench_tokens(0, row.depth, prefill ? tokens : 0, vocabulary_);
  const Clock::time_point start = Clock::now();
  const Status status = prefill ? read(prompt, nullptr) : decode(row, tokens);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  for (std::uint32_t i = 0; i < batch_; ++i) peer_->cut(i, depth_);
  if (!status.ok()) return status;
  return seconds;
}

Result<std::vector<float>> LlamaArm::logits_after(std::span<const Token> tokens, bool first) {
  if (first) {
    batch_ = depth_ = 0;
    if (Status status = peer_->open(1, kTextTokens, chunk_); !status.ok()) return status;
  }
  if (Status status = peer_->read(0, tokens); !status.ok()) return status;
  const std::span<const float> logits = peer_->logits(0);
  return std::vector<float>(logits.begin(), logits.end());
}

}  // namespace

Result<PeerArm> llama_arm(const model::Model& model, const BenchOptions& options) {
  Result<std::unique_ptr<model::Peer>> peer =
      model::Peer::load(options.engine.model, model.threads());
  if (!peer.ok()) return peer.status();
  PeerArm made{.arm = nullptr, .system_info = (*peer)->system_info()};
  made.arm = std::make_unique<LlamaArm>(*std::move(peer), options, model.info().vocabulary);
  return made;
}

}  // namespace quire::cli
