// What one request has to do with the prefix cache: what it finds there, and what it leaves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quire/cache.h"

namespace quire::engine {

// kExpect: and what is found by who waits is evicted only when nothing else is left.
enum class Sharing : std::uint8_t { kNone, kShare, kExpect };

class PrefixUse {
 public:
  // `tokens`: of the request, its prompt first; they may only grow, and outlive this.
  PrefixUse(Cache& cache, const std::vector<Token>& tokens, const Needs& needs, std::string salt,
            Sharing sharing);
  ~PrefixUse() { expect_no_more(); }
  PrefixUse(const PrefixUse&) = delete;
  PrefixUse& operator=(const PrefixUse&) = delete;

  bool on() const { return off_.empty(); }
  // From now on there is nothing to find or to leave; `why` is the reason() unless there was one.
  void turn_off(std::string why);
  const std::string& salt() const { return salt_; }

  // --- while it waits ---
  // Finds what of the first `count` tokens, as a prompt, need not be computed.
  void look(std::uint32_t count);
  void expect_no_more();
  // By the last look(): tokens found, and why not more; "" when only rows are missing that must be
  // computed anyway.
  std::uint32_t found() const { return on() ? found_ : 0; }
  std::string reason() const;
  // Tokens that could be found of a prompt of so many.
  std::uint32_t most(std::uint32_t prompt) const;

  // --- with a sequence ---
  // One that begins behind what the last look() found; sets `reused` to its length.
  Result<SequenceId> start(std::uint32_t& reused);
  // Of the first `count` tokens the sequence leaves what it has computed, exactly.
  void leave(SequenceId sequence, std::uint32_t count);
  // Nobody is to find them.
  void forget(std::uint32_t count);

 private:
  PrefixText text(std::uint32_t count) {
    return {.tokens = std::span(tokens_).first(count), .salt = salt_, .keys = &keys_};
  }

  Cache& cache_;
  const std::vector<Token>& tokens_;
  const Needs needs_;
  const std::string salt_;
  const Sharing sharing_;
  std::string off_;  // why there is nothing to find or to leave; empty: there may be
  PrefixKeys keys_{};
  std::uint32_t looked_ = 0, found_ = 0;
  std::uint32_t expected_ = 0;
  PrefixEnd end_ = PrefixEnd::kCold;
};

}  // namespace quire::engine
