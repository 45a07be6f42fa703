// How much one key may ask in a minute: a bucket of requests and one of tokens, each filled evenly
// up to a minute's worth.  Pure: time comes in, in seconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quire/status.h"
#include "serve/http.h"

namespace quire::serve {

struct RateOptions {
  std::uint32_t requests = 0, tokens = 0;  // a minute; 0: as many as they like
  bool active() const { return requests > 0 || tokens > 0; }
};

// "60", "60/min" or "1/s": so many a minute.
Result<std::uint32_t> parse_rate(std::string_view text);

class RateLimiter {
 public:
  struct Level {
    std::uint32_t limit = 0;  // 0: there is none
    std::uint32_t left = 0;
    double full_seconds = 0;  // until all of it is there again
  };
  struct Verdict {
    const char* over = nullptr;  // "requests" or "tokens", where there are too many
    double wait_seconds = 0;     // then: until there are not
    Level requests{}, tokens{};
  };

  RateLimiter(RateOptions options, std::size_t keys) : options_(options), keys_(keys, Key()) {}

  // One request of `key`, from 0; it counts if it is admitted.
  Verdict ask(std::size_t key, double now);
  // Its tokens: the prompt's and as many as its answers may have.  They count if they are admitted;
  // of a request over a minute's worth as a minute's worth.
  Verdict reserve(std::size_t key, std::uint64_t tokens, double now);
  // At its end: what was reserved (by the same number), and what of it was used.
  void settle(std::size_t key, std::uint64_t reserved, std::uint64_t used, double now);

 private:
  // Filled a minute's worth ago: full.
  struct Bucket {
    double spent = 0;  // of a minute's worth
    double at = 0;
  };
  struct Key {
    Bucket requests, tokens;
  };

  static void refill(Bucket& bucket, double limit, double now);
  static Level level(const Bucket& bucket, std::uint32_t limit);
  Verdict take(std::size_t key, const char* what, double amount, double now);

  const RateOptions options_;
  std::vector<Key> keys_;
};

// OpenAI's x-ratelimit-* fields, each "name: value\r\n"; of what has no limit none.
std::string rate_fields(const RateLimiter::Verdict& verdict);
// 429.  REQUIRES: verdict.over.
Reply over_rate_reply(const RateLimiter::Verdict& verdict);

}  // namespace quire::serve
