#include "engine/prefix_use.h"

#include <algorithm>
#include <utility>

namespace quire::engine {

PrefixUse::PrefixUse(Cache& cache, const std::vector<Token>& tokens, const Needs& needs,
                     std::string salt, Sharing sharing)
    : cache_(cache), tokens_(tokens), needs_(needs), salt_(std::move(salt)), sharing_(sharing) {
  const bool possible = sharing != Sharing::kNone && cache.options().prefix.hash;
  if (!possible) off_ = name_of(PrefixEnd::kDisabled);
}

void PrefixUse::turn_off(std::string why) {
  if (!on()) return;
  expect_no_more();
  off_ = std::move(why);
}

void PrefixUse::look(std::uint32_t count) {
  if (!on()) return;
  const PrefixMatch match = cache_.lookup(text(count), needs_);
  looked_ = count;
  found_ = match.usable;
  end_ = match.end;
  // Marked anew before the old mark goes, so that nothing is unmarked between.
  const std::uint32_t before = std::exchange(expected_, 0);
  if (sharing_ == Sharing::kExpect && found_ > 0) expected_ = cache_.expect(text(count));
  if (before > 0) cache_.unexpect(text(before));
}

void PrefixUse::expect_no_more() {
  const std::uint32_t before = std::exchange(expected_, 0);
  if (before > 0) cache_.unexpect(text(before));
}

std::string PrefixUse::reason() const {
  if (!on()) return off_;
  return end_ == PrefixEnd::kLastRows ? std::string() : name_of(end_);
}

std::uint32_t PrefixUse::most(std::uint32_t prompt) const {
  if (!on() || needs_.tap == Tap::kAllRows || needs_.future != 0) return 0;
  const std::uint32_t window = needs_.tap == Tap::kLastRows ? needs_.window : 0;
  const std::uint32_t rows = std::max({1u, window, needs_.gate_rows});
  return prompt - std::min(prompt, rows);
}

Result<SequenceId> PrefixUse::start(std::uint32_t& reused) {
  if (found() == 0) {
    reused = 0;
    return cache_.start(needs_);
  }
  const Result<PrefixStart> begun = cache_.start_with_prefix(needs_, text(looked_), found_);
  if (!begun.ok()) return begun.status();
  // Never more than what its rows were planned with, also when units it missed are there again.
  if (begun->reused < found_) {
    found_ = begun->reused;
    end_ = begun->end;
  }
  reused = begun->reused;
  return begun->sequence;
}

void PrefixUse::leave(SequenceId sequence, std::uint32_t count) {
  // A sequence that is gone, or has lost entries, leaves nothing.
  if (on() && count > 0) static_cast<void>(cache_.index(sequence, text(count)).ok());
}

void PrefixUse::forget(std::uint32_t count) {
  if (on() && count > 0) cache_.forget(text(count));
}

}  // namespace quire::engine
