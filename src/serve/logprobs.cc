#include "serve/logprobs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include "engine/utf8.h"

namespace quire::serve {
namespace {

using json = nlohmann::ordered_json;

constexpr float kLeast = -9999;  // OpenAI's for what cannot be; JSON has no infinity

double log_sum(std::span<const float> logits) {
  const float most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit - most));
  return most + std::log(sum);
}

class WatchedSampler final : public model::Sampler {
 public:
  WatchedSampler(std::unique_ptr<model::Sampler> inner, const model::Model& model,
                 std::uint32_t top, std::shared_ptr<std::optional<TokenLogprob>> last)
      : inner_(std::move(inner)), model_(model), top_(top), last_(std::move(last)) {}

  model::Token sample(std::span<const float> logits) override {
    const model::Token token = inner_->sample(logits);
    *last_ = logprob_of(model_, logits, token, top_);
    return token;
  }
  std::uint32_t seed() const override { return inner_->seed(); }

 private:
  std::unique_ptr<model::Sampler> inner_;
  const model::Model& model_;
  const std::uint32_t top_;
  std::shared_ptr<std::optional<TokenLogprob>> last_;
};

json bytes_json(const std::string& bytes) {
  json list = json::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return list;
}

// OpenAI's: what is no text on its own is written as bytes, so that no two look alike.
std::string text_or_bytes(const std::string& bytes) {
  engine::Utf8Stream whole;
  if (whole.push(bytes) + whole.finish() == bytes) return bytes;
  std::string text = "bytes:";
  for (const char c : bytes) {
    char hex[8];
    std::snprintf(hex, sizeof(hex), "\\x%02x", static_cast<unsigned char>(c));
    text += hex;
  }
  return text;
}

std::size_t letters(const std::string& bytes) {
  return static_cast<std::size_t>(std::ranges::count_if(
      bytes, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

TokenLogprob logprob_of(const model::Model& model, std::span<const float> logits,
                        model::Token token, std::uint32_t top) {
  const double sum = log_sum(logits);
  const auto of = [&](model::Token t) {
    const auto value = static_cast<float>(logits[static_cast<std::size_t>(t)] - sum);
    return std::isfinite(value) ? std::max(value, kLeast) : kLeast;
  };
  TokenLogprob found{.bytes = model.piece(token, true), .logprob = of(token)};
  std::vector<model::Token> order(top > 0 ? logits.size() : 0);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<model::Token>(i);
  const std::size_t count = std::min<std::size_t>(top, order.size());
  const auto better = [&](model::Token a, model::Token b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(count);
  if (count > 0) std::partial_sort(order.begin(), end, order.end(), better);
  for (auto at = order.begin(); at != end; ++at) {
    found.top.push_back({model.piece(*at, true), of(*at)});
  }
  return found;
}

void watch_logprobs(std::uint32_t top, std::function<void(TokenLogprob)> told,
                    engine::GenerateOptions& options) {
  const auto last = std::make_shared<std::optional<TokenLogprob>>();
  const auto make = options.make_sampler;
  options.make_sampler =
      [make, top, last](
          const model::Model& with,
          const model::SamplerOptions& sampler) -> Result<std::unique_ptr<model::Sampler>> {
    Result<std::unique_ptr<model::Sampler>> inner =
        make ? make(with, sampler) : model::Sampler::create(with, sampler);
    if (!inner.ok()) return inner.status();
    std::unique_ptr<model::Sampler> watched =
        std::make_unique<WatchedSampler>(*std::move(inner), with, top, last);
    return watched;
  };
  const auto also = options.on_token;
  options.on_token = [last, also, told = std::move(told)](model::Token token) {
    if (also) also(token);
    if (*last) told(*std::exchange(*last, std::nullopt));
  };
}

json chat_logprobs_json(std::span<const TokenLogprob> tokens) {
  json content = json::array();
  for (const TokenLogprob& token : tokens) {
    json top = json::array();
    for (const TokenLogprob::Other& other : token.top) {
      top.push_back(
          {{"token", other.bytes}, {"logprob", other.logprob}, {"bytes", bytes_json(other.bytes)}});
    }
    content.push_back({{"token", token.bytes},
                       {"logprob", token.logprob},
                       {"bytes", bytes_json(token.bytes)},
                       {"top_logprobs", std::move(top)}});
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

json text_logprobs_json(std::span<const TokenLogprob> tokens, std::size_t& offset) {
  json texts = json::array(), logprobs = json::array(), tops = json::array();
  json offsets = json::array();
  for (const TokenLogprob& token : tokens) {
    texts.push_back(text_or_bytes(token.bytes));
    logprobs.push_back(token.logprob);
    json top = json::object();
    for (const TokenLogprob::Other& other : token.top)
      top[text_or_bytes(other.bytes)] = other.logprob;
    tops.push_back(std::move(top));
    offsets.push_back(offset);
    offset += letters(token.bytes);
  }
  return {{"tokens", std::move(texts)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

}  // namespace quire::serve
