#include "model/text.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <mutex>
#include <utility>

#include "llama.h"

namespace quire::model {
namespace {

std::mutex log_mutex;
std::string log_error;  // guarded by log_mutex

void keep_errors(ggml_log_level level, const char* text, void*) {
  if (level != GGML_LOG_LEVEL_ERROR) return;
  const std::scoped_lock lock(log_mutex);
  if (!log_error.empty()) return;
  log_error = text;
  for (char& c : log_error) c = c == '\n' ? ' ' : c;  // one line
  while (!log_error.empty() && log_error.back() == ' ') log_error.pop_back();
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// libllama reads the very file that is mapped, not whatever has its name by now.
std::unique_ptr<std::FILE, CloseFile> reopen(const GgufFile& file) {
  const int descriptor = ::dup(file.descriptor());
  if (descriptor < 0) return nullptr;
  std::FILE* stream = ::fdopen(descriptor, "rb");
  if (stream == nullptr)
    ::close(descriptor);
  else
    std::rewind(stream);
  return std::unique_ptr<std::FILE, CloseFile>(stream);
}

}  // namespace

void silence_libraries() {
  static std::once_flag once;
  std::call_once(once, [] { llama_log_set(keep_errors, nullptr); });
}

std::string take_library_error() {
  const std::scoped_lock lock(log_mutex);
  return std::exchange(log_error, {});
}

Result<std::unique_ptr<Text>> Text::load(const GgufFile& file, std::string chat_template) {
  if (Status status = check_tokenizer(file.keys()); !status.ok()) return status;
  const auto stream = reopen(file);
  if (stream == nullptr) return Status(Code::kIo, file.path() + ": cannot read");
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  params.load_mode = LLAMA_LOAD_MODE_NONE;
  params.progress_callback = [](float, void*) { return true; };
  (void)take_library_error();
  llama_model* model = llama_model_load_from_file_ptr(stream.get(), params);
  if (model == nullptr) {
    return file.keys().fault(Code::kCorrupt,
                             "libllama refuses the tokenizer (" + take_library_error() + ")");
  }
  std::unique_ptr<Text> text(new Text(model, std::move(chat_template)));
  const llama_vocab* vocab = text->vocab();
  // Where the file asks for a token it does not have, libllama would assert at the first prompt.
  if ((llama_vocab_get_add_bos(vocab) && llama_vocab_bos(vocab) == LLAMA_TOKEN_NULL) ||
      (llama_vocab_get_add_eos(vocab) && llama_vocab_eos(vocab) == LLAMA_TOKEN_NULL)) {
    return file.keys().fault(Code::kCorrupt,
                             "keys 'tokenizer.ggml.add_bos_token' and 'add_eos_token' ask for "
                             "tokens the file does not name");
  }
  return text;
}

Text::Text(llama_model* model, std::string chat_template)
    : model_(model),
      chat_template_(std::move(chat_template)),
      vocab_(llama_model_get_vocab(model)) {
  for (std::uint32_t id = 0; id < vocabulary(); ++id) {
    longest_piece_ = std::max(longest_piece_, piece(static_cast<Token>(id), true).size());
  }
}

std::uint32_t Text::vocabulary() const {
  return static_cast<std::uint32_t>(llama_vocab_n_tokens(vocab_));
}

std::vector<Token> Text::tokenize(std::string_view text, bool add_special, bool parse_special) const
    try {
  std::vector<Token> tokens(text.size() + 8);
  const auto run = [&] {
    return llama_tokenize(vocab_, text.data(), static_cast<std::int32_t>(text.size()),
                          tokens.data(), static_cast<std::int32_t>(tokens.size()), add_special,
                          parse_special);
  };
  std::int32_t count = run();
  if (count < 0) {  // more than a token per byte: the number that would fit
    tokens.resize(static_cast<std::size_t>(-static_cast<std::int64_t>(count)));
    count = run();
  }
  tokens.resize(static_cast<std::size_t>(count > 0 ? count : 0));
  return tokens;
} catch (const std::exception&) {
  return {};  // bytes its pre-tokenizer cannot split
}

std::string Text::piece(Token token, bool special) const {
  if (token < 0 || token >= llama_vocab_n_tokens(vocab_)) return {};
  std::string text(16, '\0');
  const auto run = [&] {
    return llama_token_to_piece(vocab_, token, text.data(), static_cast<std::int32_t>(text.size()),
                                0, special);
  };
  std::int32_t size = run();
  if (size < 0) {
    text.resize(static_cast<std::size_t>(-size));
    size = run();
  }
  text.resize(static_cast<std::size_t>(size > 0 ? size : 0));
  return text;
}

bool Text::is_end(Token token) const {
  return llama_vocab_is_eog(vocab_, token);
}

}  // namespace quire::model
