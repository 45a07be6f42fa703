// What arrives when: the traces of `quire bench serve`.  Pure: a seed gives the same trace on every
// machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/model.h"
#include "quire/status.h"

namespace quire::cli {

struct Arrival {
  double seconds = 0;  // after the start
  std::uint32_t prompt_tokens = 0, answer_tokens = 0;
};

// "512" or "512:128": every whole number in [mean - spread, mean + spread] alike.
struct Length {
  std::uint32_t mean = 0, spread = 0;
};
constexpr std::uint32_t kMostLength = 1u << 20;
Result<Length> parse_length(std::string_view text);

struct TraceShape {
  std::uint32_t requests = 0;
  Length prompt, answer;
  std::uint64_t seed = 0;
};
// All at 0: for whoever sends the next when one ends.
std::vector<Arrival> closed_trace(const TraceShape& shape);
// Exponential gaps, `rate` requests a second on average; the first arrives after a gap, too.
std::vector<Arrival> poisson_trace(const TraceShape& shape, double rate);
// One object a line, or an array of them: {"time": s, "prompt_tokens": n, "answer_tokens": n};
// sorted by time.  kInvalidArgument names `source` and the line or index.
Result<std::vector<Arrival>> parse_trace(std::string_view text, const std::string& source);

// Makes prompts of which no two have a prefix in common (up to `words` requests), or all of them
// their first `shared` tokens and no two more.
class PromptMaker {
 public:
  // `words`: tokens a prompt may be made of.  `text`: tokens to read on from somewhere; empty:
  // random words.
  PromptMaker(std::vector<model::Token> words, std::vector<model::Token> text, std::uint64_t seed,
              std::uint32_t shared = 0)
      : words_(std::move(words)), text_(std::move(text)), seed_(seed), shared_(shared) {}
  std::vector<model::Token> make(std::size_t request, std::uint32_t tokens) const;

 private:
  std::vector<model::Token> some(std::uint64_t stream, std::size_t tokens) const;

  std::vector<model::Token> words_, text_;
  std::uint64_t seed_;
  std::uint32_t shared_;
};

}  // namespace quire::cli
