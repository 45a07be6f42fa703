#include "eval/contest.h"

#include "quire/check.h"

namespace quire::eval {

Status Contest::step(model::Model& model, const Held& full, std::span<const Held> arms,
                     std::span<const model::Token> tokens, std::span<const model::Token> next,
                     std::span<const std::uint32_t> window_rows, const OnRow& on_row) {
  QUIRE_CHECK(!next.empty() && next.size() <= tokens.size());
  const std::size_t first = tokens.size() - next.size();
  full_rows_.resize(std::max(full_rows_.size(), next.size()));
  std::vector<model::Chunk> chunks;
  const auto add = [&](const Held& sequence, std::uint32_t window) {
    chunks.push_back({.sequence = sequence.id(),
                      .tokens = tokens,
                      .answer = true,
                      .window_rows = window,
                      .logit_rows = static_cast<std::uint32_t>(next.size())});
  };
  add(full, 0);
  for (std::size_t a = 0; a < arms.size(); ++a)
    add(arms[a], window_rows.empty() ? 0 : window_rows[a]);
  return model.forward(chunks,
                       [&](std::size_t chunk, std::uint32_t row, std::span<const float> logits) {
                         const std::size_t at = row - first;
                         if (chunk == 0) {
                           full_rows_[at].set(logits);
                         } else {
                           on_row(chunk - 1, at, full_rows_[at].score(logits, next[at]));
                         }
                       });
}

}  // namespace quire::eval
