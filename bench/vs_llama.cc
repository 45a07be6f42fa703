// quire against libllama on the same GGUF, in the same process, in interleaved pairs: prefill and
// decode by depth.  The answer is checked first: both must continue a text alike.
//
// Usage: quire_vs_llama MODEL.gguf [--pairs 7] [--threads 2] [--prefill 128,512,4096]
//                       [--depth 128,1024,4096] [--json]          ("none" for an empty list)
//
// Fair numbers: libllama runs as llama-bench runs it (f16 KV, flash attention, its own thread pool,
// repacked weights where its build has them); quire runs with its defaults and, as a third arm,
// with
// --deterministic.  One pair is quire then libllama on equal work; the ratio is taken per pair.

#include <llama.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "ggml-cpu.h"
#include "model/model.h"

namespace {

using quire::model::Chunk;
using quire::model::Model;
using quire::model::Token;

constexpr std::uint32_t kChunk = 512;
constexpr std::uint32_t kDecodeSteps = 16;
constexpr std::uint32_t kContext = 4096 + 256;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "quire_vs_llama: %s\n", message.c_str());
  std::exit(1);
}

void require(const quire::Status& status) {
  if (!status.ok()) fail(status.message());
}

Token best(std::span<const float> logits) {
  return static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// What both engines can do: forget, read a prompt, remember that state, decode from it.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual Token read(std::span<const Token> prompt) = 0;  // from empty; greedy next token
  virtual std::vector<Token> decode(Token first, std::uint32_t steps) = 0;  // then back to `read`
};

class Quire : public Engine {
 public:
  Quire(const std::string& path, std::uint32_t threads, bool deterministic) {
    auto loaded = Model::load({.path = path, .threads = threads, .deterministic = deterministic});
    require(loaded.status());
    model_ = std::move(*loaded);
    const auto& attention = model_->info().attention;
    std::size_t token_bytes = 0;
    for (const auto& l : attention) token_bytes += l.kv_heads * (l.key_size + l.value_size) * 2;
    auto cache = quire::Cache::open(
        {.layers = attention, .budget_bytes = (token_bytes * (kContext + 512) / 4096 + 1) * 4096});
    require(cache.status());
    cache_ = std::move(*cache);
    require(model_->attach(*cache_));
  }

  Token read(std::span<const Token> prompt) override {
    if (base_) require(cache_->drop(*base_));
    auto started = cache_->start();
    require(started.status());
    base_ = *started;
    Token next = 0;
    for (std::size_t at = 0; at < prompt.size(); at += kChunk) {
      const auto part = prompt.subspan(at, std::min<std::size_t>(kChunk, prompt.size() - at));
      next = step(*base_, part, at + part.size() == prompt.size());
    }
    return next;
  }

  std::vector<Token> decode(Token first, std::uint32_t steps) override {
    auto fork = cache_->fork(*base_);
    require(fork.status());
    std::vector<Token> out;
    for (Token token = first; out.size() < steps;) {
      token = step(*fork, {&token, 1}, true);
      out.push_back(token);
    }
    require(cache_->drop(*fork));
    return out;
  }

  const Model& model() const { return *model_; }

 private:
  Token step(quire::SequenceId sequence, std::span<const Token> tokens, bool logits) {
    Token next = 0;
    const Chunk chunk{.sequence = sequence, .tokens = tokens, .logit_rows = logits ? 1u : 0u};
    require(model_->forward({&chunk, 1}, [&](std::size_t, std::uint32_t, std::span<const float> l) {
      next = best(l);
    }));
    return next;
  }

  std::unique_ptr<Model> model_;
  std::unique_ptr<quire::Cache> cache_;
  std::optional<quire::SequenceId> base_;
};

class Llama : public Engine {
 public:
  Llama(const std::string& path, std::uint32_t threads) {
    model_ = llama_model_load_from_file(path.c_str(), llama_model_default_params());
    if (!model_) fail("libllama cannot load " + path);
    llama_context_params params = llama_context_default_params();
    params.n_ctx = kContext;
    params.n_batch = params.n_ubatch = kChunk;
    params.n_threads = params.n_threads_batch = static_cast<std::int32_t>(threads);
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    context_ = llama_init_from_model(model_, params);
    if (!context_) fail("libllama cannot make a context");
    ggml_threadpool_params pool = ggml_threadpool_params_default(static_cast<int>(threads));
    pool_ = ggml_threadpool_new(&pool);
    llama_attach_threadpool(context_, pool_, nullptr);
    vocabulary_ = static_cast<std::size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model_)));
  }
  ~Llama() override {
    llama_free(context_);
    ggml_threadpool_free(pool_);
    llama_model_free(model_);
  }

  Token read(std::span<const Token> prompt) override {
    llama_memory_clear(llama_get_memory(context_), true);
    depth_ = 0;
    for (std::size_t at = 0; at < prompt.size(); at += kChunk) {
      step(prompt.subspan(at, std::min<std::size_t>(kChunk, prompt.size() - at)));
    }
    return next();
  }

  std::vector<Token> decode(Token first, std::uint32_t steps) override {
    const llama_pos base = depth_;
    std::vector<Token> out;
    for (Token token = first; out.size() < steps;) {
      step({&token, 1});
      token = next();
      out.push_back(token);
    }
    llama_memory_seq_rm(llama_get_memory(context_), 0, base, -1);
    depth_ = base;
    return out;
  }

  void pause() { ggml_threadpool_pause(pool_); }
  void resume() { ggml_threadpool_resume(pool_); }

 private:
  void step(std::span<const Token> tokens) {
    const llama_batch batch = llama_batch_get_one(const_cast<Token*>(tokens.data()),
                                                  static_cast<std::int32_t>(tokens.size()));
    if (llama_decode(context_, batch) != 0) fail("llama_decode failed");
    depth_ += static_cast<llama_pos>(tokens.size());
  }
  Token next() { return best({llama_get_logits_ith(context_, -1), vocabulary_}); }

  llama_model* model_ = nullptr;
  llama_context* context_ = nullptr;
  ggml_threadpool_t pool_ = nullptr;
  std::size_t vocabulary_ = 0;
  llama_pos depth_ = 0;
};

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(std::lround(q * static_cast<double>(values.size() - 1)))];
}

// "128,512": tokens from 1 to 4096 each; "none": no row.
std::vector<std::uint32_t> numbers(const std::string& list) {
  std::vector<std::uint32_t> found;
  if (list == "none") return found;
  std::stringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    const int n = std::atoi(word.c_str());
    if (n < 1 || n > 4096) fail("\"" + word + "\" is not from 1 to 4096 tokens");
    found.push_back(static_cast<std::uint32_t>(n));
  }
  return found;
}

struct Row {
  std::string test;
  std::uint32_t depth, work;
  std::vector<double> quire{}, deterministic{}, llama{};  // seconds, one per pair
};

double seconds(const std::function<void()>& work) {
  const double start = now();
  work();
  return now() - start;
}

void print(const Row& row, bool json) {
  std::vector<double> ratio, det_ratio;
  for (std::size_t i = 0; i < row.quire.size(); ++i) {
    ratio.push_back(row.llama[i] / row.quire[i]);
    det_ratio.push_back(row.llama[i] / row.deterministic[i]);
  }
  const auto rate = [&](const std::vector<double>& s) { return row.work / quantile(s, 0.5); };
  const double spread =
      (quantile(row.quire, 0.9) - quantile(row.quire, 0.1)) / quantile(row.quire, 0.5);
  if (json) {
    std::printf(
        "{\"test\":\"%s\",\"depth\":%u,\"batch\":1,\"tok_s\":%.1f,\"deterministic_tok_s\":%.1f,"
        "\"spread\":%.3f,\"peers\":{\"llama\":{\"tok_s\":%.1f,\"ratio\":%.3f,\"ratio_p10\":%.3f}}}",
        row.test.c_str(), row.depth, rate(row.quire), rate(row.deterministic), spread,
        rate(row.llama), quantile(ratio, 0.5), quantile(ratio, 0.1));
    return;
  }
  std::printf("| %-7s | %5u | %8.1f | %8.1f | %5.2f | %5.2f | %6.0f %% | %8.1f | %5.2f |\n",
              row.test.c_str(), row.depth, rate(row.quire), rate(row.llama), quantile(ratio, 0.5),
              quantile(ratio, 0.1), spread * 100, rate(row.deterministic),
              quantile(det_ratio, 0.5));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) fail("which MODEL.gguf? options: --pairs --threads --prefill --depth --json");
  std::uint32_t pairs = 7, threads = 2;
  bool json = false;
  std::vector<std::uint32_t> prefills = {128, 512, 4096}, depths = {128, 1024, 4096};
  for (int i = 2; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--pairs") && i + 1 < argc) {
      pairs = static_cast<std::uint32_t>(std::max(1, std::atoi(argv[++i])));
    } else if (!std::strcmp(argv[i], "--threads") && i + 1 < argc) {
      threads = static_cast<std::uint32_t>(std::max(1, std::atoi(argv[++i])));
    } else if (!std::strcmp(argv[i], "--prefill") && i + 1 < argc) {
      prefills = numbers(argv[++i]);
    } else if (!std::strcmp(argv[i], "--depth") && i + 1 < argc) {
      depths = numbers(argv[++i]);
    } else if (!std::strcmp(argv[i], "--json")) {
      json = true;
    } else {
      fail(std::string("unknown option ") + argv[i]);
    }
  }
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  Llama llama(argv[1], threads);
  llama.pause();
  Quire quire(argv[1], threads, false), exact(argv[1], threads, true);
  const auto on_llama = [&](const std::function<void()>& work) {
    llama.resume();
    const double took = seconds(work);
    llama.pause();
    return took;
  };

  // The answer first.  Repacked kernels round differently, so a late difference is reported only.
  const std::string text =
      "The Time Traveller (for so it will be convenient to speak of him) was expounding a "
      "recondite matter to us. His grey eyes shone and twinkled, and his usually pale face was";
  const std::vector<Token> start = quire.model().tokenize(text, true, false);
  std::vector<Token> ours, theirs, pinned;
  ours = quire.decode(quire.read(start), kDecodeSteps);
  pinned = exact.decode(exact.read(start), kDecodeSteps);
  on_llama([&] { theirs = llama.decode(llama.read(start), kDecodeSteps); });
  const auto same = [&](const std::vector<Token>& a) {
    return std::mismatch(a.begin(), a.end(), theirs.begin()).first - a.begin();
  };
  if (same(ours) < 4 && same(pinned) < 4) fail("the engines do not continue the check text alike");

  std::srand(1);
  std::vector<Token> prompt(4096);
  for (Token& t : prompt) t = std::rand() % 20000 + 100;
  std::vector<Row> rows;
  const auto prefill = [&](std::uint32_t n) {
    Row row{"prefill", n, n};
    const std::span<const Token> part(prompt.data(), n);
    for (std::uint32_t i = 0; i < pairs; ++i) {
      row.quire.push_back(seconds([&] { quire.read(part); }));
      row.llama.push_back(on_llama([&] { llama.read(part); }));
      row.deterministic.push_back(seconds([&] { exact.read(part); }));
    }
    rows.push_back(row);
  };
  const auto decode = [&](std::uint32_t depth) {
    Row row{"decode", depth, kDecodeSteps};
    const std::span<const Token> part(prompt.data(), depth);
    quire.read(part);
    exact.read(part);
    on_llama([&] { llama.read(part); });
    for (std::uint32_t i = 0; i < pairs; ++i) {
      row.quire.push_back(seconds([&] { quire.decode(100, kDecodeSteps); }));
      row.llama.push_back(on_llama([&] { llama.decode(100, kDecodeSteps); }));
      row.deterministic.push_back(seconds([&] { exact.decode(100, kDecodeSteps); }));
    }
    rows.push_back(row);
  };

  if (json) {
    std::printf("{\"quire_json\":1,\"model\":\"%s\",\"check_tokens_equal\":%ld,\"rows\":[", argv[1],
                static_cast<long>(same(ours)));
  } else {
    std::printf("libllama: %s\n", llama_print_system_info());
    std::printf("check: %ld of %u greedy tokens as libllama's (deterministic: %ld)\n\n",
                static_cast<long>(same(ours)), kDecodeSteps, static_cast<long>(same(pinned)));
    std::printf("tokens/s, medians of %u interleaved pairs, %u threads\n\n", pairs, threads);
    std::printf(
        "| test    | depth |    quire | libllama | ratio |   p10 | spread  |  determ. | ratio |\n");
    std::printf(
        "|---------|-------|----------|----------|-------|-------|---------|----------|-------|\n");
  }
  std::size_t printed = 0;
  const auto flush = [&] {
    for (; printed < rows.size(); ++printed) {
      if (json && printed > 0) std::printf(",");
      print(rows[printed], json);
    }
  };
  for (const std::uint32_t n : prefills) {
    prefill(n);
    flush();
  }
  for (const std::uint32_t d : depths) {
    decode(d);
    flush();
  }
  if (json) std::printf("]}\n");
  return 0;
}
