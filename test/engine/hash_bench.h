// An engine over a hash model and a real cache, on the model's clock.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/hash_model.h"

namespace quire::test {

using Tokens = std::vector<model::Token>;

inline Tokens prompt_of(std::uint32_t length, std::uint32_t salt = 0) {
  Tokens tokens(length);
  for (std::uint32_t i = 0; i < length; ++i) {
    tokens[i] = static_cast<model::Token>((i * i + 7 * i + salt) % 29);
  }
  return tokens;
}

struct Bench {
  explicit Bench(quire::engine::EngineOptions options = {},
                 std::size_t budget = std::size_t{1} << 20, std::uint32_t max_rows = 64,
                 PrefixOptions prefix = {}) {
    Result<std::unique_ptr<Cache>> opened = Cache::open({.layers = hash_attention(),
                                                         .budget_bytes = budget,
                                                         .max_rows = max_rows,
                                                         .prefix = std::move(prefix)});
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    cache = *std::move(opened);
    EXPECT_TRUE(model.attach(*cache).ok());
    options.clock = [this] { return model.seconds; };
    options.on_step = [this](const quire::engine::StepReport& report) { steps.push_back(report); };
    engine = *quire::engine::Engine::open(model, *cache, std::move(options));
  }

  // A request that never ends by itself; its answer goes to `answers`.
  quire::engine::Request request(Tokens prompt, std::uint32_t max_tokens) {
    quire::engine::Request request{.prompt = std::move(prompt)};
    request.options.max_tokens = max_tokens;
    request.options.stop_at_end = false;
    request.options.make_sampler =
        [](const model::Model&,
           const model::SamplerOptions&) -> Result<std::unique_ptr<model::Sampler>> {
      return std::unique_ptr<model::Sampler>(std::make_unique<LikeliestSampler>());
    };
    request.on_done = [this](quire::engine::RequestId id, const quire::engine::Answer& answer) {
      answers[id] = answer;
      order.push_back(id);
      cache->check_invariants();
    };
    return request;
  }

  quire::engine::RequestId submit(quire::engine::Request request) {
    const Result<quire::engine::RequestId> id = engine->submit(std::move(request));
    EXPECT_TRUE(id.ok()) << id.status().message();
    return id.ok() ? *id : quire::engine::RequestId{};
  }
  quire::engine::RequestId submit(Tokens prompt, std::uint32_t max_tokens) {
    return submit(request(std::move(prompt), max_tokens));
  }

  HashModel model;
  std::unique_ptr<Cache> cache;
  std::unique_ptr<quire::engine::Engine> engine;
  std::map<quire::engine::RequestId, quire::engine::Answer> answers;
  std::vector<quire::engine::RequestId> order;
  std::vector<quire::engine::StepReport> steps;
};

}  // namespace quire::test
