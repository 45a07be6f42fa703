#include <exception>
#include <random>

#include "llama-cpp.h"
#include "llama.h"
#include "model/model_impl.h"

namespace quire::model {
namespace {

constexpr std::int32_t kPenaltyWindow = 64;  // libllama's default for its repeat penalty

class ChainSampler final : public Sampler {
 public:
  ChainSampler(llama_sampler* chain, const llama_vocab* vocab, std::uint32_t seed)
      : chain_(chain), vocab_(vocab), seed_(seed) {}

  Token sample(std::span<const float> logits) override {
    candidates_.clear();
    for (const float logit : logits) {
      candidates_.push_back({static_cast<llama_token>(candidates_.size()), logit, 0});
    }
    llama_token_data_array array{candidates_.data(), candidates_.size(), -1, false};
    try {
      llama_sampler_apply(chain_.get(), &array);
      if (array.selected < 0) return llama_vocab_eos(vocab_);
      const Token token = array.data[array.selected].id;
      llama_sampler_accept(chain_.get(), token);
      return token;
    } catch (const std::exception&) {
      return llama_vocab_eos(vocab_);  // a grammar that nothing can follow
    }
  }

  std::uint32_t seed() const override { return seed_; }

 private:
  llama_sampler_ptr chain_;
  const llama_vocab* vocab_;
  std::uint32_t seed_;
  std::vector<llama_token_data> candidates_;
};

Status check(const SamplerOptions& options) {
  const auto refuse = [](const char* field) {
    return Status(Code::kInvalidArgument, std::string("sampler option ") + field);
  };
  if (!(options.temperature >= 0)) return refuse("temperature must be 0 or more");
  if (!(options.top_p > 0 && options.top_p <= 1)) return refuse("top_p must be in (0, 1]");
  if (!(options.min_p >= 0 && options.min_p <= 1)) return refuse("min_p must be in [0, 1]");
  if (!(options.repeat_penalty > 0)) return refuse("repeat_penalty must be positive");
  return {};
}

}  // namespace

Result<std::unique_ptr<Sampler>> Sampler::create(const Model& model,
                                                 const SamplerOptions& options) {
  if (Status status = check(options); !status.ok()) return status;
  const auto* loaded = dynamic_cast<const GgufModel*>(&model);
  if (loaded == nullptr) {
    return Status(Code::kInvalidArgument, "model: not one that Model::load() made");
  }
  const llama_vocab* vocab = loaded->vocab();
  llama_sampler_ptr chain(llama_sampler_chain_init(llama_sampler_chain_default_params()));
  const auto add = [&](llama_sampler* link) { llama_sampler_chain_add(chain.get(), link); };
  if (!options.grammar.empty()) {
    (void)take_library_error();
    llama_sampler* grammar = nullptr;
    try {
      grammar = llama_sampler_init_grammar(vocab, options.grammar.c_str(), "root");
    } catch (const std::exception&) {
    }
    if (grammar == nullptr) {
      return Status(Code::kInvalidArgument, "grammar: " + take_library_error());
    }
    add(grammar);
  }
  if (options.repeat_penalty != 1) {
    add(llama_sampler_init_penalties(llama_vocab_n_tokens(vocab), kPenaltyWindow,
                                     options.repeat_penalty, 0, 0));
  }
  std::uint32_t seed = options.seed;
  if (options.temperature == 0) {
    add(llama_sampler_init_greedy());
  } else {
    if (seed == LLAMA_DEFAULT_SEED) seed = std::random_device{}();
    if (options.top_k > 0) add(llama_sampler_init_top_k(options.top_k));
    if (options.top_p < 1) add(llama_sampler_init_top_p(options.top_p, 1));
    if (options.min_p > 0) add(llama_sampler_init_min_p(options.min_p, 1));
    add(llama_sampler_init_temp(options.temperature));
    add(llama_sampler_init_dist(seed));
  }
  std::unique_ptr<Sampler> sampler = std::make_unique<ChainSampler>(chain.release(), vocab, seed);
  return sampler;
}

}  // namespace quire::model
