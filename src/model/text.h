// libllama's tokenizer over the vocabulary of a GGUF file.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "llama-cpp.h"
#include "model/gguf_file.h"
#include "model/model.h"
#include "quire/status.h"

namespace quire::model {

class Text {
 public:
  // kCorrupt when the file has no tokenizer, or one whose parts contradict each other;
  // kUnsupported for a kind libllama does not know.
  // `chat_template`: instead of the file's, if not empty.
  static Result<std::unique_ptr<Text>> load(const GgufFile& file, std::string chat_template = {});

  std::uint32_t vocabulary() const;
  std::vector<Token> tokenize(std::string_view text, bool add_special, bool parse_special) const;
  std::string piece(Token token, bool special) const;
  bool is_end(Token token) const;
  std::size_t longest_piece() const { return longest_piece_; }  // bytes of a token, at most

  // Of ModelOptions, or empty.
  const std::string& chat_template() const { return chat_template_; }
  const llama_model* model() const { return model_.get(); }
  const llama_vocab* vocab() const { return vocab_; }

 private:
  Text(llama_model* model, std::string chat_template);

  llama_model_ptr model_;
  const std::string chat_template_;
  const llama_vocab* vocab_;
  std::size_t longest_piece_ = 1;
};

// Refuses tokenizer keys that libllama would meet with an assertion.
Status check_tokenizer(const GgufTable& keys);

// From now on libllama and ggml print nothing; what they would have printed first since the last
// call, as an error, can be had for a message.
void silence_libraries();
std::string take_library_error();

}  // namespace quire::model
