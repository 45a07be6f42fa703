// The probabilities a model gave to the tokens of an answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/generate.h"
#include "model/model.h"

namespace quire::serve {

// Natural logarithms of the model's own distribution: before temperature, penalties, biases and
// grammar, which is what vLLM calls raw.
struct TokenLogprob {
  struct Other {
    std::string bytes;  // of the token, which may be part of a letter
    float logprob = 0;
  };
  std::string bytes;
  float logprob = 0;
  std::vector<Other> top;  // the likeliest, best first

  std::size_t weight() const { return 64 + bytes.size() + 64 * top.size(); }  // bytes it takes
};

TokenLogprob logprob_of(const model::Model& model, std::span<const float> logits,
                        model::Token token, std::uint32_t top);

// Has `options` tell `told` of each token of the answer; the sampler stays what it was.
void watch_logprobs(std::uint32_t top, std::function<void(TokenLogprob)> told,
                    engine::GenerateOptions& options);

// choices[].logprobs of a chat: {content: [{token, logprob, bytes, top_logprobs}], refusal}.
nlohmann::ordered_json chat_logprobs_json(std::span<const TokenLogprob> tokens);
// Of a completion: {tokens, token_logprobs, top_logprobs, text_offset}.  `offset`: letters of the
// answer before these tokens, moved on.
nlohmann::ordered_json text_logprobs_json(std::span<const TokenLogprob> tokens,
                                          std::size_t& offset);

}  // namespace quire::serve
