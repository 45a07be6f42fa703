// A grammar over the tokens of one answer.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "llama-cpp.h"
#include "model/model.h"
#include "model/text.h"

namespace quire::model {

class GrammarFilter {
 public:
  // kInvalidArgument: what libllama says of the grammar, or that it forbids the end of the prompt.
  static Result<std::unique_ptr<GrammarFilter>> create(const Text& text, const std::string& grammar,
                                                       const GrammarStart& start);

  // Whether the token may come next.
  bool allows(Token token);
  // Candidates that may not get a logit of minus infinity.
  void mask(llama_token_data_array& candidates);
  // The token was chosen.  False: the grammar has no way on.
  bool accept(Token token);
  // A grammar that takes seconds at one token makes everybody wait.
  bool too_slow() const { return slowest_seconds_ > kMostSeconds; }

 private:
  static constexpr double kMostSeconds = 2;

  GrammarFilter(const Text& text, llama_sampler_ptr sampler, const GrammarStart& start);
  bool feed(Token token);
  bool await(Token token);
  bool binds();

  // Measures a call into libllama, by the processor's time.
  class Watch {
   public:
    explicit Watch(GrammarFilter& filter);
    ~Watch();

   private:
    GrammarFilter& filter_;
    const double begin_;
  };

  const Text& text_;
  llama_sampler_ptr sampler_;
  bool awaiting_;  // one of words_; patterns are libllama's to await
  const std::vector<std::string> words_;
  const bool patterns_;
  bool off_ = false;
  std::size_t longest_ = 0;  // of words_
  // While awaiting: the newest tokens, as many as a word needs, and all their text.
  std::deque<std::pair<Token, std::size_t>> newest_;
  std::string tail_;
  std::size_t awaited_bytes_ = 0;
  double slowest_seconds_ = 0;
};

}  // namespace quire::model
