#include "model/peer.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ggml-cpu.h"
#include "llama-cpp.h"
#include "llama.h"
#include "model/text.h"

namespace quire::model {
namespace {

// What libllama rounds the cells of a stream to.
std::uint32_t rounded(std::uint32_t cells) {
  return std::max(1u, (cells + 255) / 256) * 256;
}

constexpr std::uint32_t kSharedRows = 512;  // its own default of rows computed together

struct FreeThreads {
  void operator()(ggml_threadpool* pool) const { ggml_threadpool_free(pool); }
};

class LlamaPeer final : public Peer {
 public:
  LlamaPeer(llama_model_ptr model, std::uint32_t threads, PeerCache cache)
      : model_(std::move(model)), threads_(threads), cache_(cache) {
    ggml_threadpool_params params = ggml_threadpool_params_default(static_cast<int>(threads));
    params.paused = true;
    pool_.reset(ggml_threadpool_new(&params));
  }

  Status open(std::uint32_t sequences, std::uint32_t tokens, std::uint32_t rows) override;
  Status open_shared(std::uint32_t sequences, std::uint32_t cells, std::uint32_t rows) override;
  Status read(std::uint32_t sequence, std::span<const Token> tokens, std::uint32_t wanted) override;
  Status step(std::span<const Token> tokens) override;
  Status step(std::span<const PeerRow> rows) override;
  std::span<const float> logits(std::uint32_t index) override {
    const llama_vocab* vocab = llama_model_get_vocab(model_.get());
    return {llama_get_logits_ith(context_.get(), static_cast<std::int32_t>(wanted_[index])),
            static_cast<std::size_t>(llama_vocab_n_tokens(vocab))};
  }
  void cut(std::uint32_t sequence, std::uint32_t tokens) override {
    (void)llama_memory_seq_rm(llama_get_memory(context_.get()), id(sequence), id(tokens), -1);
    lengths_[sequence] = tokens;
  }
  void copy(std::uint32_t from, std::uint32_t to) override {
    llama_memory_seq_cp(llama_get_memory(context_.get()), id(from), id(to), -1, -1);
    lengths_[to] = lengths_[from];
  }

  void pause() override { ggml_threadpool_pause(pool_.get()); }
  void resume() override { ggml_threadpool_resume(pool_.get()); }
  std::string system_info() const override {
    std::string info = llama_print_system_info();  // "... | REPACK = 1 | "
    while (info.ends_with(' ') || info.ends_with('|')) info.pop_back();
    return info;
  }

 private:
  static std::int32_t id(std::uint32_t number) { return static_cast<std::int32_t>(number); }
  llama_context_params params_of(std::uint32_t sequences, std::uint32_t rows) const;
  Status make(const llama_context_params& params);
  void add(Token token, std::uint32_t sequence, bool logits);
  Status decode();

  llama_model_ptr model_;
  std::uint32_t threads_;
  PeerCache cache_;
  std::unique_ptr<ggml_threadpool, FreeThreads> pool_;
  llama_context_ptr context_;
  std::vector<std::uint32_t> lengths_;  // of the sequences

  // The batch being computed, a column per field; kept for its memory.
  std::vector<Token> tokens_;
  std::vector<llama_pos> positions_;
  std::vector<llama_seq_id> ids_;
  std::vector<llama_seq_id*> id_lists_;
  std::vector<std::int32_t> id_counts_;
  std::vector<std::int8_t> logits_;
  std::vector<std::uint32_t> wanted_;  // rows with logits
};

llama_context_params LlamaPeer::params_of(std::uint32_t sequences, std::uint32_t rows) const {
  llama_context_params params = llama_context_default_params();
  params.n_seq_max = sequences;
  params.n_batch = params.n_ubatch = rows;
  params.n_threads = params.n_threads_batch = id(threads_);
  const bool exact = cache_ == PeerCache::kF32;
  params.flash_attn_type = exact ? LLAMA_FLASH_ATTN_TYPE_DISABLED : LLAMA_FLASH_ATTN_TYPE_ENABLED;
  params.type_k = params.type_v = exact ? GGML_TYPE_F32 : GGML_TYPE_F16;
  return params;
}

Status LlamaPeer::make(const llama_context_params& params) {
  context_.reset();
  (void)take_library_error();
  context_.reset(llama_init_from_model(model_.get(), params));
  if (context_ == nullptr) {
    return {Code::kUnsupported, "libllama makes no context (" + take_library_error() + ")"};
  }
  llama_attach_threadpool(context_.get(), pool_.get(), nullptr);
  lengths_.assign(params.n_seq_max, 0);
  return {};
}

Status LlamaPeer::open(std::uint32_t sequences, std::uint32_t tokens, std::uint32_t rows) {
  llama_context_params params = params_of(sequences, rows);
  // Padded to what libllama rounds a stream to, which would otherwise take it from others.
  params.n_ctx = rounded(tokens) * sequences;
  params.kv_unified = false;  // unified, every sequence would walk the cells of all others
  return make(params);
}

Status LlamaPeer::open_shared(std::uint32_t sequences, std::uint32_t cells, std::uint32_t rows) {
  llama_context_params params = params_of(sequences, rows);
  params.n_ctx = rounded(cells);
  params.n_ubatch = std::min(rows, kSharedRows);
  params.kv_unified = true;
  return make(params);
}

void LlamaPeer::add(Token token, std::uint32_t sequence, bool logits) {
  if (logits) wanted_.push_back(static_cast<std::uint32_t>(tokens_.size()));
  tokens_.push_back(token);
  positions_.push_back(id(lengths_[sequence]++));
  ids_.push_back(id(sequence));
  id_counts_.push_back(1);
  logits_.push_back(logits ? 1 : 0);
}

Status LlamaPeer::decode() {
  id_lists_.clear();
  for (llama_seq_id& one : ids_) id_lists_.push_back(&one);
  const llama_batch batch{.n_tokens = id(static_cast<std::uint32_t>(tokens_.size())),
                          .token = tokens_.data(),
                          .embd = nullptr,
                          .pos = positions_.data(),
                          .n_seq_id = id_counts_.data(),
                          .seq_id = id_lists_.data(),
                          .logits = logits_.data()};
  const int code = llama_decode(context_.get(), batch);
  tokens_.clear();
  positions_.clear();
  ids_.clear();
  id_counts_.clear();
  logits_.clear();
  if (code == 0) return {};
  if (code == 1) return {Code::kOutOfMemory, "libllama has no cells for a step"};
  return {Code::kUnsupported, "libllama does not decode a step: " + std::to_string(code)};
}

Status LlamaPeer::read(std::uint32_t sequence, std::span<const Token> tokens,
                       std::uint32_t wanted) {
  wanted_.clear();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    add(tokens[i], sequence, i + wanted >= tokens.size());
  }
  return decode();
}

Status LlamaPeer::step(std::span<const Token> tokens) {
  wanted_.clear();
  for (std::uint32_t i = 0; i < tokens.size(); ++i) add(tokens[i], i, true);
  return decode();
}

Status LlamaPeer::step(std::span<const PeerRow> rows) {
  wanted_.clear();
  for (const PeerRow& row : rows) add(row.token, row.sequence, row.wanted);
  return decode();
}

}  // namespace

Result<std::unique_ptr<Peer>> Peer::load(const std::string& path, std::uint32_t threads,
                                         PeerCache cache) {
  silence_libraries();
  (void)take_library_error();
  llama_model_params params = llama_model_default_params();
  params.progress_callback = [](float, void*) { return true; };
  llama_model_ptr model(llama_model_load_from_file(path.c_str(), params));
  if (model == nullptr) {
    return Status(Code::kUnsupported,
                  path + ": libllama does not load it (" + take_library_error() + ")");
  }
  return std::unique_ptr<Peer>(std::make_unique<LlamaPeer>(std::move(model), threads, cache));
}

}  // namespace quire::model
