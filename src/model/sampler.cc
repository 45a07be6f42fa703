#include <algorithm>
#include <cmath>
#include <exception>
#include <random>
#include <string>
#include <unordered_map>

#include "llama-cpp.h"
#include "llama.h"
#include "model/grammar_filter.h"
#include "model/model_impl.h"

namespace quire::model {
namespace {

constexpr std::int32_t kPenaltyWindow = 64;  // libllama's default for its repeat penalty

class ChainSampler final : public Sampler {
 public:
  ChainSampler(llama_sampler* chain, std::unique_ptr<GrammarFilter> grammar,
               const llama_vocab* vocab, const SamplerOptions& options, std::uint32_t seed)
      : chain_(chain),
        grammar_(std::move(grammar)),
        vocab_(vocab),
        bias_(options.logit_bias),
        presence_(options.presence_penalty),
        frequency_(options.frequency_penalty),
        seed_(seed) {}

  Token sample(std::span<const float> logits) override {
    if (stuck_) return llama_vocab_eos(vocab_);
    try {
      Token token = draw(logits, false);
      // One token is checked in no time, the whole vocabulary only where it is not allowed: the
      // same distribution, as what was drawn and refused is drawn again among the others.
      if (grammar_ && token != LLAMA_TOKEN_NULL && !grammar_->allows(token)) {
        token = draw(logits, true);
      }
      if (token != LLAMA_TOKEN_NULL && (!grammar_ || grammar_->accept(token))) {
        llama_sampler_accept(chain_.get(), token);
        if (presence_ != 0 || frequency_ != 0) ++counts_[token];
        stuck_ |= grammar_ && grammar_->too_slow();
        if (!stuck_) return token;
      }
    } catch (const std::exception&) {
    }
    stuck_ |= grammar_ != nullptr;
    return llama_vocab_eos(vocab_);
  }

  std::uint32_t seed() const override { return seed_; }
  bool stuck() const override { return stuck_; }

 private:
  // LLAMA_TOKEN_NULL: there is none.
  Token draw(std::span<const float> logits, bool masked) {
    candidates_.clear();
    for (const float logit : logits) {
      candidates_.push_back({static_cast<llama_token>(candidates_.size()), logit, 0});
    }
    adjust();
    llama_token_data_array array{candidates_.data(), candidates_.size(), -1, false};
    if (masked) {
      grammar_->mask(array);
      const auto none = [](const llama_token_data& one) { return !std::isfinite(one.logit); };
      if (std::all_of(candidates_.begin(), candidates_.end(), none)) return LLAMA_TOKEN_NULL;
    }
    llama_sampler_apply(chain_.get(), &array);
    if (array.selected < 0) return LLAMA_TOKEN_NULL;
    const llama_token_data& selected = array.data[array.selected];
    return std::isnan(selected.logit) || selected.logit == -INFINITY ? LLAMA_TOKEN_NULL
                                                                     : selected.id;
  }

  void adjust() {
    for (const auto& [token, bias] : bias_)
      candidates_[static_cast<std::size_t>(token)].logit += bias;
    for (const auto& [token, count] : counts_) {
      candidates_[static_cast<std::size_t>(token)].logit -=
          presence_ + frequency_ * static_cast<float>(count);
    }
  }

  llama_sampler_ptr chain_;
  std::unique_ptr<GrammarFilter> grammar_;
  const llama_vocab* vocab_;
  const std::vector<std::pair<Token, float>> bias_;
  const float presence_, frequency_;
  std::unordered_map<Token, std::uint32_t> counts_;  // of the answer, while there is a penalty
  const std::uint32_t seed_;
  bool stuck_ = false;
  std::vector<llama_token_data> candidates_;
};

Status check(const SamplerOptions& options, std::int32_t vocabulary) {
  const auto refuse = [](const char* field) {
    return Status(Code::kInvalidArgument, std::string("sampler option ") + field);
  };
  if (!(options.temperature >= 0)) return refuse("temperature must be 0 or more");
  if (!(options.top_p > 0 && options.top_p <= 1)) return refuse("top_p must be in (0, 1]");
  if (!(options.min_p >= 0 && options.min_p <= 1)) return refuse("min_p must be in [0, 1]");
  if (!(options.repeat_penalty > 0)) return refuse("repeat_penalty must be positive");
  if (!std::isfinite(options.presence_penalty) || !std::isfinite(options.frequency_penalty)) {
    return refuse("presence_penalty and frequency_penalty must be finite");
  }
  for (const auto& [token, bias] : options.logit_bias) {
    if (token >= 0 && token < vocabulary && std::isfinite(bias)) continue;
    return {Code::kInvalidArgument, "logit_bias: token " + std::to_string(token) +
                                        " is not in the vocabulary of " +
                                        std::to_string(vocabulary)};
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Sampler>> Sampler::create(const Model& model,
                                                 const SamplerOptions& options) {
  const auto vocabulary = static_cast<std::int32_t>(model.info().vocabulary);
  if (Status status = check(options, vocabulary); !status.ok()) return status;
  const auto* loaded = dynamic_cast<const GgufModel*>(&model);
  if (loaded == nullptr) {
    return Status(Code::kInvalidArgument, "model: not one that Model::load() made");
  }
  const llama_vocab* vocab = loaded->vocab();
  llama_sampler_ptr chain(llama_sampler_chain_init(llama_sampler_chain_default_params()));
  const auto add = [&](llama_sampler* link) { llama_sampler_chain_add(chain.get(), link); };
  std::unique_ptr<GrammarFilter> grammar;
  if (!options.grammar.empty()) {
    Result<std::unique_ptr<GrammarFilter>> made =
        GrammarFilter::create(loaded->text(), options.grammar, options.grammar_start);
    if (!made.ok()) return made.status();
    grammar = *std::move(made);
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
  std::unique_ptr<Sampler> sampler =
      std::make_unique<ChainSampler>(chain.release(), std::move(grammar), vocab, options, seed);
  return sampler;
}

}  // namespace quire::model
