// Goal: no file, however broken, ends the process: a Status, or a model that runs.
// Method: a few hundred random mutations of two tiny valid files: flipped bytes, extreme numbers,
// swapped and cut stretches, mostly in the metadata.  What still loads takes one step.

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "model/running.h"
#include "support/seed.h"
#include "support/tiny_model.h"

namespace quire {
namespace {

constexpr int kRounds = 300;  // per architecture

std::string mutated(std::string bytes, std::size_t metadata, std::mt19937_64& random) {
  constexpr std::uint64_t kExtremes[] = {
      0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, ~0ull, 1ull << 63, 1ull << 32, 1ull << 20};
  const auto place = [&](std::size_t size) {
    const std::size_t end = random() % 8 == 0 ? bytes.size() : std::min(metadata, bytes.size());
    return random() % (end - std::min(end - 1, size));
  };
  for (std::uint64_t left = 1 + random() % 3; left > 0 && bytes.size() > 64; --left) {
    switch (random() % 5) {
      case 0:
        bytes[place(1)] ^= static_cast<char>(1 << random() % 8);
        break;
      case 1:
      case 2: {
        const std::size_t size = random() % 2 == 0 ? 4 : 8;
        std::memcpy(bytes.data() + place(size), &kExtremes[random() % std::size(kExtremes)], size);
        break;
      }
      case 3: {
        const std::size_t from = place(16), to = place(16);
        std::memmove(bytes.data() + to, bytes.data() + from, 16);
        break;
      }
      default:
        if (random() % 4 == 0)
          bytes.resize(1 + random() % bytes.size());
        else
          bytes.erase(place(8), 1 + random() % 8);
    }
  }
  return bytes;
}

TEST(GgufMutation, EveryFileGetsAnAnswer) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  const test::TempFile file("mutation.gguf");
  int refused = 0, loaded = 0;
  for (const char* architecture : {"llama", "qwen2"}) {
    const test::TinyModel tiny{.architecture = architecture,
                               .layers = 1,
                               .heads = 2,
                               .kv_heads = 1,
                               .feed_forward = 64,
                               .rope_scaling = "yarn",
                               .rope_factor = 2};
    ASSERT_TRUE(test::write_tiny_model(tiny, file.path()));
    std::ifstream in(file.path(), std::ios::binary);
    const std::string good{std::istreambuf_iterator<char>(in), {}};
    const std::size_t metadata = good.find("token_embd.weight") + 1024;
    for (int round = 0; round < kRounds; ++round) {
      std::ofstream(file.path(), std::ios::binary) << mutated(good, metadata, random);
      auto model = model::Model::load({.path = file.path(), .threads = 1});
      if (!model.ok()) {
        ++refused;
        ASSERT_FALSE(model.status().message().empty());
        continue;
      }
      ++loaded;
      auto cache = Cache::open(
          {.layers = (*model)->info().attention, .budget_bytes = 8u << 20, .max_rows = 8});
      ASSERT_TRUE(cache.ok()) << cache.status().message();
      ASSERT_TRUE((*model)->attach(**cache).ok());
      const std::vector<model::Token> tokens = (*model)->tokenize("the end", true, true);
      if (tokens.empty()) continue;
      const model::Chunk chunk{
          .sequence = *(*cache)->start(), .tokens = std::span(tokens).first(1), .logit_rows = 1};
      const Status status = (*model)->forward({&chunk, 1}, {});
      ASSERT_TRUE(status.ok() || status.code() == Code::kNumeric) << status.message();
    }
  }
  EXPECT_GT(refused, kRounds / 4);
  EXPECT_GT(loaded, 0);
}

}  // namespace
}  // namespace quire
