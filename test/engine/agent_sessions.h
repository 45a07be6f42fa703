// Agents that resend their growing history: each turn is all that was said so far, and a tool's
// output more.  On a virtual clock, over a real cache that holds only some of the histories.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "engine/engine.h"
#include "engine/hash_model.h"
#include "engine/sha256.h"

namespace quire::test {

struct AgentLoad {
  std::uint32_t agents = 16, turns = 10;
  std::uint32_t system_tokens = 48;  // that all have in common
  std::uint32_t first_tokens = 200;  // of each agent's task, 1/2 to 3/2 of it
  std::uint32_t tool_tokens = 60;    // of a tool's output, likewise
  std::uint32_t answer_tokens = 12;
  double think_seconds = 400;                       // between an answer and the next turn, likewise
  std::size_t budget_bytes = std::size_t{5} << 20;  // half of all histories at their ends
  std::uint32_t max_running = 2;
  std::uint64_t seed = 1;
};

struct AgentNumbers {
  double ttft_mean = 0, ttft_worst = 0, seconds = 0;
  double hit_ratio = 0;  // by tokens
  std::uint64_t evicted = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<model::Token>> answers;
};

class AgentSessions {
 public:
  AgentSessions(const AgentLoad& load, engine::EngineOptions options) : load_(load) {
    Result<std::unique_ptr<Cache>> opened = Cache::open({.layers = hash_attention(),
                                                         .budget_bytes = load.budget_bytes,
                                                         .max_rows = 128,
                                                         .prefix = {.hash = engine::sha256}});
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    cache_ = *std::move(opened);
    EXPECT_TRUE(model_.attach(*cache_).ok());
    sharing_ = options.prefix_cache;
    options.max_running = load.max_running;
    options.reserve_tokens = load.answer_tokens;
    options.clock = [this] { return model_.seconds; };
    engine_ = *engine::Engine::open(model_, *cache_, std::move(options));
  }

  AgentNumbers run() {
    for (std::uint32_t agent = 0; agent < load_.agents; ++agent) {
      Agent& fresh = agents_.emplace_back(load_.seed * 1000 + agent);
      fresh.history = shared();
      say(fresh, about(fresh.random, load_.first_tokens));
      due_.emplace(about(fresh.random, 20), agent);
    }
    while (!due_.empty() || !engine_->idle()) {
      if (engine_->idle()) {
        model_.seconds = std::max(model_.seconds, due_.begin()->first);
      }
      while (!due_.empty() && due_.begin()->first <= model_.seconds) {
        const std::uint32_t agent = due_.begin()->second;
        due_.erase(due_.begin());
        ask(agent);
      }
      engine_->step();
      check();
      if (::testing::Test::HasFailure()) return {};
    }
    return numbers();
  }

 private:
  struct Agent {
    explicit Agent(std::uint64_t seed) : random(seed) {}
    std::mt19937_64 random;
    std::vector<model::Token> history;
    std::uint32_t turn = 0;
  };

  static std::uint32_t about(std::mt19937_64& random, double mean) {
    const double share = 0.5 + static_cast<double>(random() % 1000) / 1000;
    return static_cast<std::uint32_t>(mean * share) + 1;
  }
  static std::vector<model::Token> words(std::mt19937_64& random, std::uint32_t count) {
    std::vector<model::Token> words(count);
    for (model::Token& word : words) word = static_cast<model::Token>(random() % kHashPoison);
    return words;
  }
  std::vector<model::Token> shared() const {
    std::mt19937_64 random(load_.seed);
    return words(random, load_.system_tokens);
  }
  static void say(Agent& agent, std::uint32_t count) {
    const std::vector<model::Token> said = words(agent.random, count);
    agent.history.insert(agent.history.end(), said.begin(), said.end());
  }

  void ask(std::uint32_t index) {
    Agent& agent = agents_[index];
    engine::Request request{.prompt = agent.history};
    request.options.max_tokens = load_.answer_tokens;
    request.options.stop_at_end = false;
    request.options.make_sampler =
        [](const model::Model&,
           const model::SamplerOptions&) -> Result<std::unique_ptr<model::Sampler>> {
      return std::unique_ptr<model::Sampler>(std::make_unique<LikeliestSampler>());
    };
    request.on_done = [this, index](engine::RequestId, const engine::Answer& answer) {
      told(index, answer);
    };
    const Result<engine::RequestId> id = engine_->submit(std::move(request));
    ASSERT_TRUE(id.ok()) << id.status().message();
  }

  void told(std::uint32_t index, const engine::Answer& answer) {
    Agent& agent = agents_[index];
    ASSERT_EQ(answer.finish, engine::Finish::kLength) << answer.error.message();
    done_.answers[{index, agent.turn}] = answer.tokens;
    waited_.push_back(answer.first_token_seconds);
    prompts_ += answer.prompt_tokens;
    cached_ += answer.kv.cached_tokens;
    agent.history.insert(agent.history.end(), answer.tokens.begin(), answer.tokens.end());
    if (++agent.turn == load_.turns) return;
    say(agent, about(agent.random, load_.tool_tokens));
    due_.emplace(model_.seconds + about(agent.random, load_.think_seconds), index);
  }

  // Nothing is lost, and nothing is kept twice.
  void check() {
    const CacheStats stats = cache_->stats();
    ASSERT_LE(stats.committed_bytes, stats.budget_bytes);
    ASSERT_EQ(stats.sequences, engine_->stats().running) << "who waits holds nothing";
    ASSERT_LE(stats.prefix.bytes, stats.used_bytes);
    ASSERT_LE(stats.prefix.evicted, stats.prefix.entered);
    if (engine_->stats().steps % 4 == 0) cache_->check_invariants();
  }

  AgentNumbers numbers() {
    const engine::EngineStats stats = engine_->stats();
    EXPECT_EQ(stats.finished, load_.agents * load_.turns);
    EXPECT_EQ(stats.prefix_queries, sharing_ ? prompts_ : 0);
    EXPECT_EQ(stats.prefix_hits, cached_);
    if (stats.preemptions == 0) {
      EXPECT_EQ(stats.prompt_rows, prompts_ - cached_) << "cached or computed, nothing between";
    }
    done_.evicted = cache_->stats().prefix.evicted;
    cache_->forget();
    EXPECT_EQ(cache_->stats().prefix.units, 0u);
    EXPECT_EQ(cache_->stats().kv_bytes - cache_->stats().headroom_bytes, 0u) << "bytes are lost";
    for (const double seconds : waited_) {
      done_.ttft_mean += seconds / static_cast<double>(waited_.size());
      done_.ttft_worst = std::max(done_.ttft_worst, seconds);
    }
    done_.hit_ratio = static_cast<double>(cached_) / static_cast<double>(prompts_);
    done_.seconds = model_.seconds;
    return std::move(done_);
  }

  const AgentLoad load_;
  bool sharing_ = true;
  HashModel model_;
  std::unique_ptr<Cache> cache_;
  std::unique_ptr<engine::Engine> engine_;
  std::vector<Agent> agents_;
  std::multimap<double, std::uint32_t> due_;  // when -> which agent asks
  std::vector<double> waited_;
  std::uint64_t prompts_ = 0, cached_ = 0;
  AgentNumbers done_;
};

}  // namespace quire::test
