// A decoder whose next token is a hash of every bit that attention returned: one wrong row, entry
// or bit anywhere in the cache and the answer is another.  Cheap enough for thousands of runs, on a
// clock of its own; it can be told to fail.
#pragma once

#include <algorithm>
#include <bit>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "model/model.h"

namespace quire::test {

constexpr std::uint32_t kHashVocabulary = 32, kHashWidth = 64, kHashLayers = 2;
constexpr model::Token kHashEnd = 31;     // end of generation
constexpr model::Token kHashPoison = 30;  // a row of it makes all logits from there on NaN

inline std::vector<LayerShape> hash_attention() {
  return std::vector<LayerShape>(
      kHashLayers,
      {.kv_heads = 1, .query_heads = 1, .key_size = kHashWidth, .value_size = kHashWidth});
}

class HashModel final : public model::Model {
 public:
  HashModel() {
    info_.name = "hash";
    info_.vocabulary = kHashVocabulary;
    info_.context = 100'000;
    info_.attention = hash_attention();
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      rows_[i] = static_cast<float>(mixed(i) % 2048) / 512.0f - 2.0f;
    }
  }

  double seconds = 0;                                // the clock: a step of n rows takes 1 + n / 8
  std::function<bool(std::size_t chunks)> refuse{};  // true: the machine has no memory
  std::uint64_t steps = 0;

  const model::ModelInfo& info() const override { return info_; }
  std::uint32_t threads() const override { return 1; }
  std::uint32_t graphs() const override { return 0; }
  Status attach(Cache& cache) override {
    cache_ = &cache;
    return {};
  }

  Status forward(std::span<const model::Chunk> chunks, const OnLogits& on_logits) override {
    ++steps;
    segments_.clear();
    tokens_.clear();
    for (const model::Chunk& chunk : chunks) {
      segments_.push_back({chunk.sequence, static_cast<std::uint32_t>(chunk.tokens.size()),
                           chunk.answer, chunk.window_rows, chunk.gate_rows});
      tokens_.insert(tokens_.end(), chunk.tokens.begin(), chunk.tokens.end());
    }
    seconds += 1 + static_cast<double>(tokens_.size()) / 8;
    if (refuse && refuse(chunks.size())) return {Code::kOutOfMemory, "the machine has no memory"};
    if (Status status = cache_->begin(segments_); !status.ok()) return status;
    attend();
    for (const model::Chunk& chunk : chunks) {
      if (!poisoned(chunk)) continue;
      if (chunk.isolate) poison_.insert(chunk.sequence);
      if (chunk.isolate) continue;
      cache_->cancel();
      return {Code::kNumeric, "the logits are not finite"};
    }
    cache_->commit();
    answer(chunks, on_logits);
    return {};
  }

  std::vector<model::Token> tokenize(std::string_view text, bool, bool) const override {
    return {text.begin(), text.end()};
  }
  std::string piece(model::Token token, bool) const override {
    return std::string(1, static_cast<char>('A' + token));
  }
  bool is_end(model::Token token) const override { return token == kHashEnd; }
  Result<std::string> chat(std::span<const std::pair<std::string, std::string>>) const override {
    return Status(Code::kNotFound, "no chat template");
  }
  void pause() override {}
  void resume() override {}

 private:
  static std::uint64_t mixed(std::uint64_t x) {
    x = (x + 1) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    return x ^ (x >> 27);
  }

  static bool poisoned(const model::Chunk& chunk) {
    return std::ranges::count(chunk.tokens, kHashPoison) > 0;
  }

  const float* row(std::uint32_t kind, model::Token token) const {
    return rows_.data() + (kind * kHashVocabulary + static_cast<std::size_t>(token)) * kHashWidth;
  }

  void attend() {
    state_.assign(tokens_.size() * kHashWidth, 0);
    q_.resize(state_.size());
    k_.resize(state_.size());
    v_.resize(state_.size());
    out_.resize(state_.size());
    for (std::uint32_t layer = 0; layer < kHashLayers; ++layer) {
      for (std::size_t r = 0; r < tokens_.size(); ++r) {
        for (std::uint32_t i = 0; i < kHashWidth; ++i) {
          const std::size_t at = r * kHashWidth + i;
          q_[at] = row(0, tokens_[r])[i] + state_[at];
          k_[at] = row(1, tokens_[r])[i] - state_[at];
          v_[at] = row(2, tokens_[r])[i] + state_[at];
        }
      }
      cache_->append(layer, k_.data(), v_.data(), 0, 1);
      cache_->attend(layer, q_.data(), out_.data(), 0, 1);
      state_ = out_;
    }
  }

  void answer(std::span<const model::Chunk> chunks, const OnLogits& on_logits) {
    std::size_t end = 0;
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      end += chunks[c].tokens.size();
      if (chunks[c].logit_rows == 0) continue;
      const std::uint32_t last = static_cast<std::uint32_t>(chunks[c].tokens.size()) - 1;
      if (poison_.contains(chunks[c].sequence)) {
        on_logits(c, last, {});
        continue;
      }
      std::uint64_t hash = 0;
      for (std::uint32_t i = 0; i < kHashWidth; ++i) {
        hash = mixed(hash ^ std::bit_cast<std::uint32_t>(state_[(end - 1) * kHashWidth + i]));
      }
      std::vector<float> logits(kHashVocabulary, 0);
      // The end is one token in 64, the poison none.
      const bool ends = hash % 64 == 63;
      logits[ends ? kHashEnd : hash / 64 % kHashPoison] = 1;
      on_logits(c, last, logits);
    }
  }

  model::ModelInfo info_;
  Cache* cache_ = nullptr;
  std::vector<float> rows_ = std::vector<float>(3 * kHashVocabulary * kHashWidth);
  std::set<SequenceId> poison_;  // hold a row of it
  std::vector<Segment> segments_;
  std::vector<model::Token> tokens_;
  std::vector<float> state_, q_, k_, v_, out_;
};

class LikeliestSampler final : public model::Sampler {
 public:
  model::Token sample(std::span<const float> logits) override {
    return static_cast<model::Token>(std::ranges::max_element(logits) - logits.begin());
  }
  std::uint32_t seed() const override { return 0; }
};

}  // namespace quire::test
