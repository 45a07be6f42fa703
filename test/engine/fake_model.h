// A made-up decoder over a real cache: two layers whose q, k and v come from a hash of token and
// layer, logits a fixed projection of what attention returned.  Enough for a wrong row, position or
// review to change the answer, and it counts what the engine asked of it.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "model/model.h"
#include "support/layer_words.h"

namespace quire::test {

constexpr std::uint32_t kVocabulary = 48, kHeadSize = 64, kKvHeads = 2, kQueryHeads = 4,
                        kLayers = 2;
constexpr model::Token kEnd = kVocabulary - 1;

inline std::vector<LayerShape> fake_attention() {
  return std::vector<LayerShape>(kLayers, {.kv_heads = kKvHeads,
                                           .query_heads = kQueryHeads,
                                           .key_size = kHeadSize,
                                           .value_size = kHeadSize,
                                           .rope = made_up_rope(true, kHeadSize),
                                           .output = made_up_output(kQueryHeads * kHeadSize)});
}

// A number in [-1, 1) that depends on all four.
inline float hashed(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d) {
  std::uint64_t x =
      ((a * 0x9E3779B97F4A7C15u + b) * 0xBF58476D1CE4E5B9u + c) * 0x94D049BB133111EBu + d;
  x = (x ^ (x >> 31)) * 0xD6E8FEB86659FD93u;
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93u;
  return static_cast<float>(static_cast<double>(x >> 11) * 0x1p-52 - 1);
}

class FakeModel final : public model::Model {
 public:
  struct Step {
    std::uint32_t rows, window_rows, logit_rows;
    bool answer;
  };

  explicit FakeModel(std::uint32_t context = 100'000) {
    info_.name = "fake";
    info_.vocabulary = kVocabulary;
    info_.context = context;
    info_.attention = fake_attention();
  }

  std::vector<Step> steps;                    // every forward() that succeeded
  std::size_t nan_at_step = ~std::size_t{0};  // this forward() meets a NaN
  std::function<void()> before_step{};
  std::vector<model::Token> forced{};  // the likeliest tokens of the first answer rows
  std::vector<std::string> words{};    // what the first tokens spell, instead of a letter

  const model::ModelInfo& info() const override { return info_; }
  std::uint32_t threads() const override { return 1; }
  std::uint32_t graphs() const override { return 0; }
  Status attach(Cache& cache) override {
    cache_ = &cache;
    return {};
  }

  Status forward(std::span<const model::Chunk> chunks, const OnLogits& on_logits) override {
    if (before_step) before_step();
    std::vector<Segment> segments;
    std::vector<std::pair<model::Token, bool>> rows;
    for (const model::Chunk& chunk : chunks) {
      segments.push_back({chunk.sequence, static_cast<std::uint32_t>(chunk.tokens.size()),
                          chunk.answer, chunk.window_rows, chunk.gate_rows});
      for (model::Token token : chunk.tokens) rows.push_back({token, false});
    }
    if (Status status = cache_->begin(segments); !status.ok()) return status;
    std::vector<float> state(rows.size() * kQueryHeads * kHeadSize, 0);
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) attend(layer, rows, state);
    if (steps.size() == nan_at_step) {
      cache_->cancel();
      return {Code::kNumeric, "logits: NaN"};
    }
    cache_->commit();
    std::size_t row = 0;
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      const model::Chunk& chunk = chunks[c];
      steps.push_back({segments[c].rows, chunk.window_rows, chunk.logit_rows, chunk.answer});
      for (std::uint32_t r = 0; r < segments[c].rows; ++r, ++row) {
        if (r + chunk.logit_rows < segments[c].rows) continue;
        on_logits(c, r, project(&state[row * kQueryHeads * kHeadSize]));
      }
    }
    return {};
  }

  std::vector<model::Token> tokenize(std::string_view text, bool, bool) const override {
    std::vector<model::Token> tokens;
    for (char c : text) tokens.push_back(static_cast<model::Token>(c) % (kVocabulary - 1));
    return tokens;
  }
  std::string piece(model::Token token, bool) const override {
    if (static_cast<std::size_t>(token) < words.size())
      return words[static_cast<std::size_t>(token)];
    if (token == 40) return "\xE2\x82";  // two of the three bytes of a euro sign
    if (token == 41) return "\xAC";
    return std::string(1, static_cast<char>('a' + token % 26));
  }
  bool is_end(model::Token token) const override { return token == kEnd; }
  Result<std::string> chat(std::span<const std::pair<std::string, std::string>>) const override {
    return Status(Code::kNotFound, "no chat template");
  }
  void pause() override {}
  void resume() override {}

 private:
  void attend(std::uint32_t layer, const std::vector<std::pair<model::Token, bool>>& rows,
              std::vector<float>& state) {
    const std::size_t width = kQueryHeads * kHeadSize, kv_width = kKvHeads * kHeadSize;
    std::vector<float> q(rows.size() * width), k(rows.size() * kv_width), v(k.size()),
        out(q.size());
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const auto token = static_cast<std::uint64_t>(rows[r].first);
      for (std::size_t i = 0; i < width; ++i) {
        q[r * width + i] = 4 * hashed(token, layer, 1, i % kHeadSize) + state[r * width + i];
      }
      for (std::size_t i = 0; i < kv_width; ++i) {
        k[r * kv_width + i] = hashed(token, layer, 1, i % kHeadSize) + hashed(token, layer, 2, i);
        v[r * kv_width + i] = hashed(token, layer, 3, i);
      }
    }
    cache_->append(layer, k.data(), v.data(), 0, 1);
    cache_->attend(layer, q.data(), out.data(), 0, 1);
    for (std::size_t i = 0; i < out.size(); ++i) state[i] += out[i];
  }

  std::vector<float> project(const float* state) {
    std::vector<float> logits(kVocabulary, 0);
    for (std::uint32_t token = 0; token < kVocabulary; ++token) {
      for (std::uint32_t i = 0; i < kQueryHeads * kHeadSize; ++i) {
        logits[token] += state[i] * hashed(token, 9, 9, i);
      }
    }
    logits[kEnd] = -100;
    if (answered_ < forced.size()) logits[static_cast<std::size_t>(forced[answered_])] = 100;
    ++answered_;
    return logits;
  }

  model::ModelInfo info_;
  Cache* cache_ = nullptr;
  std::size_t answered_ = 0;
};

class GreedySampler final : public model::Sampler {
 public:
  model::Token sample(std::span<const float> logits) override {
    return static_cast<model::Token>(std::ranges::max_element(logits) - logits.begin());
  }
  std::uint32_t seed() const override { return 0; }
};

}  // namespace quire::test
