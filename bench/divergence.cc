// How far quire's and libllama's own logits are from those of the same weights in F32: the mean
// Kullback-Leibler divergence of the next token, row by row.
//
// Usage: quire_divergence MODEL.gguf TEXT [ROWS]      (default: 4096 rows, in windows of 2048)
//        quire_divergence --attention MODEL.gguf TEXT [ROWS]
//
// The reference is libllama on the file's weights dequantized to F32 (a temporary file beside
// TMPDIR), with an F32 cache and flash attention off.  libllama runs as the benchmark's peer does:
// f16 cache, flash attention, repacked weights.  quire runs in its default mode, with
// --deterministic, and both, rows alone in steps of one (as in decoding) for the first 256.
//
// --attention: the kernels for chunks in attention alone against the exact ones, both with the
// exact linear kernels; and on the weights in F32 (ggml's products), where no activation is rounded
// to 8 bits after a difference.
#include <algorithm>
#include <cmath>
#include <cstdint>
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
#include "model/peer.h"

namespace {

using quire::model::Chunk;
using quire::model::Model;
using quire::model::Token;

constexpr std::uint32_t kWindow = 2048, kThreads = 2;
constexpr std::size_t kStep = 256;

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
  Llama(const std::string& path, quire::model::PeerCache cache) {
    auto peer = quire::model::Peer::load(path, kThreads, cache);
    if (!peer.ok()) fail(peer.status().message());
    peer_ = *std::move(peer);
    if (const auto status = peer_->open(1, kWindow, kStep); !status.ok()) fail(status.message());
    peer_->resume();
  }

  void read(std::span<const Token> tokens, const OnRow& on_row) {
    peer_->cut(0, 0);
    for (std::size_t at = 0; at < tokens.size(); at += kStep) {
      const auto count = static_cast<std::uint32_t>(std::min(kStep, tokens.size() - at));
      const auto status = peer_->read(0, tokens.subspan(at, count), count);
      if (!status.ok()) fail(status.message());
      for (std::uint32_t i = 0; i < count; ++i) on_row(at + i, peer_->logits(i));
    }
  }

 private:
  std::unique_ptr<quire::model::Peer> peer_;
};

class Quire {
 public:
  Quire(const std::string& path, bool exact_products, bool exact_attention) {
    auto model = Model::load({.path = path, .threads = kThreads, .deterministic = exact_products});
    if (!model.ok()) fail(model.status().message());
    model_ = *std::move(model);
    auto cache = quire::Cache::open({.layers = model_->info().attention,
                                     .budget_bytes = std::size_t{512} << 20,
                                     .chunk_kernels = !exact_attention});
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
  // Beside libllama's mean, where there is one.
  void print(const char* name, double to = 0) const {
    char beside[48] = "";
    if (to > 0) std::snprintf(beside, sizeof(beside), "  (%.3f x libllama's)", mean() / to);
    std::printf(
        "%-24s %6zu rows  mean KL %.3e%s  largest %.3e  same top token %.2f %%  largest logit "
        "difference %.3f\n",
        name, rows, mean(), beside, largest,
        100.0 * static_cast<double>(same_top) / static_cast<double>(rows),
        static_cast<double>(logit));
  }
};

// The file's weights in F32, for as long as it takes to load them.
template <typename Load>
void with_f32(const std::string& path, Load load) {
  const auto f32 = std::filesystem::temp_directory_path() / "quire-divergence-f32.gguf";
  write_f32(path, f32.string());
  load(f32.string());
  std::filesystem::remove(f32);
}

std::string read_text(const char* path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<Token> first_tokens(const Quire& quire, const char* text, std::size_t rows) {
  std::vector<Token> tokens = quire.tokens(read_text(text));
  if (tokens.size() < rows) fail("the text has only " + std::to_string(tokens.size()) + " tokens");
  tokens.resize(rows);
  return tokens;
}

void compare_attention(const std::string& path, const char* text, std::size_t rows) {
  std::unique_ptr<Quire> f32, f32_tiles;  // ggml's products
  with_f32(path, [&](const std::string& copy) {
    f32 = std::make_unique<Quire>(copy, true, true);
    f32_tiles = std::make_unique<Quire>(copy, true, false);
  });
  Quire exact(path, true, true), tiles(path, true, false);
  const std::vector<Token> tokens = first_tokens(exact, text, rows);
  Sum of_f32_tiles, of_exact, of_tiles, tiles_to_exact;
  for (std::size_t begin = 0; begin < rows; begin += kWindow) {
    const auto window =
        std::span(tokens).subspan(begin, std::min<std::size_t>(kWindow, rows - begin));
    std::vector<std::vector<float>> reference(window.size()), kept(window.size());
    const auto keep = [](std::vector<std::vector<float>>& to) {
      return [&to](std::size_t row, std::span<const float> logits) {
        to[row].assign(logits.begin(), logits.end());
      };
    };
    const auto add = [](Sum& sum, const std::vector<float>& to, std::span<const float> logits) {
      sum.add(to, log_probabilities(to), logits);
    };
    f32->read(window, kStep, keep(reference));
    exact.read(window, kStep, keep(kept));
    for (std::size_t row = 0; row < kept.size(); ++row) add(of_exact, reference[row], kept[row]);
    f32_tiles->read(window, kStep, [&](std::size_t row, std::span<const float> logits) {
      add(of_f32_tiles, reference[row], logits);
    });
    tiles.read(window, kStep, [&](std::size_t row, std::span<const float> logits) {
      add(of_tiles, reference[row], logits);
      add(tiles_to_exact, kept[row], logits);
    });
  }
  of_f32_tiles.print("F32 products, tiles");
  of_exact.print("8-bit products, exact");
  of_tiles.print("8-bit products, tiles");
  tiles_to_exact.print("8-bit, tiles to exact");
}

void compare_all(const std::string& path, const char* text, std::size_t rows) {
  std::unique_ptr<Llama> reference;
  with_f32(path, [&](const std::string& f32) {
    reference = std::make_unique<Llama>(f32, quire::model::PeerCache::kF32);
  });
  Llama llama(path, quire::model::PeerCache::kF16);
  Quire fast(path, false, false), exact(path, true, true);
  const std::vector<Token> tokens = first_tokens(fast, text, rows);

  Sum of_llama, of_llama_first, of_fast, of_exact, of_single, fast_to_exact;
  for (std::size_t begin = 0; begin < rows; begin += kWindow) {
    const auto window =
        std::span(tokens).subspan(begin, std::min<std::size_t>(kWindow, rows - begin));
    std::vector<std::vector<float>> kept(window.size()), kept_exact(window.size());
    std::vector<std::vector<double>> p(window.size());
    reference->read(window, [&](std::size_t row, std::span<const float> logits) {
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

}  // namespace

int main(int count, char** arguments) {
  const bool attention = count > 1 && std::string(arguments[1]) == "--attention";
  if (attention) --count, ++arguments;
  if (count < 3) fail("usage: quire_divergence [--attention] MODEL.gguf TEXT [ROWS]");
  const std::string path = arguments[1];
  const std::size_t rows = count > 3 ? std::strtoul(arguments[3], nullptr, 10) : 4096;
  if (!attention) {
    compare_all(path, arguments[2], rows);
    return 0;
  }
  compare_attention(path, arguments[2], rows);
}
