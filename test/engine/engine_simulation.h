// Seeded runs of an engine on a virtual clock: requests of every kind arrive on a cache that is too
// small for them, some are cancelled, some fail, the machine refuses memory.  Checked after every
// step and at the end.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "engine/engine.h"
#include "engine/hash_model.h"
#include "engine/sha256.h"

namespace quire::test {

struct SimulationCounts {
  std::uint64_t requests = 0, finished = 0, compared = 0, moved = 0;
  std::uint64_t begun_cached = 0, evicted = 0;  // prompts that began behind units; units
  engine::EngineStats engine;
  void add(const engine::EngineStats& stats) {
    engine.preemptions += stats.preemptions;
    engine.restarts += stats.restarts;
    engine.pauses += stats.pauses;
    engine.cuts += stats.cuts;
    engine.cancelled += stats.cancelled;
    engine.failed += stats.failed;
  }
};

class EngineSimulation {
 public:
  EngineSimulation(std::uint64_t seed, SimulationCounts& counts) : random_(seed), counts_(counts) {}

  void run() {
    open();
    const std::uint32_t requests = 2 + below(14);
    for (std::uint32_t i = 0; i < requests; ++i) arrivals_.emplace(below(100), i);
    std::uint64_t bound = 100;
    while (!arrivals_.empty() || !engine_->idle()) {
      while (!arrivals_.empty() &&
             (arrivals_.begin()->first <= model_.seconds || engine_->idle())) {
        bound += arrive();
        arrivals_.erase(arrivals_.begin());
      }
      step();
      if (::testing::Test::HasFatalFailure()) return;
      ASSERT_LT(engine_->stats().steps, bound) << "somebody starves";
    }
    finish();
  }

 private:
  struct Sent {
    engine::RequestId id{};
    std::vector<model::Token> prompt;
    engine::GenerateOptions options;
    std::optional<engine::Answer> answer{};
    std::string streamed;
    std::vector<model::Token> tokens;
    double deadline = 0;
    bool poisoned = false, cancelled = false, by_pool = false;
  };

  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

  static std::unique_ptr<Cache> cache(std::size_t budget, std::uint32_t block_tokens,
                                      std::uint32_t max_rows, Reclaim reclaim = Reclaim::kWhole,
                                      bool prefixes = false) {
    PrefixOptions prefix;
    if (prefixes) prefix.hash = engine::sha256;
    Result<std::unique_ptr<Cache>> opened = Cache::open({.layers = hash_attention(),
                                                         .budget_bytes = budget,
                                                         .block_tokens = block_tokens,
                                                         .max_rows = max_rows,
                                                         .reclaim = reclaim,
                                                         .repack = {.watermark = 1},
                                                         .prefix = std::move(prefix)});
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return *std::move(opened);
  }

  void open() {
    block_tokens_ = below(2) == 0 ? 8 : 16;
    prefixes_ = below(2) == 0;
    for (std::vector<model::Token>& stem : stems_) stem = words(100);
    cache_ = cache((std::size_t{64} + below(100)) << 10, block_tokens_, 1 + below(64),
                   below(3) == 0 ? Reclaim::kWhole : Reclaim::kRepack, prefixes_);
    EXPECT_TRUE(model_.attach(*cache_).ok());
    if (below(3) == 0) {
      model_.refuse = [this](std::size_t) { return below(20) == 0; };
    }
    engine::EngineOptions options;
    options.max_running = 1 + below(10);
    options.repack_share = below(3) * 0.5;
    options.reserve_tokens = below(12);
    options.ageing_seconds = below(50);
    options.clock = [this] { return model_.seconds; };
    options.on_step = [this](const engine::StepReport& report) { watch(report); };
    if (below(4) == 0) {
      options.step_seconds = 1 + below(8);
      if (below(2) == 0) options.cost = {1, 0.125, 0};
    }
    options.look_ahead = below(4) != 0;
    if (below(4) == 0) options.order = *engine::make_queue_order("cache-aware", 10);
    Result<std::unique_ptr<engine::Engine>> opened =
        engine::Engine::open(model_, *cache_, std::move(options));
    ASSERT_TRUE(opened.ok());
    engine_ = *std::move(opened);
  }

  std::optional<Policy> policy() {
    constexpr const char* kPolicies[] = {"sink-recency:sinks=2,recent=6", "h2o:sinks=2,recent=6",
                                         "snapkv:window=8,sinks=2,recent=6",
                                         "knorm:sinks=2,recent=6"};
    return *make_policy(kPolicies[below(4)]);
  }

  engine::GateOptions gate() {
    engine::GateOptions gate{.calibration = {.statistic = Statistic::kRowVariation},
                             .self_check = below(2) == 0 ? 0.0 : 10.0};
    gate.calibration.threshold = 0.1 * below(16);  // on either side of most prompts
    constexpr engine::GateRule kRules[] = {engine::GateRule::kOpen, engine::GateRule::kOpen,
                                           engine::GateRule::kAuto, engine::GateRule::kClosed};
    gate.rule = kRules[below(4)];
    return gate;
  }

  std::vector<model::Token> words(std::uint32_t count) {
    std::vector<model::Token> words(count);
    for (model::Token& token : words) token = static_cast<model::Token>(below(kHashPoison));
    return words;
  }

  // Like others up to somewhere, or a conversation that goes on.
  void begin_alike(Sent& sent, engine::Request& request) {
    std::vector<model::Token> stem = stems_[below(3)];
    if (!sent_.empty() && below(3) == 0) {
      const Sent& before = *sent_[below(static_cast<std::uint32_t>(sent_.size()))];
      stem = before.prompt;
      stem.insert(stem.end(), before.tokens.begin(), before.tokens.end());
      std::erase(stem, kHashPoison);
    }
    stem.resize(below(static_cast<std::uint32_t>(stem.size()) + 1));
    sent.prompt.insert(sent.prompt.begin(), stem.begin(), stem.end());
    request.prefix_cache = below(8) != 0;
    if (below(6) == 0) request.salt = "other";
  }

  engine::Request request(Sent& sent) {
    engine::Request request;
    sent.prompt = words(1 + below(below(4) == 0 ? 300 : 60));
    if (prefixes_) begin_alike(sent, request);
    sent.poisoned = below(12) == 0;
    if (sent.poisoned) {
      // The model does not see it in rows that it need not compute; the last it always does.
      const auto last = static_cast<std::uint32_t>(sent.prompt.size()) - 1;
      sent.prompt[prefixes_ ? last : below(last + 1)] = kHashPoison;
    }
    engine::GenerateOptions& options = sent.options;
    options.max_tokens = below(120);
    options.stop_at_end = below(4) == 0;
    options.min_tokens = below(3) == 0 ? below(20) : 0;
    constexpr std::uint32_t kChunks[] = {1, 7, 16, 100, 512};
    options.chunk = prefixes_ ? kChunks[below(5)] : 1 + below(64);
    if (below(5) == 0) options.stop = {"AB", "Q"};
    if (below(2) == 0) {
      options.policy = policy();
      sent.by_pool = below(2) == 0;
      if (!sent.by_pool) {
        options.keep = {engine::Keep::Unit::kTokens, static_cast<double>(10 + below(60))};
        if (below(3) == 0) options.keep = {engine::Keep::Unit::kPercent, 30.0 + below(60)};
      }
      options.gate = gate();
      if (!sent.by_pool && below(3) == 0) options.gate.rule = engine::GateRule::kSelfCheck;
    }
    options.make_sampler =
        [](const model::Model&,
           const model::SamplerOptions&) -> Result<std::unique_ptr<model::Sampler>> {
      return std::unique_ptr<model::Sampler>(std::make_unique<LikeliestSampler>());
    };
    request.options = options;
    request.options.on_text = [&sent](std::string_view text) { sent.streamed += text; };
    request.options.on_token = [&sent](model::Token token) { sent.tokens.push_back(token); };
    request.prompt = sent.prompt;
    request.priority = static_cast<std::int32_t>(below(5)) - 2;
    request.on_overflow = below(2) == 0 ? engine::Overflow::kStream : engine::Overflow::kRefuse;
    if (below(15) == 0) request.deadline_seconds = sent.deadline = 1 + below(200);
    request.on_done = [this, &sent](engine::RequestId id, const engine::Answer& answer) {
      EXPECT_EQ(id, sent.id);
      EXPECT_FALSE(sent.answer.has_value()) << "told twice";
      sent.answer = answer;
      // Who is told may act at once.
      if (below(20) == 0) cancel_one();
      if (below(20) == 0 && !arrivals_.empty()) arrivals_.emplace(0, 0);
    };
    return request;
  }

  // Steps that the request adds to the bound, once its prompt may be read again for every other.
  std::uint64_t arrive() {
    auto sent = std::make_unique<Sent>();
    engine::Request request = this->request(*sent);
    const std::uint64_t rows = request.prompt.size() + request.options.max_tokens;
    Sent& kept = *sent;
    sent_.push_back(std::move(sent));
    const Result<engine::RequestId> id = engine_->submit(std::move(request));
    ++counts_.requests;
    if (!id.ok()) {
      EXPECT_EQ(id.status().code(), Code::kOutOfMemory) << id.status().message();
      sent_.pop_back();
      return 0;
    }
    kept.id = *id;
    return 3 * rows;
  }

  void cancel_one() {
    if (sent_.empty()) return;
    Sent& one = *sent_[below(static_cast<std::uint32_t>(sent_.size()))];
    const bool told = one.answer.has_value();
    const bool cancelled = engine_->cancel(one.id);
    if (told) {
      EXPECT_FALSE(cancelled);
    }
    one.cancelled = one.cancelled || cancelled;
  }

  void step() {
    if (below(30) == 0) cancel_one();
    if (!engine_->step()) return;
    const CacheStats stats = cache_->stats();
    ASSERT_EQ(stats.sequences, engine_->stats().running) << "who waits holds nothing";
    ASSERT_LE(stats.committed_bytes, stats.budget_bytes);
    if (engine_->stats().steps % 8 == 0) cache_->check_invariants();
  }

  void watch(const engine::StepReport& report) {
    EXPECT_LE(report.answer_rows + report.prompt_rows, cache_->options().max_rows);
    EXPECT_LE(report.paused, report.running + 1);
    EXPECT_GE(report.end_seconds, report.begin_seconds);
  }

  void finish() {
    counts_.evicted += cache_->stats().prefix.evicted;
    cache_->forget();
    EXPECT_EQ(cache_->stats().prefix.units, 0u);
    EXPECT_EQ(held_bytes(), empty_bytes()) << "blocks were not given back";
    counts_.moved += cache_->stats().moves.entries;
    cache_->check_invariants();
    counts_.add(engine_->stats());
    for (const auto& sent : sent_) check(*sent);
  }

  std::size_t held_bytes() const {
    const CacheStats stats = cache_->stats();
    return stats.used_bytes - stats.headroom_bytes;
  }
  // What a cache that never had a request holds.
  std::size_t empty_bytes() const {
    const Result<SequenceId> one = cache_->start();
    EXPECT_TRUE(one.ok() && cache_->drop(*one).ok());
    return held_bytes();
  }

  void check(const Sent& sent) {
    ASSERT_TRUE(sent.answer.has_value()) << "nobody was told";
    const engine::Answer& answer = *sent.answer;
    EXPECT_EQ(sent.streamed, answer.text);
    EXPECT_EQ(sent.tokens, answer.tokens);
    EXPECT_EQ(answer.completion_tokens, answer.tokens.size());
    EXPECT_LE(answer.tokens.size(), sent.options.max_tokens);
    switch (answer.finish) {
      case engine::Finish::kCancelled:
        EXPECT_TRUE(sent.cancelled || sent.deadline > 0);
        return;
      case engine::Finish::kError:
        EXPECT_TRUE(sent.poisoned || model_.refuse || sent.options.policy)
            << answer.error.message();
        return;
      default:
        EXPECT_FALSE(sent.poisoned) << "somebody else failed for it";
    }
    ++counts_.finished;
    counts_.begun_cached += answer.kv.cached_tokens > 0 ? 1 : 0;
    EXPECT_LT(answer.kv.cached_tokens, answer.prompt_tokens);
    if (!sent.options.policy || answer.kv.gate.decision == engine::GateDecision::kClosed) {
      EXPECT_FALSE(answer.kv.lossy || answer.kv.restarted);
    }
    if (answer.kv.restarted || answer.kv.prefill == engine::Prefill::kStreamed) return;
    if (answer.kv.lossy && sent.by_pool) return;  // how much was cut depends on the others
    if (answer.kv.lossy && engine_->stats().cuts > 0) return;  // alone, its keep may be undercut
    if (answer.kv.gate.reason == "no room") return;            // alone, it would have judged
    ++counts_.compared;
    EXPECT_EQ(answer.tokens, alone(sent))
        << answer.kv.policy << " " << answer.kv.keep << ", prompt " << answer.prompt_tokens
        << ", answer " << answer.tokens.size() << ", preempted " << answer.kv.preemptions
        << ", dropped " << answer.kv.entries_dropped << ", chunk " << sent.options.chunk;
  }

  // The request by itself, with all the room there is.
  std::vector<model::Token> alone(const Sent& sent) const {
    HashModel model;
    const std::unique_ptr<Cache> roomy = cache(std::size_t{4} << 20, block_tokens_, 512);
    EXPECT_TRUE(model.attach(*roomy).ok());
    engine::GenerateOptions options = sent.options;
    options.chunk = 512;
    const auto session = engine::Session::open(model, *roomy, std::move(options));
    EXPECT_TRUE(session.ok()) << session.status().message();
    return (*session)->answer(sent.prompt)->tokens;
  }

  std::mt19937_64 random_;
  SimulationCounts& counts_;
  HashModel model_;
  std::uint32_t block_tokens_ = 16;
  bool prefixes_ = false;
  std::vector<model::Token> stems_[3];
  std::unique_ptr<Cache> cache_;
  std::unique_ptr<engine::Engine> engine_;
  std::multimap<std::uint32_t, std::uint32_t> arrivals_;
  std::vector<std::unique_ptr<Sent>> sent_;
};

}  // namespace quire::test
