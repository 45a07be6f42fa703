// A GGUF model: tokens in, logits out, its attention served by a quire::Cache.
// The only room that says ggml or llama.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "linear/linear.h"
#include "quire/cache.h"
#include "quire/status.h"

namespace quire::model {

using Token = std::int32_t;

struct ModelOptions {
  std::string path;            // a GGUF file; of a split model, its first part
  std::uint32_t threads = 0;   // 0: the machine's cores
  bool deterministic = false;  // one row-independent linear path for every row count
  bool plain_weights = false;  // ggml multiplies, weights as the file has them (parity tests)
  Isa isa = Isa::kAuto;        // the best level of linear kernels to use
  // Steps of at least so many rows (as padded, see graph_set.h) take the linear kernels for chunks,
  // where the machine has some (AMX) and `deterministic` is off; `quire tune` measures it.
  std::uint32_t linear_chunk_rows = linear::kChunkRows;
  // Instead of the file's: a name that libllama knows ("chatml", "llama3"), or Jinja text.
  std::string chat_template{};
  std::function<bool(float)> progress{};  // 0 ... 1 while loading; false cancels
};

// What `quire inspect` prints about a model and the library around it.
struct ModelInfo {
  std::string name, architecture, quantization;
  std::uint32_t layers = 0, embedding = 0, feed_forward = 0, vocabulary = 0, context = 0;
  std::size_t file_bytes = 0;
  std::size_t weights_bytes = 0;  // mapped from the file and used as they are
  std::size_t copies_bytes = 0;   // in panels; their bytes of the file are let go
  std::uint64_t parameters = 0;
  std::vector<LayerShape> attention;  // one per layer; LayerShape::output reads the model's weights
  std::vector<std::pair<std::string, std::string>>
      linear;       // path -> which tensors (people read it)
  std::string isa;  // ggml's own level
};

// Rows that one sequence adds in a step, and which of them need logits.
struct Chunk {
  SequenceId sequence{};
  std::span<const Token> tokens;  // at the sequence's next positions
  bool answer = false;            // Segment::answer
  std::uint32_t window_rows = 0;  // Segment::window_rows
  std::uint32_t gate_rows = 0;    // Segment::gate_rows
  std::uint32_t logit_rows = 0;   // logits of the last this many rows
  // A NaN or infinity in these logits refuses the chunk alone: on_logits gets an empty span for the
  // row, and the step goes on.  The sequence is not worth anything after that.
  bool isolate = false;
};

class Model {
 public:
  // kCorrupt, kUnsupported, kNotFound, kIo: one line naming the file and the tensor, key or offset.
  static Result<std::unique_ptr<Model>> load(ModelOptions options);
  virtual ~Model() = default;

  virtual const ModelInfo& info() const = 0;
  virtual std::uint32_t threads() const = 0;
  // Graphs created so far: does not grow once every padded row count was seen.
  virtual std::uint32_t graphs() const = 0;

  // Connects the cache that serves this model's attention: opened with info().attention.
  virtual Status attach(Cache& cache) = 0;

  // One ragged step over all chunks: begin, forward pass, commit.  `on_logits(chunk, row, logits)`
  // is called in row order with `vocabulary` floats that are valid during the call.  On a refusal
  // (Cache::begin's, or kNumeric: a NaN or infinity in the logits of a chunk that is not isolated,
  // kCancelled) nothing was appended.
  using OnLogits =
      std::function<void(std::size_t chunk, std::uint32_t row, std::span<const float> logits)>;
  virtual Status forward(std::span<const Chunk> chunks, const OnLogits& on_logits) = 0;

  // --- text ---
  // Adds the begin-of-text token where the model wants it and `add_special` asks; `parse_special`
  // reads control tokens written as text.
  virtual std::vector<Token> tokenize(std::string_view text, bool add_special,
                                      bool parse_special) const = 0;
  virtual std::string piece(Token token,
                            bool special = false) const = 0;  // may be part of a UTF-8 letter
  virtual bool is_end(Token token) const = 0;                 // any end-of-generation token
  // The model's chat template over (role, text) pairs, ready for the assistant's turn.  kNotFound
  // when the file has none, kUnsupported when it cannot be rendered.  More: model/chat.h.
  virtual Result<std::string> chat(
      std::span<const std::pair<std::string, std::string>> messages) const = 0;

  // Between steps: every part of the work, on the model's threads.
  virtual void run_parts(const PartWork& work) { work(0, 1); }
  // Threads sleep between steps; with this they are also parked (nothing spins).
  virtual void pause() = 0;
  virtual void resume() = 0;
};

// Whether this machine can run the level of kernels.
bool machine_has(Isa isa);

// When a grammar begins to bind.  As it is: with the first token of the answer.
struct GrammarStart {
  // Free text until one of `words` appears, or `patterns` (ECMAScript) match all text so far; the
  // grammar reads from the word, or the pattern's first group, on.
  bool lazy = false;
  std::vector<std::string> words{}, patterns{};
  // Not lazy: the end of the prompt, which the grammar describes as well.
  std::string prefix{};
};

struct SamplerOptions {
  float temperature = 0.8f;  // 0: greedy
  std::int32_t top_k = 40;
  float top_p = 0.95f;
  float min_p = 0.05f;
  float repeat_penalty = 1.0f;
  // OpenAI's: a token that the answer has `count` times loses presence + count x frequency.
  float presence_penalty = 0, frequency_penalty = 0;
  std::vector<std::pair<Token, float>> logit_bias{};  // added to the logits of these tokens
  std::uint32_t seed = 0xFFFFFFFFu;                   // LLAMA_DEFAULT_SEED: a random one
  std::string grammar{};                              // GBNF; empty: none
  GrammarStart grammar_start{};
};

// libllama's sampler chain over one sequence.
class Sampler {
 public:
  static Result<std::unique_ptr<Sampler>> create(const Model& model, const SamplerOptions& options);
  virtual ~Sampler() = default;
  virtual Token sample(std::span<const float> logits) = 0;  // and accepts it
  virtual std::uint32_t seed() const = 0;                   // the one in use
  // The grammar allows no token of the vocabulary, or takes too long: sample() gave an
  // end-of-generation token, and the answer is not what was asked for.
  virtual bool stuck() const { return false; }
};

}  // namespace quire::model
