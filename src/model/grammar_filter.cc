#include "model/grammar_filter.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <exception>

#include "llama.h"
#include "model/gbnf.h"

namespace quire::model {
namespace {

// libllama matches patterns against all text so far, at every token and by recursion: not for ever.
constexpr std::size_t kMaxPatternText = 32u << 10;

std::string escaped(const std::string& word) {
  std::string out;
  for (const char c : word) {
    if (std::string_view(".^$|()*+?[]{}\\").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// Tokens whose pieces are exactly the text: the tokenizer's own may have blanks in front, which the
// grammar does not.
std::vector<Token> tokens_of(const Text& text, std::string_view wanted) {
  std::vector<Token> tokens = text.tokenize(wanted, false, true);
  std::string pieces;
  bool ends = false;  // libllama ends the process at those
  for (const Token token : tokens) {
    pieces += text.piece(token, true);
    ends |= text.is_end(token);
  }
  if (pieces == wanted && !ends) return tokens;
  tokens.clear();
  std::vector<std::string> all;
  for (std::uint32_t id = 0; id < text.vocabulary(); ++id) {
    all.push_back(text.piece(static_cast<Token>(id), true));
  }
  while (!wanted.empty()) {
    std::size_t best = all.size();
    for (std::size_t id = 0; id < all.size(); ++id) {
      if (all[id].empty() || !wanted.starts_with(all[id])) continue;
      if (text.is_end(static_cast<Token>(id))) continue;
      if (best == all.size() || all[id].size() > all[best].size()) best = id;
    }
    if (best == all.size()) break;
    tokens.push_back(static_cast<Token>(best));
    wanted.remove_prefix(all[best].size());
  }
  return tokens;
}

double thread_seconds() {
  timespec now{};
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

GrammarFilter::Watch::Watch(GrammarFilter& filter) : filter_(filter), begin_(thread_seconds()) {}

GrammarFilter::Watch::~Watch() {
  filter_.slowest_seconds_ = std::max(filter_.slowest_seconds_, thread_seconds() - begin_);
}

GrammarFilter::GrammarFilter(const Text& text, llama_sampler_ptr sampler, const GrammarStart& start)
    : text_(text),
      sampler_(std::move(sampler)),
      awaiting_(start.lazy && start.patterns.empty()),
      words_(start.words),
      patterns_(start.lazy && !start.patterns.empty()) {
  for (const std::string& word : words_) longest_ = std::max(longest_, word.size());
}

Result<std::unique_ptr<GrammarFilter>> GrammarFilter::create(const Text& text,
                                                             const std::string& grammar,
                                                             const GrammarStart& start) {
  if (start.lazy && start.words.empty() && start.patterns.empty()) {
    return Status(Code::kInvalidArgument, "grammar: lazy, and nothing begins it");
  }
  const auto is_token = [&](std::string_view token) {
    return text.tokenize(token, false, true).size() == 1;
  };
  if (Status status = check_gbnf(grammar, kOurGbnf, is_token); !status.ok()) return status;
  std::vector<std::string> patterns = start.patterns;
  for (const std::string& word : start.words) {
    if (word.empty()) return Status(Code::kInvalidArgument, "grammar: an empty word begins it");
    patterns.push_back(escaped(word));
  }
  std::vector<const char*> pointers;
  for (const std::string& pattern : patterns) pointers.push_back(pattern.c_str());
  (void)take_library_error();
  llama_sampler_ptr sampler;
  std::string why;
  try {
    sampler.reset(start.lazy ? llama_sampler_init_grammar_lazy_patterns(
                                   text.vocab(), grammar.c_str(), "root", pointers.data(),
                                   pointers.size(), nullptr, 0)
                             : llama_sampler_init_grammar(text.vocab(), grammar.c_str(), "root"));
  } catch (const std::exception& error) {
    why = error.what();
  }
  if (sampler == nullptr) {
    return Status(Code::kInvalidArgument, "grammar: " + (why.empty() ? take_library_error() : why));
  }
  std::unique_ptr<GrammarFilter> filter(new GrammarFilter(text, std::move(sampler), start));
  if (start.lazy || start.prefix.empty()) return filter;
  for (const Token token : tokens_of(text, start.prefix)) {
    if (!filter->accept(token)) {
      return Status(Code::kInvalidArgument, "grammar: does not allow the end of the prompt");
    }
  }
  return filter;
}

bool GrammarFilter::allows(Token token) {
  if (awaiting_) return true;
  llama_token_data candidate{token, 0, 0};
  llama_token_data_array one{&candidate, 1, -1, false};
  mask(one);
  return std::isfinite(candidate.logit);
}

void GrammarFilter::mask(llama_token_data_array& candidates) {
  if (awaiting_ || off_) return;
  const Watch watch(*this);
  try {
    llama_sampler_apply(sampler_.get(), &candidates);
  } catch (const std::exception&) {
    for (std::size_t i = 0; i < candidates.size; ++i) candidates.data[i].logit = -INFINITY;
  }
}

bool GrammarFilter::accept(Token token) {
  if (awaiting_) return text_.is_end(token) || await(token);
  if (off_) return true;
  // libllama ends the process at an end-of-generation token that the grammar forbids.
  if (!allows(token) || !feed(token)) return false;
  if (!patterns_ || awaited_bytes_ > kMaxPatternText) return true;
  awaited_bytes_ += text_.piece(token, true).size();
  off_ = awaited_bytes_ > kMaxPatternText && !binds();
  return true;
}

// A grammar that has begun forbids something.
bool GrammarFilter::binds() {
  std::vector<llama_token_data> candidates;
  for (std::uint32_t id = 0; id < text_.vocabulary(); ++id) {
    candidates.push_back({static_cast<llama_token>(id), 0, 0});
  }
  llama_token_data_array all{candidates.data(), candidates.size(), -1, false};
  mask(all);
  return std::any_of(candidates.begin(), candidates.end(),
                     [](const llama_token_data& one) { return !std::isfinite(one.logit); });
}

bool GrammarFilter::feed(Token token) {
  const Watch watch(*this);
  try {
    llama_sampler_accept(sampler_.get(), token);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// libllama looks for its patterns in all text so far, which takes longer with every token.  Words
// alone are looked for here, and libllama sees the tokens from shortly before one.
bool GrammarFilter::await(Token token) {
  const std::string piece = text_.piece(token, true);
  const std::size_t from = tail_.size() - std::min(tail_.size(), longest_ - 1);
  tail_ += piece;
  newest_.emplace_back(token, piece.size());
  const auto found = [&](const std::string& word) {
    return tail_.find(word, from) != std::string::npos;
  };
  if (std::any_of(words_.begin(), words_.end(), found)) {
    awaiting_ = false;
    for (const auto& [earlier, ignored] : newest_) {
      if (!feed(earlier)) return false;
    }
    newest_.clear();
    tail_.clear();
    return true;
  }
  while (!newest_.empty() && tail_.size() - newest_.front().second >= longest_) {
    tail_.erase(0, newest_.front().second);
    newest_.pop_front();
  }
  return true;
}

}  // namespace quire::model
