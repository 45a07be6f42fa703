// libllama's own decode of a model file, for benchmarks to compare with: its graph, its cache (f16,
// one stream per sequence or one for all, flash attention), its threads, its weights repacked as
// its build does.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "model/model.h"
#include "quire/status.h"

namespace quire::model {

constexpr std::uint32_t kMaxPeerSequences = 256;  // LLAMA_MAX_SEQ

// As it is used, or as a reference: an F32 cache, flash attention off.
enum class PeerCache : std::uint8_t { kF16, kF32 };

// A row of a step of several sequences.
struct PeerRow {
  std::uint32_t sequence = 0;
  Token token = 0;
  bool wanted = false;  // its logits
};

class Peer {
 public:
  // kUnsupported with libllama's reason.
  static Result<std::unique_ptr<Peer>> load(const std::string& path, std::uint32_t threads,
                                            PeerCache cache = PeerCache::kF16);
  virtual ~Peer() = default;

  // Room for `sequences` sequences (at most kMaxPeerSequences) of up to `tokens` tokens each, all
  // empty; what there was is forgotten.  A step takes up to `rows` rows.
  virtual Status open(std::uint32_t sequences, std::uint32_t tokens, std::uint32_t rows) = 0;
  // One cache of `cells` tokens (libllama rounds up to a multiple of 256) that all sequences share,
  // as its server's unified cache; a step takes up to `rows` rows, computed 512 at a time.
  virtual Status open_shared(std::uint32_t sequences, std::uint32_t cells, std::uint32_t rows) = 0;
  // Appends the tokens, at most `rows`, to one sequence; the last `wanted` of them get logits.
  virtual Status read(std::uint32_t sequence, std::span<const Token> tokens,
                      std::uint32_t wanted = 1) = 0;
  // Appends tokens[i] to sequence i, for each of the first tokens.size() sequences.
  virtual Status step(std::span<const Token> tokens) = 0;
  // Appends each row to its sequence.  kOutOfMemory: the cells do not hold them.
  virtual Status step(std::span<const PeerRow> rows) = 0;
  // Of row `index` of the last step() of tokens, or of the wanted ones of the last read() or step()
  // of rows: valid until the next call, one float per token of the vocabulary.
  virtual std::span<const float> logits(std::uint32_t index) = 0;
  // A sequence forgets all positions from `tokens` on.
  virtual void cut(std::uint32_t sequence, std::uint32_t tokens) = 0;
  // Gives `to` the entries of `from`, in memory of its own.
  virtual void copy(std::uint32_t from, std::uint32_t to) = 0;

  // The threads spin between steps, as libllama's do; parked, they leave the machine alone.
  virtual void pause() = 0;
  virtual void resume() = 0;
  // "CPU : AVX2 = 1 | ...": what its build may use on this machine.
  virtual std::string system_info() const = 0;
};

}  // namespace quire::model
