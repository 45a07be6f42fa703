#include "serve/rate_limit.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "serve/json_out.h"

namespace quire::serve {
namespace {

constexpr double kMinute = 60;
constexpr std::uint32_t kRateMost = 1'000'000'000;

// As Go writes durations, which is how OpenAI does: "120ms", "17s".
std::string duration(double seconds) {
  const double whole = std::ceil(seconds);
  if (seconds < 1) return std::to_string(static_cast<int>(std::ceil(seconds * 1000))) + "ms";
  return std::to_string(static_cast<std::uint64_t>(whole)) + "s";
}

}  // namespace

Result<std::uint32_t> parse_rate(std::string_view text) {
  std::uint32_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, count);
  const std::string_view unit(at, static_cast<std::size_t>(end - at));
  const bool a_second = unit == "/s";
  const bool known = unit.empty() || unit == "/min" || a_second;
  if (error != std::errc() || !known || count == 0 || count > kRateMost / (a_second ? 60 : 1)) {
    return Status(Code::kInvalidArgument, "\"" + std::string(text) +
                                              "\" is not a rate: 60, 60/min or 1/s, from 1 to " +
                                              std::to_string(kRateMost) + " a minute");
  }
  return a_second ? count * 60 : count;
}

void RateLimiter::refill(Bucket& bucket, double limit, double now) {
  bucket.spent = std::max(0.0, bucket.spent - (now - bucket.at) * limit / kMinute);
  bucket.at = now;
}

RateLimiter::Level RateLimiter::level(const Bucket& bucket, std::uint32_t limit) {
  if (limit == 0) return {};
  const double left = std::max(0.0, limit - bucket.spent);
  return {.limit = limit,
          .left = static_cast<std::uint32_t>(left),
          .full_seconds = bucket.spent * kMinute / limit};
}

RateLimiter::Verdict RateLimiter::take(std::size_t key, const char* what, double amount,
                                       double now) {
  Key& of = keys_[key];
  refill(of.requests, options_.requests, now);
  refill(of.tokens, options_.tokens, now);
  const bool tokens = std::string_view(what) == "tokens";
  Bucket& bucket = tokens ? of.tokens : of.requests;
  const double limit = tokens ? options_.tokens : options_.requests;
  Verdict verdict;
  const double over = bucket.spent + amount - limit;
  if (limit > 0 && over > 1e-9) {
    verdict.over = what;
    verdict.wait_seconds = over * kMinute / limit;
  } else if (limit > 0) {
    bucket.spent += amount;
  }
  verdict.requests = level(of.requests, options_.requests);
  verdict.tokens = level(of.tokens, options_.tokens);
  return verdict;
}

RateLimiter::Verdict RateLimiter::ask(std::size_t key, double now) {
  return take(key, "requests", 1, now);
}

RateLimiter::Verdict RateLimiter::reserve(std::size_t key, std::uint64_t tokens, double now) {
  const auto amount = std::min<double>(static_cast<double>(tokens), options_.tokens);
  return take(key, "tokens", amount, now);
}

void RateLimiter::settle(std::size_t key, std::uint64_t reserved, std::uint64_t used, double now) {
  if (options_.tokens == 0) return;
  Bucket& bucket = keys_[key].tokens;
  refill(bucket, options_.tokens, now);
  const auto taken = std::min<double>(static_cast<double>(reserved), options_.tokens);
  bucket.spent += std::min<double>(static_cast<double>(used), options_.tokens) - taken;
  bucket.spent = std::max(0.0, bucket.spent);
}

std::string rate_fields(const RateLimiter::Verdict& verdict) {
  std::string text;
  const auto add = [&](const std::string& what, const RateLimiter::Level& level) {
    if (level.limit == 0) return;
    text += "x-ratelimit-limit-" + what + ": " + std::to_string(level.limit) + "\r\n";
    text += "x-ratelimit-remaining-" + what + ": " + std::to_string(level.left) + "\r\n";
    text += "x-ratelimit-reset-" + what + ": " + duration(level.full_seconds) + "\r\n";
  };
  add("requests", verdict.requests);
  add("tokens", verdict.tokens);
  return text;
}

Reply over_rate_reply(const RateLimiter::Verdict& verdict) {
  const std::string what = verdict.over;
  const std::uint32_t limit = what == "tokens" ? verdict.tokens.limit : verdict.requests.limit;
  const auto seconds = static_cast<std::uint64_t>(std::ceil(verdict.wait_seconds));
  const std::string message = "rate limit reached: " + std::to_string(limit) + " " + what +
                              " a minute of one key; come again in " +
                              duration(verdict.wait_seconds);
  Reply reply{.status = 429,
              .body = dump({{"error",
                             {{"message", message},
                              {"type", what},
                              {"param", nullptr},
                              {"code", "rate_limit_exceeded"}}}})};
  reply.fields.emplace_back("Retry-After", std::to_string(std::max<std::uint64_t>(seconds, 1)));
  return reply;
}

}  // namespace quire::serve
