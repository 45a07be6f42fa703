// Goal: steps through the public interface of the room keep its promises: refusals change nothing,
// nothing is created once warm, not-a-number ends one answer and not the process, text round-trips.
// Method: tiny random models of both architectures.

#include "model/model.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "model/running.h"
#include "support/tiny_model.h"

namespace quire {
namespace {

using Tokens = std::vector<model::Token>;

class ModelTest : public testing::Test {
 protected:
  test::Running open(const test::TinyModel& tiny, bool deterministic = false,
                     std::uint32_t threads = 1) {
    EXPECT_TRUE(test::write_tiny_model(tiny, file_.path()));
    return test::run_model(
        {.path = file_.path(), .threads = threads, .deterministic = deterministic},
        {.budget_bytes = 32u << 20, .key_type = KvType::kF32, .value_type = KvType::kF32});
  }

  test::TempFile file_{"model-test.gguf"};
};

Tokens count_up(std::size_t tokens) {
  Tokens list(tokens);
  std::iota(list.begin(), list.end(), 10);
  return list;
}

TEST_F(ModelTest, InfoSaysWhatTheFileHolds) {
  const auto running = open({.layers = 3});
  const model::ModelInfo& info = running.model->info();
  EXPECT_EQ(info.name, "tiny");
  EXPECT_EQ(info.architecture, "llama");
  EXPECT_EQ(info.quantization, "f32");
  EXPECT_EQ(info.layers, 3u);
  EXPECT_EQ(info.embedding, 256u);
  EXPECT_EQ(info.context, 1024u);
  ASSERT_EQ(info.attention.size(), 3u);
  EXPECT_EQ(info.attention[0].kv_heads, 2u);
  EXPECT_EQ(info.attention[0].query_heads, 4u);
  EXPECT_FLOAT_EQ(info.attention[0].scale, 0.125f);
  EXPECT_EQ(info.weights_bytes + info.copies_bytes, info.parameters * sizeof(float));
  EXPECT_FALSE(info.linear.empty());
  EXPECT_EQ(running.model->threads(), 1u);
}

TEST_F(ModelTest, PanelsAreCounted) {
  const auto running = open({.type = GGML_TYPE_Q4_0});
  const model::ModelInfo& info = running.model->info();
  std::string paths;
  for (const auto& [path, tensors] : info.linear) paths += path + ": " + tensors + "\n";
  EXPECT_NE(paths.find("panels: q4_0 x"), paths.npos) << paths;
  EXPECT_GT(info.copies_bytes, info.weights_bytes / 2)
      << "tied to nothing, most weights are packed";
}

TEST_F(ModelTest, PanelsGiveTheSameLogitsOnEveryInstructionSet) {
  for (const ggml_type type : {GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q8_0}) {
    ASSERT_TRUE(test::write_tiny_model({.architecture = "qwen2", .tied = true, .type = type},
                                       file_.path()));
    std::vector<float> want;
    for (const Isa isa :
         {Isa::kScalar, Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512, Isa::kAvx512Vnni, Isa::kAmx}) {
      if (!model::machine_has(isa)) continue;
      const auto running =
          test::run_model({.path = file_.path(), .threads = 1, .deterministic = true, .isa = isa},
                          {.budget_bytes = 32u << 20, .isa = isa});
      for (const std::size_t chunk : {75u, 1u, 16u}) {
        const auto got = running.read(running.start(), count_up(75), chunk, 75);
        if (want.empty()) want = got;
        ASSERT_EQ(got.size(), want.size());
        EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0)
            << name_of(isa) << ", chunks of " << chunk << ", " << ggml_type_name(type);
      }
    }
  }
}

// Steps are padded: 40 rows to 48, 30 to 32.
TEST_F(ModelTest, ChunkKernelsRunFromTheirNumberOfRowsOn) {
  ASSERT_TRUE(test::write_tiny_model({.type = GGML_TYPE_Q4_0}, file_.path()));
  const auto logits = [&](bool deterministic, std::uint32_t chunk_rows, std::uint32_t rows) {
    const auto running = test::run_model({.path = file_.path(),
                                          .threads = 1,
                                          .deterministic = deterministic,
                                          .linear_chunk_rows = chunk_rows},
                                         {.budget_bytes = 32u << 20});
    return running.read(running.start(), count_up(rows), rows, 1);
  };
  for (const std::uint32_t rows : {1u, 30u, 40u, 48u, 75u}) {
    const std::vector<float> exact = logits(true, 1, rows);
    for (const std::uint32_t chunk_rows : {1u, 33u, 48u, 49u, 1u << 20}) {
      const std::vector<float> got = logits(false, chunk_rows, rows);
      const std::uint32_t padded = rows == 30 ? 32 : rows == 40 ? 48 : rows == 75 ? 96 : rows;
      const bool chunk = model::machine_has(Isa::kAmx) && padded >= chunk_rows;
      ASSERT_EQ(got.size(), exact.size());
      EXPECT_EQ(std::memcmp(got.data(), exact.data(), got.size() * sizeof(float)) != 0, chunk)
          << rows << " rows, chunks from " << chunk_rows;
    }
  }
}

TEST_F(ModelTest, DeterministicLogitsIgnoreChunksNeighboursAndForks) {
  // A type without panels of ours: ggml's dot products, row by row.
  const auto running = open({.type = GGML_TYPE_IQ4_NL}, true, 2);
  const Tokens tokens = count_up(130);
  const auto whole = running.read(running.start(), tokens, 512, 130);
  for (const std::size_t chunk : {1u, 7u, 16u, 100u}) {
    const auto chunked = running.read(running.start(), tokens, chunk, 130);
    ASSERT_EQ(chunked.size(), whole.size());
    EXPECT_EQ(std::memcmp(chunked.data(), whole.data(), whole.size() * sizeof(float)), 0) << chunk;
  }

  const SequenceId parent = running.start();
  (void)running.read(parent, std::span(tokens).first(77), 77, 0);
  const SequenceId child = *running.cache->fork(parent);
  const Tokens other = count_up(40);
  const SequenceId neighbour = running.start();
  std::vector<float> forked;
  const model::Chunk chunks[] = {
      {.sequence = neighbour, .tokens = other},
      {.sequence = child, .tokens = std::span(tokens).subspan(77), .logit_rows = 53}};
  const Status status = running.model->forward(
      chunks, [&](std::size_t chunk, std::uint32_t, std::span<const float> row) {
        EXPECT_EQ(chunk, 1u);
        forked.insert(forked.end(), row.begin(), row.end());
      });
  ASSERT_TRUE(status.ok()) << status.message();
  const float* tail = whole.data() + 77 * running.vocabulary();
  ASSERT_EQ(forked.size(), 53 * running.vocabulary());
  EXPECT_EQ(std::memcmp(forked.data(), tail, forked.size() * sizeof(float)), 0);
}

TEST_F(ModelTest, NothingIsCreatedOnceWarm) {
  const auto running = open({});
  std::mt19937 random(3);
  const auto soak = [&](int rounds) {
    for (int i = 0; i < rounds; ++i) {
      const SequenceId sequence = running.start();
      const std::size_t rows = 1 + random() % 512;
      (void)running.read(sequence, Tokens(rows, 5), rows, 1 + random() % std::min(rows, 40ul));
      ASSERT_TRUE(running.cache->drop(sequence).ok());
    }
  };
  for (std::size_t rows = 1; rows <= 512; rows = rows < 8 ? rows + 1 : rows * 5 / 4) {
    const SequenceId sequence = running.start();
    (void)running.read(sequence, Tokens(rows, 5), rows, std::min(rows, std::size_t{32}));
    ASSERT_TRUE(running.cache->drop(sequence).ok());
  }
  const std::uint32_t warm = running.model->graphs();
  EXPECT_LE(warm, 24u);
  soak(40);
  EXPECT_EQ(running.model->graphs(), warm);
}

TEST_F(ModelTest, PartsRunOnceEachOnItsThreadsAndMeasureThere) {
  const auto running = open({}, true, 3);
  std::atomic<int> ran[3] = {};
  std::vector<std::thread::id> by(3);
  const PartWork work = [&](std::uint32_t part, std::uint32_t parts) {
    ASSERT_EQ(parts, 3u);
    ++ran[part];
    by[part] = std::this_thread::get_id();
  };
  for (int i = 0; i < 5; ++i) running.model->run_parts(work);
  for (const std::atomic<int>& count : ran) EXPECT_EQ(count, 5);
  EXPECT_EQ(std::set(by.begin(), by.end()).size(), 3u);

  const SequenceId id = running.start({.gate_rows = kGateRows});
  const Tokens tokens = count_up(100);
  const model::Chunk chunk{.sequence = id, .tokens = tokens, .gate_rows = 100};
  ASSERT_TRUE(running.model->forward({&chunk, 1}, {}).ok());
  for (const StatisticInfo& info : kStatistics) {
    const Result<double> together = running.cache->measure(
        id, info.statistic, [&](const PartWork& parts) { running.model->run_parts(parts); });
    ASSERT_TRUE(together.ok()) << together.status().message();
    EXPECT_EQ(*together, *running.cache->measure(id, info.statistic)) << info.name;
  }
}

TEST_F(ModelTest, RefusalsChangeNothing) {
  const auto running = open({.context = 64});
  const SequenceId sequence = running.start();
  const Tokens tokens = count_up(8);
  (void)running.read(sequence, tokens, 8, 0);
  const auto seen = [&] { return running.cache->stats(sequence)->tokens_seen; };
  const auto step = [&](const Tokens& rows, std::uint32_t logit_rows, SequenceId id) {
    const model::Chunk chunk{.sequence = id, .tokens = rows, .logit_rows = logit_rows};
    return running.model->forward({&chunk, 1}, {}).code();
  };
  EXPECT_EQ(step({-1}, 0, sequence), Code::kInvalidArgument);
  EXPECT_EQ(step({static_cast<model::Token>(running.vocabulary())}, 0, sequence),
            Code::kInvalidArgument);
  EXPECT_EQ(step({}, 0, sequence), Code::kInvalidArgument);
  EXPECT_EQ(step({1, 2}, 3, sequence), Code::kInvalidArgument);
  EXPECT_EQ(step(Tokens(57, 1), 0, sequence), Code::kInvalidArgument);  // 8 + 57 > 64
  EXPECT_EQ(step({1}, 0, SequenceId{987654321}), Code::kNotFound);
  EXPECT_EQ(running.model->forward({}, {}).code(), Code::kInvalidArgument);
  EXPECT_EQ(seen(), 8u);
  EXPECT_EQ(step(Tokens(56, 1), 1, sequence), Code::kOk);
  EXPECT_EQ(seen(), 64u);
}

TEST_F(ModelTest, NotANumberEndsTheStepAndAppendsNothing) {
  std::vector<float> norm(256, 1);
  norm[3] = std::nanf("");
  const auto running = open({.edit = [&](gguf_context* file) {
    gguf_set_tensor_data(file, "output_norm.weight", norm.data());  // keeps the pointer
  }});
  const SequenceId sequence = running.start();
  const Tokens tokens = count_up(5);
  const model::Chunk chunk{.sequence = sequence, .tokens = tokens, .logit_rows = 1};
  int calls = 0;
  const Status status = running.model->forward(
      {&chunk, 1}, [&](std::size_t, std::uint32_t, std::span<const float>) { ++calls; });
  EXPECT_EQ(status.code(), Code::kNumeric) << status.message();
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(running.cache->stats(sequence)->tokens_seen, 0u);
}

TEST_F(ModelTest, NotANumberInAnIsolatedChunkIsItsOwn) {
  std::vector<float> embedding(std::size_t{256} * 1024);  // more tokens than there are
  for (std::size_t i = 0; i < embedding.size(); ++i) {
    embedding[i] = i / 256 == 12 ? std::nanf("") : static_cast<float>(i * i % 17) - 8;
  }
  const auto running = open({.edit =
                                 [&](gguf_context* file) {
                                   gguf_set_tensor_data(file, "token_embd.weight",
                                                        embedding.data());  // keeps the pointer
                                 }},
                            true);
  const Tokens bad = count_up(5), good = {30, 31, 32};  // bad has token 12
  const SequenceId sequences[] = {running.start(), running.start()};
  const model::Chunk chunks[] = {
      {.sequence = sequences[0], .tokens = bad, .logit_rows = 2, .isolate = true},
      {.sequence = sequences[1], .tokens = good, .logit_rows = 1, .isolate = true}};
  std::vector<std::size_t> sizes;
  std::vector<float> logits;
  const Status status =
      running.model->forward(chunks, [&](std::size_t, std::uint32_t, std::span<const float> row) {
        sizes.push_back(row.size());
        logits.assign(row.begin(), row.end());
      });
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(sizes, (std::vector<std::size_t>{0, 0, running.vocabulary()}));
  EXPECT_EQ(running.cache->stats(sequences[1])->tokens_seen, 3u);
  EXPECT_EQ(running.read(running.start(), good, 3, 1), logits) << "as alone";
}

TEST_F(ModelTest, ACacheOfAnotherShapeIsRefused) {
  const auto running = open({});
  CacheOptions options{.layers = running.model->info().attention, .budget_bytes = 8u << 20};
  options.layers.pop_back();
  auto other = Cache::open(options);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(running.model->attach(**other).code(), Code::kInvalidArgument);
}

TEST_F(ModelTest, PausedThreadsWakeForAStep) {
  const auto running = open({}, false, 2);
  running.model->pause();
  const auto first = running.read(running.start(), count_up(20), 20, 1);
  running.model->resume();
  const auto second = running.read(running.start(), count_up(20), 20, 1);
  EXPECT_EQ(first, second);
}

TEST_F(ModelTest, TextRoundTrips) {
  for (const char* architecture : {"llama", "qwen2"}) {
    const auto running = open({.architecture = architecture});
    const std::string text = "the cat thinks: \xC3\xA9\xE2\x82\xAC in the end";
    const Tokens tokens = running.model->tokenize(text, true, false);
    ASSERT_GT(tokens.size(), 4u);
    std::string back;
    for (const model::Token token : tokens) back += running.model->piece(token);
    EXPECT_NE(back.find(text), back.npos) << architecture << ": " << back;
    const Tokens control = running.model->tokenize("<|im_start|>", false, true);
    ASSERT_EQ(control.size(), 1u) << architecture;
    EXPECT_EQ(running.model->piece(control[0]), "");
    EXPECT_EQ(running.model->piece(control[0], true), "<|im_start|>");
    EXPECT_GT(running.model->tokenize("<|im_start|>", false, false).size(), 1u);
    EXPECT_TRUE(running.model->tokenize("", false, false).empty());
    EXPECT_EQ(running.model->piece(-5), "");
    const std::string broken = "a\xFF\xC3 b";
    EXPECT_FALSE(running.model->tokenize(broken, false, false).empty());
  }
}

TEST_F(ModelTest, ChatFollowsTheFilesTemplate) {
  const std::pair<std::string, std::string> messages[] = {{"user", "hello"}};
  const auto chat = open({}).model->chat(messages);
  ASSERT_TRUE(chat.ok()) << chat.status().message();
  EXPECT_EQ(*chat, "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(open({.chat_template = ""}).model->chat(messages).status().code(), Code::kNotFound);
  EXPECT_EQ(open({.chat_template = "{% odd %}"}).model->chat(messages).status().code(),
            Code::kUnsupported);
}

TEST_F(ModelTest, SamplersFollowTheirOptions) {
  const auto running = open({});
  std::vector<float> logits(running.vocabulary(), 0);
  const model::Token a = running.model->tokenize("a", false, false).back();
  const model::Token b = running.model->tokenize("b", false, false).back();
  logits[static_cast<std::size_t>(a)] = 1;
  logits[static_cast<std::size_t>(b)] = 9;
  auto greedy = model::Sampler::create(*running.model, {.temperature = 0});
  ASSERT_TRUE(greedy.ok());
  EXPECT_EQ((*greedy)->sample(logits), b);
  auto grammar =
      model::Sampler::create(*running.model, {.temperature = 0, .grammar = "root ::= \"a\" \"a\""});
  ASSERT_TRUE(grammar.ok()) << grammar.status().message();
  EXPECT_EQ((*grammar)->sample(logits), a);
  EXPECT_EQ((*grammar)->sample(logits), a);
  EXPECT_TRUE(running.model->is_end((*grammar)->sample(logits)));

  logits.assign(logits.size(), 0);  // many equal candidates: the seed decides
  const auto draw = [&](std::uint32_t seed) {
    auto sampler = model::Sampler::create(*running.model, {.temperature = 1, .seed = seed});
    Tokens drawn;
    for (int i = 0; i < 20; ++i) drawn.push_back((*sampler)->sample(logits));
    return drawn;
  };
  EXPECT_EQ(draw(5), draw(5));
  EXPECT_NE(draw(5), draw(6));
  auto random = model::Sampler::create(*running.model, {});
  EXPECT_NE((*random)->seed(), 0xFFFFFFFFu);
}

TEST_F(ModelTest, BadSamplerOptionsNameTheField) {
  const auto running = open({});
  const auto refused = [&](const model::SamplerOptions& options) {
    return model::Sampler::create(*running.model, options).status();
  };
  EXPECT_NE(refused({.temperature = -1}).message().find("temperature"), std::string::npos);
  EXPECT_NE(refused({.top_p = 0}).message().find("top_p"), std::string::npos);
  EXPECT_NE(refused({.min_p = 2}).message().find("min_p"), std::string::npos);
  EXPECT_NE(refused({.repeat_penalty = 0}).message().find("repeat_penalty"), std::string::npos);
  EXPECT_NE(refused({.grammar = "root ::= ("}).message().find("grammar"), std::string::npos);
}

}  // namespace
}  // namespace quire
