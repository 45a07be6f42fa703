// Small random models as GGUF files: real shapes, real tokenizers, no download.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ggml-cpp.h"
#include "ggml.h"
#include "gguf.h"

namespace quire::test {

struct TinyModel {
  std::string architecture = "llama";  // or qwen2 (gpt2 tokenizer, biases on q, k, v), qwen3 ...
  std::uint32_t layers = 2, heads = 4, kv_heads = 2, head_size = 64;
  std::uint32_t width = 0;   // of the embedding; 0: heads x head_size
  std::uint32_t window = 0;  // gemma3: of all layers but each 6th, or as `edit` says
  std::uint32_t feed_forward = 192, context = 1024;
  bool tied = false;
  bool rope_factors = false;  // Llama 3's rope_freqs.weight
  std::string rope_scaling;   // linear, yarn; empty: the key is not written
  float rope_factor = 0;
  std::uint32_t rope_original_context = 0;
  std::string chat_template =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  ggml_type type = GGML_TYPE_F32;  // of the matmul weights
  std::uint64_t seed = 1;
  std::function<void(gguf_context*)> edit{};                   // keys, before writing
  std::function<bool(const std::string& tensor)> leave_out{};  // tensors not to write
  std::uint32_t embedding() const { return width > 0 ? width : heads * head_size; }
  bool gemma() const { return architecture == "gemma3"; }
};

namespace tiny {

struct Words {
  std::vector<std::string> texts;
  std::vector<std::int32_t> types;  // GGUF token types: 1 normal, 2 unknown, 3 control, 6 byte
  std::vector<float> scores;
  void add(std::string text, std::int32_t type, float score = 0) {
    texts.push_back(std::move(text));
    types.push_back(type);
    scores.push_back(score);
  }
};

// SentencePiece: three control tokens, every byte, a few pieces.
inline Words piece_words() {
  Words words;
  words.add("<unk>", 2);
  words.add("<s>", 3);
  words.add("</s>", 3);
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", byte);
    words.add(name, 6);
  }
  words.add("\xE2\x96\x81", 1, -1);
  float score = -2;
  for (char c = 'a'; c <= 'z'; ++c) words.add(std::string(1, c), 1, score -= 1);
  for (const char* piece : {"th", "he", "the", "\xE2\x96\x81th", "\xE2\x96\x81the", "in", "er"}) {
    words.add(piece, 1, score += 2);
  }
  words.add("<|im_start|>", 3);
  words.add("<|im_end|>", 3);
  return words;
}

// GPT-2's printable stand-in for a byte, UTF-8.
inline std::string byte_letter(int byte) {
  static const std::vector<int> letters = [] {
    std::vector<int> map(256);
    int next = 256;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      map[static_cast<std::size_t>(b)] = printable ? b : next++;
    }
    return map;
  }();
  const int point = letters[static_cast<std::size_t>(byte)];
  if (point < 0x80) return std::string(1, static_cast<char>(point));
  return {static_cast<char>(0xC0 | (point >> 6)), static_cast<char>(0x80 | (point & 0x3F))};
}

inline const std::vector<std::string>& merges() {
  static const std::vector<std::string> list = {"t h", "th e", "i n", byte_letter(' ') + " the"};
  return list;
}

inline Words byte_pair_words() {
  Words words;
  for (int byte = 0; byte < 256; ++byte) words.add(byte_letter(byte), 1);
  for (const std::string& merge : merges()) {
    std::string joined = merge;
    joined.erase(joined.find(' '), 1);
    words.add(joined, 1);
  }
  for (const char* text : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) words.add(text, 3);
  return words;
}

inline void set_texts(gguf_context* file, const char* key, const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  gguf_set_arr_str(file, key, pointers.data(), pointers.size());
}

inline std::uint32_t write_tokenizer(gguf_context* file, const TinyModel& model) {
  const bool pieces = model.architecture == "llama" || model.gemma();
  const Words words = pieces ? piece_words() : byte_pair_words();
  gguf_set_val_str(file, "tokenizer.ggml.model", pieces ? "llama" : "gpt2");
  set_texts(file, "tokenizer.ggml.tokens", words.texts);
  gguf_set_arr_data(file, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, words.types.data(),
                    words.types.size());
  const auto count = static_cast<std::uint32_t>(words.texts.size());
  if (pieces) {
    gguf_set_arr_data(file, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, words.scores.data(),
                      words.scores.size());
    gguf_set_val_u32(file, "tokenizer.ggml.bos_token_id", 1);
    gguf_set_val_u32(file, "tokenizer.ggml.eos_token_id", 2);
  } else {
    gguf_set_val_str(file, "tokenizer.ggml.pre", "gpt-2");
    set_texts(file, "tokenizer.ggml.merges", merges());
    gguf_set_val_u32(file, "tokenizer.ggml.bos_token_id", count - 3);
    gguf_set_val_u32(file, "tokenizer.ggml.eos_token_id", count - 3);
  }
  if (!model.chat_template.empty()) {
    gguf_set_val_str(file, "tokenizer.chat_template", model.chat_template.c_str());
  }
  return count;
}

inline void write_shape(gguf_context* file, const TinyModel& model) {
  const std::string prefix = model.architecture + ".";
  const auto u32 = [&](const char* key, std::uint32_t value) {
    gguf_set_val_u32(file, (prefix + key).c_str(), value);
  };
  gguf_set_val_str(file, "general.architecture", model.architecture.c_str());
  gguf_set_val_str(file, "general.name", "tiny");
  u32("block_count", model.layers);
  u32("context_length", model.context);
  u32("embedding_length", model.embedding());
  u32("feed_forward_length", model.feed_forward);
  u32("attention.head_count", model.heads);
  u32("attention.head_count_kv", model.kv_heads);
  u32("rope.dimension_count", model.head_size);
  if (model.width > 0) {
    u32("attention.key_length", model.head_size);
    u32("attention.value_length", model.head_size);
  }
  if (model.window > 0) u32("attention.sliding_window", model.window);
  gguf_set_val_f32(file, (prefix + "attention.layer_norm_rms_epsilon").c_str(), 1e-5f);
  gguf_set_val_f32(file, (prefix + "rope.freq_base").c_str(), 10000);
  if (!model.rope_scaling.empty()) {
    gguf_set_val_str(file, (prefix + "rope.scaling.type").c_str(), model.rope_scaling.c_str());
    gguf_set_val_f32(file, (prefix + "rope.scaling.factor").c_str(), model.rope_factor);
  }
  if (model.rope_original_context > 0) {
    u32("rope.scaling.original_context_length", model.rope_original_context);
  }
}

// Adds tensors with random values to a file being made.
class Tensors {
 public:
  Tensors(gguf_context* file, const TinyModel& model)
      : file_(file), model_(model), random_(model.seed) {
    context_.reset(ggml_init({.mem_size = 64u << 20, .mem_buffer = nullptr, .no_alloc = false}));
  }

  void matrix(const std::string& name, std::uint32_t in, std::uint32_t out, float gain = 1) {
    ggml_tensor* values = fill(name, in, out, gain / std::sqrt(static_cast<float>(in)), 0);
    if (values == nullptr) return;
    if (model_.type != GGML_TYPE_F32) values = quantized(values);
    gguf_add_tensor(file_, values);
  }
  // Values around `centre`.
  void vector(const std::string& name, std::uint32_t size, float centre, float spread = 0.2f) {
    if (ggml_tensor* values = fill(name, size, 1, spread, centre)) gguf_add_tensor(file_, values);
  }

 private:
  ggml_tensor* fill(const std::string& name, std::uint32_t ne0, std::uint32_t ne1, float spread,
                    float centre) {
    if (model_.leave_out && model_.leave_out(name)) return nullptr;
    ggml_tensor* tensor = ne1 > 1 ? ggml_new_tensor_2d(context_.get(), GGML_TYPE_F32, ne0, ne1)
                                  : ggml_new_tensor_1d(context_.get(), GGML_TYPE_F32, ne0);
    ggml_set_name(tensor, name.c_str());
    std::normal_distribution<float> normal(centre, spread);
    for (std::int64_t i = 0; i < ggml_nelements(tensor); ++i) {
      static_cast<float*>(tensor->data)[i] = normal(random_);
    }
    return tensor;
  }

  ggml_tensor* quantized(const ggml_tensor* values) {
    ggml_tensor* packed =
        ggml_new_tensor_2d(context_.get(), model_.type, values->ne[0], values->ne[1]);
    ggml_set_name(packed, values->name);
    ggml_quantize_chunk(model_.type, static_cast<const float*>(values->data), packed->data, 0,
                        values->ne[1], values->ne[0], nullptr);
    return packed;
  }

  gguf_context* file_;
  const TinyModel& model_;
  ggml_context_ptr context_;
  std::mt19937_64 random_;
};

inline void write_layer(Tensors& tensors, const TinyModel& model, std::uint32_t layer) {
  const std::string block = "blk." + std::to_string(layer) + ".";
  const std::uint32_t width = model.embedding();
  const std::uint32_t q_width = model.heads * model.head_size;
  const std::uint32_t kv_width = model.kv_heads * model.head_size;
  tensors.vector(block + "attn_norm.weight", width, 1);
  // Larger queries make attention choose, so that a wrong rotation or scale shows.
  tensors.matrix(block + "attn_q.weight", width, q_width, 2);
  tensors.matrix(block + "attn_k.weight", width, kv_width, 2);
  tensors.matrix(block + "attn_v.weight", width, kv_width);
  tensors.matrix(block + "attn_output.weight", q_width, width);
  if (model.architecture == "qwen2") {
    tensors.vector(block + "attn_q.bias", q_width, 0, 0.5f);
    tensors.vector(block + "attn_k.bias", kv_width, 0, 0.5f);
    tensors.vector(block + "attn_v.bias", kv_width, 0, 0.5f);
  }
  if (model.architecture == "qwen3" || model.gemma()) {
    tensors.vector(block + "attn_q_norm.weight", model.head_size, 2);
    tensors.vector(block + "attn_k_norm.weight", model.head_size, 2);
  }
  if (model.gemma()) {
    tensors.vector(block + "post_attention_norm.weight", width, 1);
    tensors.vector(block + "post_ffw_norm.weight", width, 1);
  }
  tensors.vector(block + "ffn_norm.weight", width, 1);
  tensors.matrix(block + "ffn_gate.weight", width, model.feed_forward);
  tensors.matrix(block + "ffn_up.weight", width, model.feed_forward);
  tensors.matrix(block + "ffn_down.weight", model.feed_forward, width);
}

}  // namespace tiny

// Writes the model to `path`; false when the file cannot be written.
inline bool write_tiny_model(const TinyModel& model, const std::string& path) {
  const gguf_context_ptr file(gguf_init_empty());
  tiny::write_shape(file.get(), model);
  const std::uint32_t vocabulary = tiny::write_tokenizer(file.get(), model);
  tiny::Tensors tensors(file.get(), model);
  tensors.matrix("token_embd.weight", model.embedding(), vocabulary, 8);
  tensors.vector("output_norm.weight", model.embedding(), 1);
  if (!model.tied) tensors.matrix("output.weight", model.embedding(), vocabulary, 4);
  if (model.rope_factors) {
    tensors.vector("rope_freqs.weight", model.head_size / 2, 3, 0.8f);
  }
  for (std::uint32_t layer = 0; layer < model.layers; ++layer) {
    tiny::write_layer(tensors, model, layer);
  }
  if (model.edit) model.edit(file.get());
  return gguf_write_to_file(file.get(), path.c_str(), false);
}

}  // namespace quire::test
