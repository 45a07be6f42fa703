// libllama trusts a tokenizer more than a file deserves: unequal counts, doubled tokens or missing
// bytes end the process there.  What it asserts is checked here first.

#include <cstdio>
#include <string_view>
#include <unordered_set>

#include "model/text.h"

namespace quire::model {
namespace {

constexpr std::size_t kMaxTokens = 1u << 24;

Status check_column(const GgufTable& keys, const char* key, std::size_t tokens,
                    std::initializer_list<gguf_type> types) {
  const GgufValue* value = keys.find(key);
  if (value == nullptr) return {};
  bool fits = value->type == GGUF_TYPE_ARRAY && value->count >= tokens;
  bool type_fits = false;
  for (const gguf_type type : types) type_fits |= value->element == type;
  fits &= type_fits;
  if (fits) return {};
  return keys.fault(Code::kCorrupt, "key '" + std::string(key) +
                                        "' does not have one number for each of the " +
                                        std::to_string(tokens) + " tokens");
}

// libllama falls back to a token per byte.
Status check_bytes(const GgufTable& keys, const std::unordered_set<std::string>& tokens) {
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", byte);
    if (tokens.contains(name) || tokens.contains(std::string(1, static_cast<char>(byte)))) continue;
    return keys.fault(Code::kCorrupt,
                      "key 'tokenizer.ggml.tokens' lacks the byte token " + std::string(name));
  }
  return {};
}

}  // namespace

Status check_tokenizer(const GgufTable& keys) {
  if (keys.find("tokenizer.ggml.model") == nullptr) {
    return keys.fault(Code::kCorrupt,
                      "the file has no tokenizer (key 'tokenizer.ggml.model' is missing)");
  }
  Result<std::string> kind = keys.text("tokenizer.ggml.model");
  if (!kind.ok()) return kind.status();
  if (*kind != "llama" && *kind != "gpt2") {
    return keys.fault(Code::kUnsupported, "key 'tokenizer.ggml.model' is '" + *kind +
                                              "'; this build knows llama, gpt2");
  }
  Result<std::vector<std::string_view>> words = keys.texts("tokenizer.ggml.tokens");
  if (!words.ok()) return words.status();
  if (words->empty() || words->size() > kMaxTokens) {
    return keys.fault(Code::kCorrupt, "key 'tokenizer.ggml.tokens' has " +
                                          std::to_string(words->size()) + " tokens");
  }
  std::unordered_set<std::string> distinct;
  for (std::size_t i = 0; i < words->size(); ++i) {
    const std::string_view word = (*words)[i];
    std::string name(word.substr(0, word.find('\0')));  // libllama reads C strings
    if (name.empty()) name = "[EMPTY_" + std::to_string(i) + "]";
    if (!distinct.insert(std::move(name)).second) {
      return keys.fault(Code::kCorrupt,
                        "key 'tokenizer.ggml.tokens' has token " + std::to_string(i) + " twice");
    }
  }
  if (Status status = check_column(keys, "tokenizer.ggml.scores", words->size(),
                                   {GGUF_TYPE_FLOAT32, GGUF_TYPE_INT32});
      !status.ok()) {
    return status;
  }
  if (Status status =
          check_column(keys, "tokenizer.ggml.token_type", words->size(), {GGUF_TYPE_INT32});
      !status.ok()) {
    return status;
  }
  if (*kind == "llama") return check_bytes(keys, distinct);
  Result<std::vector<std::string_view>> merges = keys.texts("tokenizer.ggml.merges");
  return merges.ok() ? Status() : merges.status();
}

}  // namespace quire::model
