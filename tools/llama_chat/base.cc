// What the chat code of llama.cpp uses of common.cpp and log.cpp, which are left out: they bring
// threads, files and the network.  Nothing is logged.

#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "common.h"
#include "log.h"

std::string string_join(const std::vector<std::string>& values, const std::string& separator) {
  std::string joined;
  for (std::size_t i = 0; i < values.size(); ++i) joined += (i > 0 ? separator : "") + values[i];
  return joined;
}

std::vector<std::string> string_split(const std::string& text, const std::string& delimiter) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  for (std::size_t end; (end = text.find(delimiter, start)) != std::string::npos;) {
    parts.push_back(text.substr(start, end - start));
    start = end + delimiter.size();
  }
  parts.push_back(text.substr(start));
  return parts;
}

std::string string_repeat(const std::string& text, std::size_t times) {
  std::string repeated;
  for (std::size_t i = 0; i < times; ++i) repeated += text;
  return repeated;
}

std::string string_strip(const std::string& text) {
  const char* const blanks = " \t\n\v\f\r";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

void string_replace_all(std::string& text, const std::string& search, const std::string& with) {
  if (search.empty()) return;
  std::string replaced;
  std::size_t start = 0;
  for (std::size_t end; (end = text.find(search, start)) != std::string::npos;) {
    replaced.append(text, start, end - start).append(with);
    start = end + search.size();
  }
  replaced.append(text, start, std::string::npos);
  text = std::move(replaced);
}

std::string regex_escape(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (std::string_view(".^$|()*+?[]{}\\").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::vector<llama_token> common_tokenize(const llama_vocab* vocab, const std::string& text,
                                         bool add_special, bool parse_special) {
  std::vector<llama_token> tokens(text.size() + 2);
  const auto run = [&] {
    return llama_tokenize(vocab, text.data(), static_cast<std::int32_t>(text.size()), tokens.data(),
                          static_cast<std::int32_t>(tokens.size()), add_special, parse_special);
  };
  std::int32_t count = run();
  if (count == std::numeric_limits<std::int32_t>::min()) throw std::runtime_error("text too long");
  if (count < 0) {
    tokens.resize(static_cast<std::size_t>(-count));
    count = run();
  }
  tokens.resize(static_cast<std::size_t>(count > 0 ? count : 0));
  return tokens;
}

std::string common_token_to_piece(const llama_vocab* vocab, llama_token token, bool special) {
  std::string piece(16, '\0');
  const auto run = [&] {
    return llama_token_to_piece(vocab, token, piece.data(), static_cast<std::int32_t>(piece.size()),
                                0, special);
  };
  std::int32_t size = run();
  if (size < 0) {
    piece.resize(static_cast<std::size_t>(-size));
    size = run();
  }
  piece.resize(static_cast<std::size_t>(size > 0 ? size : 0));
  return piece;
}

int common_log_get_verbosity_thold(void) {
  return std::numeric_limits<int>::min();
}
common_log* common_log_main() {
  return nullptr;
}
void common_log_add(common_log*, ggml_log_level, const char*, ...) {}
bool common_log_get_jsonl(void) {
  return false;
}
