// libllama itself, as the judge: weights in plain buffers, flash attention off.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "llama-cpp.h"
#include "llama.h"
#include "model/model.h"

namespace quire::test {

class Oracle {
 public:
  struct Options {
    ggml_type kv_type = GGML_TYPE_F16;
    std::uint32_t context = 4096;
    std::int32_t threads = 2;
    // Called with every node named NAME-LAYER, where `watched` has NAME: Qcur, Kcur, Vcur (last
    // after rotation: [head size, heads, rows]), kq_soft_max ([keys, rows, query heads]), kqv_out.
    std::vector<std::string> watched{};
    std::function<void(const std::string& name, std::uint32_t layer, const ggml_tensor*)> on_node{};
  };

  Oracle(const std::string& path, Options options) : options_(std::move(options)) {
    llama_model_params model = llama_model_default_params();
    model.use_extra_bufts = false;
    model.progress_callback = [](float, void*) { return true; };
    model_.reset(llama_model_load_from_file(path.c_str(), model));
    if (model_ == nullptr) return;
    llama_context_params context = llama_context_default_params();
    context.n_ctx = options_.context;
    context.n_batch = options_.context;
    context.n_ubatch = 512;
    context.n_threads = context.n_threads_batch = options_.threads;
    context.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    context.type_k = context.type_v = options_.kv_type;
    context.no_perf = true;
    if (options_.on_node) {
      context.cb_eval = evaluated;
      context.cb_eval_user_data = this;
    }
    context_.reset(llama_init_from_model(model_.get(), context));
  }

  bool ok() const { return context_ != nullptr; }

  // Logits [rows][vocabulary] of the last `rows` tokens, from an empty cache.
  std::vector<float> logits(std::span<const model::Token> tokens, std::size_t rows) {
    llama_memory_clear(llama_get_memory(context_.get()), true);
    llama_batch batch = llama_batch_init(static_cast<std::int32_t>(tokens.size()), 0, 1);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      batch.token[i] = tokens[i];
      batch.pos[i] = static_cast<llama_pos>(i);
      batch.n_seq_id[i] = 1;
      batch.seq_id[i][0] = 0;
      batch.logits[i] = i + rows >= tokens.size();
    }
    batch.n_tokens = static_cast<std::int32_t>(tokens.size());
    const int failed = llama_decode(context_.get(), batch);
    llama_batch_free(batch);
    if (failed != 0) return {};
    const auto width =
        static_cast<std::size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model_.get())));
    std::vector<float> out;
    for (std::size_t i = tokens.size() - rows; i < tokens.size(); ++i) {
      const float* row = llama_get_logits_ith(context_.get(), static_cast<std::int32_t>(i));
      out.insert(out.end(), row, row + width);
    }
    return out;
  }

 private:
  static bool evaluated(ggml_tensor* node, bool ask, void* user) {
    const auto& options = static_cast<Oracle*>(user)->options_;
    const std::string full = node->name;
    const std::size_t dash = full.rfind('-');
    // "Qcur-3 (permuted)" is a view of "Qcur-3".
    if (dash == full.npos || full.find(' ') != full.npos) return !ask;
    const std::string name = full.substr(0, dash);
    if (std::ranges::find(options.watched, name) == options.watched.end()) return !ask;
    if (!ask) {
      options.on_node(name, static_cast<std::uint32_t>(std::stoul(full.substr(dash + 1))), node);
    }
    return true;
  }

  Options options_;
  llama_model_ptr model_;
  llama_context_ptr context_;
};

}  // namespace quire::test
