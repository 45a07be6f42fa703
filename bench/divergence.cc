// How far quire's and libllama's own logits are from those of the same weights in F32: the mean
// Kullback-Leibler divergence of the next token, row by row.
//
// Usage: quire_divergence MODEL.gguf TEXT [ROWS]      (default: 4096 rows, in windows of 2048)
//
// The reference is libllama on the file's weights dequantized to F32 (a temporary file beside
// TMPDIR), with an F32 cache and flash attention off.  libllama runs as the benchmark's peer does:
// f16 cache, flash attention, repacked weights.  quire runs in its default mode, with
// --deterministic, and both, rows alone in steps of one (as in decoding) for the first 256.
#include <llama.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "ggml-cpp.h"
#include "ggml.h"
#include "gguf.h"
#include "model/model.h"

namespace {

using quire::model::Chunk;
using quire::model::Model;
using quire::model::Token;

constexpr std::size_t kWindow = 2048, kStep = 256;

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "quire_divergence: %s\n", message.c_str());
  std::exit(1);
}

// The same file with every tensor in F32.
void write_f32(const std::string& from, const std::string& to) {
  ggml_context* loaded = nullptr;
  const gguf_context_ptr source(
      gguf_init_from_file(from.c_str(), {.no_alloc = false, .ctx = &loaded}));
  if (source == nullptr) fail("cannot read " + from);
  const ggml_context_ptr tensors(loaded);
  const gguf_context_ptr file(gguf_init_empty());
  gguf_set_kv(file.get(), source.get());
  std::size_t bytes = 0;
  for (ggml_tensor* t = ggml_get_first_tensor(loaded); t; t = ggml_get_next_tensor(loaded, t)) {
    bytes += static_cast<std::size_t>(ggml_nelements(t)) * sizeof(float) + ggml_tensor_overhead();
  }
  const ggml_context_ptr copies(
      ggml_init({.mem_size = bytes + (1 << 20), .mem_buffer = nullptr, .no_alloc = false}));
  for (std::int64_t i = 0; i < gguf_get_n_tensors(source.get()); ++i) {
    ggml_tensor* t = ggml_get_tensor(loaded, gguf_get_tensor_name(source.get(), i));
    ggml_tensor* f32 = ggml_new_tensor(copies.get(), GGML_TYPE_F32, ggml_n_dims(t), t->ne);
    ggml_set_name(f32, t->name);
    if (t->type == GGML_TYPE_F32) {
      std::copy_n(static_cast<const float*>(t->data), ggml_nelements(t),
                  static_cast<float*>(f32->data));
    } else {
      ggml_get_type_traits(t->type)->to_float(t->data, static_cast<float*>(f32->data),
                                              ggml_nelements(t));
    }
    gguf_add_tensor(file.get(), f32);
  }
  gguf_set_val_u32(file.get(), "general.file_type", 0);
  if (!gguf_write_to_file(file.get(), to.c_str(), false)) fail("cannot write " + to);
}

using OnRow = std::function<void(std::size_t row, std::span<const float> logits)>;

class Llama {
 public:
  Llama(const std::string& path, bool f32) {
    llama_model_params params = llama_model_default_params();
    model_.reset(llama_model_load_from_file(path.c_str(), params));
    if (model_ == nullptr) fail("libllama cannot load " + path);
    llama_context_params options = llama_context_default_params();
    options.n_ctx = kWindow;
    options.n_batch = options.n_ubatch = kStep;
    options.n_threads = options.n_threads_batch = 2;
    options.type_k = options.type_v = f32 ? GGML_TYPE_F32 : GGML_TYPE_F16;
    options.flash_attn_type = f32 ? LLAMA_FLASH_ATTN_TYPE_DISABLED : LLAMA_FLASH_ATTN_TYPE_ENABLED;
    context_.reset(llama_init_from_model(model_.get(), options));
    if (context_ == nullptr) fail("libllama makes no context");
    width_ = static_cast<std::size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model_.get())));
  }

  void read(std::span<const Token> tokens, const OnRow& on_row) {
    llama_memory_clear(llama_get_memory(context_.get()), true);
    llama_batch batch = llama_batch_init(static_cast<std::int32_t>(kStep), 0, 1);
    for (std::size_t at = 0; at < tokens.size(); at += kStep) {
      batch.n_tokens = static_cast<std::int32_t>(std::min(kStep, tokens.size() - at));
      for (std::int32_t i = 0; i < batch.n_tokens; ++i) {
        batch.token[i] = tokens[at + static_cast<std::size_t>(i)];
        batch.pos[i] = static_cast<llama_pos>(at) + i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
      }
      if (llama_decode(context_.get(), batch) != 0) fail("libllama cannot decode");
      for (std::int32_t i = 0; i < batch.n_tokens; ++i) {
        on_row(at + static_cast<std::size_t>(i), {llama_get_logits_ith(context_.get(), i), width_});
      }
    }
    llama_batch_free(batch);
  }

 private:
  struct Free {
    void operator()(llama_model* model) const { llama_model_free(model); }
    void operator()(llama_context* context) const { llama_free(context); }
  };
  std::unique_ptr<llama_model, Free> model_;
  std::unique_ptr<llama_context, Free> context_;
  std::size_t width_ = 0;
};

class Quire {
 public:
  Quire(const std::string& path, bool deterministic) {
    auto model = Model::load({.path = path, .threads = 2, .deterministic = deterministic});
    if (!model.ok()) fail(model.status().message());
    model_ = *std::move(model);
    auto cache = quire::Cache::open({.layers = model_->info().attention,
                                     .budget_bytes = std::size_t{512} << 20,
                                     .chunk_kernels = !deterministic});
    if (!cache.ok()) fail(cache.status().message());
    cache_ = *std::move(cache);
    if (const auto status = model_->attach(*cache_); !status.ok()) fail(status.message());
  }

  std::vector<Token> tokens(const std::string& text) const {
    return model_->tokenize(text, true, false);
  }

  void read(std::span<const Token> tokens, std::size_t step, const OnRow& on_row) {
    const quire::SequenceId sequence = *cache_->start({});
    for (std::size_t at = 0; at < tokens.size(); at += step) {
      const std::size_t count = std::min(step, tokens.size() - at);
      const Chunk chunk{.sequence = sequence,
                        .tokens = tokens.subspan(at, count),
                        .logit_rows = static_cast<std::uint32_t>(count)};
      const auto status = model_->forward(
          {&chunk, 1}, [&](std::size_t, std::uint32_t row, std::span<const float> logits) {
            on_row(at + row, logits);
          });
      if (!status.ok()) fail(status.message());
    }
    (void)cache_->drop(sequence);
  }

 private:
  std::unique_ptr<quire::Cache> cache_;
  std::unique_ptr<Model> model_;
};

// log softmax of one row.
std::vector<double> log_probabilities(std::span<const float> logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - most);
  std::vector<double> result(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) result[i] = logits[i] - most - std::log(sum);
  return result;
}

struct Sum {
  double divergence = 0, largest = 0;
  std::size_t rows = 0, same_top = 0;
  float logit = 0;  // largest difference to the reference's

  void add(std::span<const float> reference, const std::vector<double>& p,
           std::span<const float> logits) {
    const std::vector<double> q = log_probabilities(logits);
    double kl = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
      kl += std::exp(p[i]) * (p[i] - q[i]);
      logit = std::max(logit, std::abs(reference[i] - logits[i]));
    }
    divergence += kl;
    largest = std::max(largest, kl);
    ++rows;
    const auto top = [](std::span<const float> x) {
      return std::max_element(x.begin(), x.end()) - x.begin();
    };
    same_top += top(reference) == top(logits);
  }
  double mean() const { return divergence / static_cast<double>(rows); }
  void print(const char* name, double to) const {
    std::printf(
        "%-24s %6zu rows  mean KL %.3e  (%.3f x libllama's)  largest %.3e  same top token "
        "%.2f %%  largest logit difference %.3f\n",
        name, rows, mean(), mean() / to, largest,
        100.0 * static_cast<double>(same_top) / static_cast<double>(rows),
        static_cast<double>(logit));
  }
};

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) fail("usage: quire_divergence MODEL.gguf TEXT [ROWS]");
  const std::string path = arguments[1];
  const std::size_t rows = count > 3 ? std::strtoul(arguments[3], nullptr, 10) : 4096;
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  std::ostringstream text;
  text << std::ifstream(arguments[2]).rdbuf();
  const auto f32_path = std::filesystem::temp_directory_path() / "quire-divergence-f32.gguf";
  write_f32(path, f32_path.string());
  Llama reference(f32_path.string(), true), llama(path, false);
  std::filesystem::remove(f32_path);
  Quire fast(path, false), exact(path, true);
  const std::vector<Token> tokens = fast.tokens(text.str());
  if (tokens.size() < rows) fail("the text has only " + std::to_string(tokens.size()) + " tokens");

  Sum of_llama, of_llama_first, of_fast, of_exact, of_single, fast_to_exact;
  for (std::size_t begin = 0; begin < rows; begin += kWindow) {
    const auto window = std::span(tokens).subspan(begin, std::min(kWindow, rows - begin));
    std::vector<std::vector<float>> kept(window.size()), kept_exact(window.size());
    std::vector<std::vector<double>> p(window.size());
    reference.read(window, [&](std::size_t row, std::span<const float> logits) {
      kept[row].assign(logits.begin(), logits.end());
      p[row] = log_probabilities(logits);
    });
    const auto against = [&](Sum& sum) {
      return [&](std::size_t row, std::span<const float> logits) {
        sum.add(kept[row], p[row], logits);
      };
    };
    llama.read(window, [&](std::size_t row, std::span<const float> logits) {
      of_llama.add(kept[row], p[row], logits);
      if (row < kStep) of_llama_first.add(kept[row], p[row], logits);
    });
    exact.read(window, kStep, [&](std::size_t row, std::span<const float> logits) {
      of_exact.add(kept[row], p[row], logits);
      kept_exact[row].assign(logits.begin(), logits.end());
    });
    fast.read(window, kStep, [&](std::size_t row, std::span<const float> logits) {
      of_fast.add(kept[row], p[row], logits);
      fast_to_exact.add(kept_exact[row], log_probabilities(kept_exact[row]), logits);
    });
    fast.read(window.first(std::min<std::size_t>(kStep, window.size())), 1, against(of_single));
  }
  const double own = of_llama.mean();
  of_llama.print("libllama", own);
  of_fast.print("quire", own);
  of_exact.print("quire --deterministic", own);
  of_llama_first.print("libllama, first rows", of_llama_first.mean());
  of_single.print("quire, these one by one", of_llama_first.mean());
  fast_to_exact.print("quire to deterministic", own);
}
