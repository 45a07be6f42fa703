// Logits of answers, to the bit, under schedules of every kind: cold, cached, in chunks, beside
// others, preempted, evicted and read again.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "engine/engine.h"
#include "engine/sha256.h"
#include "model/running.h"

namespace quire::test {

// Keeps the logits it is shown, and says what it is told to: histories stay those of the first run.
class Recorder final : public model::Sampler {
 public:
  Recorder(std::vector<float>& logits, std::vector<model::Token> say)
      : logits_(logits), say_(std::move(say)) {}
  model::Token sample(std::span<const float> logits) override {
    logits_.insert(logits_.end(), logits.begin(), logits.end());
    return said_ < say_.size() ? say_[said_++] : top(logits);
  }
  std::uint32_t seed() const override { return 0; }

 private:
  std::vector<float>& logits_;
  const std::vector<model::Token> say_;
  std::size_t said_ = 0;
};

struct Said {
  std::vector<model::Token> prompt, tokens;
  std::vector<float> logits;  // [tokens][vocabulary]
};

struct ExactCounts {
  std::uint64_t answers = 0, cached = 0, preemptions = 0, evicted = 0;
  double difference = 0;  // the largest of a logit, as a share of the row's largest
};

class ExactRuns {
 public:
  ExactRuns(model::ModelOptions options, CacheOptions cache) : cache_options_(std::move(cache)) {
    cache_options_.prefix.hash = engine::sha256;
    const bool deterministic = options.deterministic;
    cache_options_.chunk_kernels = !deterministic;
    running_ = run_model(std::move(options), cache_options_);
  }
  bool open() const { return running_.cache != nullptr; }
  const model::Model& model() const { return *running_.model; }

  // What a prompt is answered by itself, nothing shared: what all others are compared with.
  void first(std::vector<model::Token> prompt, std::uint32_t answer) {
    Said said{.prompt = std::move(prompt)};
    engine::EngineOptions options;
    options.prefix_cache = false;
    const auto engine = *engine::Engine::open(*running_.model, *running_.cache, std::move(options));
    engine::Request request = this->request(said, answer, said.logits);
    request.on_done = [&](engine::RequestId, const engine::Answer& done) {
      ASSERT_EQ(done.tokens.size(), answer) << done.error.message();
      said.tokens = done.tokens;
    };
    ASSERT_TRUE(engine->submit(std::move(request)).ok());
    engine->run_until_idle();
    said_.push_back(std::move(said));
  }

  // A pool of its own, requests in any order, some at once, each prompt several times.
  void schedule(std::uint64_t seed, std::size_t budget, std::uint32_t requests,
                ExactCounts& counts) {
    SCOPED_TRACE("schedule " + std::to_string(seed));
    random_.seed(seed);
    constexpr std::uint32_t kChunks[] = {1, 7, 16, 100, 512};
    CacheOptions pool = cache_options_;
    pool.layers = running_.model->info().attention;
    pool.budget_bytes = budget;
    pool.max_rows = kChunks[1 + below(4)];
    Result<std::unique_ptr<Cache>> cache = Cache::open(std::move(pool));
    ASSERT_TRUE(cache.ok()) << cache.status().message();
    ASSERT_TRUE(running_.model->attach(**cache).ok());
    engine::EngineOptions options{.max_running = 1 + below(5), .reserve_tokens = below(4)};
    if (below(3) == 0) options.order = *engine::make_queue_order("cache-aware", 10);
    auto engine = *engine::Engine::open(*running_.model, **cache, std::move(options));
    std::vector<std::unique_ptr<std::vector<float>>> seen;
    for (std::uint32_t i = 0; i < requests; ++i) {
      const Said& said = said_[below(static_cast<std::uint32_t>(said_.size()))];
      std::vector<float>& logits = *seen.emplace_back(std::make_unique<std::vector<float>>());
      engine::Request request =
          this->request(said, static_cast<std::uint32_t>(said.tokens.size()), logits);
      request.options.chunk = kChunks[below(5)];
      request.on_done = [&, this](engine::RequestId, const engine::Answer& done) {
        ASSERT_EQ(done.finish, engine::Finish::kLength) << done.error.message();
        counts.cached += done.kv.cached_tokens > 0 ? 1 : 0;
        ++counts.answers;
        compare(said, logits, counts);
      };
      ASSERT_TRUE(engine->submit(std::move(request)).ok());
      for (std::uint32_t steps = below(12); steps > 0; --steps) engine->step();
    }
    engine->run_until_idle();
    (*cache)->check_invariants();
    counts.preemptions += engine->stats().preemptions;
    counts.evicted += (*cache)->stats().prefix.evicted;
    engine.reset();
    ASSERT_TRUE(running_.model->attach(*running_.cache).ok());
  }

 private:
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

  engine::Request request(const Said& said, std::uint32_t answer, std::vector<float>& logits) {
    engine::Request request{.prompt = said.prompt};
    request.options.max_tokens = answer;
    request.options.stop_at_end = false;
    request.options.make_sampler =
        [&logits, say = said.tokens](
            const model::Model&,
            const model::SamplerOptions&) -> Result<std::unique_ptr<model::Sampler>> {
      return std::unique_ptr<model::Sampler>(std::make_unique<Recorder>(logits, say));
    };
    return request;
  }

  void compare(const Said& said, const std::vector<float>& logits, ExactCounts& counts) const {
    ASSERT_EQ(logits.size(), said.logits.size());
    if (std::memcmp(logits.data(), said.logits.data(), logits.size() * sizeof(float)) == 0) return;
    const std::size_t width = running_.vocabulary();
    for (std::size_t row = 0; row < logits.size(); row += width) {
      double largest = 0, difference = 1e-30;
      for (std::size_t i = row; i < row + width; ++i) {
        largest = std::max(largest, std::fabs(double{said.logits[i]}));
        difference = std::max(difference, std::fabs(double{logits[i]} - double{said.logits[i]}));
      }
      counts.difference = std::max(counts.difference, difference / largest);
    }
  }

  CacheOptions cache_options_;
  Running running_;
  std::vector<Said> said_;
  std::mt19937_64 random_;
};

}  // namespace quire::test
