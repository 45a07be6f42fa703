// How far a row of logits is from the full cache's row at the same token.
#pragma once

#include <span>
#include <vector>

#include "model/model.h"

namespace quire::eval {

struct RowScore {
  double nll = 0;       // nats, of the token that comes next in the text
  double full_nll = 0;  // likewise, by the full cache
  double kl = 0;  // nats, of the full cache's distribution to this one; exactly 0 for equal bits
  model::Token top = 0, full_top = 0;  // the likeliest
};

// The full cache's row, held while the other arms' rows of the same step arrive.
class FullRow {
 public:
  void set(std::span<const float> logits);
  // REQUIRES: set(), equal sizes, next inside the vocabulary.
  RowScore score(std::span<const float> logits, model::Token next) const;

 private:
  std::vector<float> logits_, share_;  // share: the softmax
  double log_sum_ = 0;                 // log of the sum of exp(logits)
  std::size_t top_ = 0;
};

}  // namespace quire::eval
