#include "cli/bench_check.h"

#include <algorithm>
#include <numeric>

#include "cli/terminal.h"

namespace quire::cli {
namespace {

using model::Token;

constexpr std::uint32_t kTokens = 32;
// H. G. Wells, The Time Machine (1895), its first sentences.
constexpr const char* kText =
    "The Time Traveller (for so it will be convenient to speak of him) was expounding a recondite "
    "matter to us. His grey eyes shone and twinkled, and his usually pale face was";

Token best(const std::vector<float>& logits) {
  return static_cast<Token>(std::ranges::max_element(logits) - logits.begin());
}

// How far apart two of the logits are, as a share of the way from the mean to the best.
double gap(const std::vector<float>& logits, Token a, Token b) {
  const double mean =
      std::accumulate(logits.begin(), logits.end(), 0.0) / static_cast<double>(logits.size());
  const double height = *std::ranges::max_element(logits) - mean;
  const double apart = logits[static_cast<std::size_t>(a)] - logits[static_cast<std::size_t>(b)];
  return height > 0 ? std::abs(apart) / height : 0;
}

Result<std::vector<float>> logits_of(Arm& arm, std::span<const Token> tokens, bool first,
                                     std::uint32_t chunk) {
  arm.resume();
  Result<std::vector<float>> logits(std::vector<float>{});
  for (std::size_t at = 0; at < tokens.size() && logits.ok(); at += chunk) {
    const std::size_t rows = std::min<std::size_t>(chunk, tokens.size() - at);
    logits = arm.logits_after(tokens.subspan(at, rows), first && at == 0);
  }
  arm.pause();
  return logits;
}

}  // namespace

Result<SameText> check_same_text(Arm& ours, Arm& peer, const model::Model& model,
                                 std::uint32_t chunk) {
  std::vector<Token> text = model.tokenize(kText, true, false);
  const std::size_t most = model.info().context / 2;
  if (text.size() > most) text.erase(text.begin(), text.end() - static_cast<std::ptrdiff_t>(most));
  SameText same;
  for (bool first = true; same.tokens < kTokens; first = false) {
    const Result<std::vector<float>> mine = logits_of(ours, text, first, chunk);
    if (!mine.ok()) return mine.status();
    const Result<std::vector<float>> theirs = logits_of(peer, text, first, chunk);
    if (!theirs.ok()) return theirs.status();
    const Token own = best(*mine), next = best(*theirs);
    if (own != next) {
      if (gap(*theirs, next, own) > kTieShare) {
        return Status(Code::kNumeric,
                      "the engines do not continue the check text alike: as token " +
                          std::to_string(same.tokens + 1) + " quire says \"" + model.piece(own) +
                          "\" and libllama \"" + model.piece(next) + "\", whose logits are " +
                          number(gap(*theirs, next, own) * 100, 1) + " % apart");
      }
      if (++same.near_ties > kTokens / 4) {
        return Status(Code::kNumeric,
                      "the engines do not continue the check text alike: their "
                      "likeliest tokens differ more than " +
                          std::to_string(kTokens / 4) + " times");
      }
    }
    ++same.tokens;
    text = {next};
  }
  return same;
}

}  // namespace quire::cli
