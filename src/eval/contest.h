// One step of the full cache and of every arm, and their rows side by side.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "eval/row_score.h"
#include "eval/sequences.h"

namespace quire::eval {

class Contest {
 public:
  using OnRow = std::function<void(std::size_t arm, std::size_t row, const RowScore& score)>;

  // Appends `tokens` to `full` and to each of `arms`, in one step; `next` are the tokens that
  // follow the last next.size() rows.  `window_rows`: per arm, Chunk::window_rows; empty: none.
  // Logits live only inside the step: nothing is compared with a stored row.  REQUIRES:
  // next.size() <= tokens.size(); all rows fit one step.
  Status step(model::Model& model, const Held& full, std::span<const Held> arms,
              std::span<const model::Token> tokens, std::span<const model::Token> next,
              std::span<const std::uint32_t> window_rows, const OnRow& on_row);

 private:
  std::vector<FullRow> full_rows_;
};

}  // namespace quire::eval
