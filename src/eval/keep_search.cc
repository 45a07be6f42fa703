#include "eval/keep_search.h"

#include <algorithm>
#include <cmath>

namespace quire::eval {
namespace {

std::uint64_t distance(std::uint64_t a, std::uint64_t b) {
  return a > b ? a - b : b - a;
}

// Nearer to the target than this is near enough: a tenth of the tolerance that reports allow.
constexpr double kNear = 0.001;
// More are not worth their time: each is a review of every lane.
constexpr int kQuestions = 9;

class Search {
 public:
  Search(const BytesOf& bytes_of, std::uint64_t target) : bytes_of_(bytes_of), target_(target) {}

  // Bytes of `entries`, remembered if nearer than all before.
  Result<std::uint64_t> ask(std::uint32_t entries) {
    const Result<std::uint64_t> bytes = bytes_of_(entries);
    if (!bytes.ok()) return bytes;
    const std::uint64_t far = distance(*bytes, target_), best = distance(kept_.bytes, target_);
    const bool nearer = far < best || (far == best && *bytes <= kept_.bytes &&
                                       (*bytes < kept_.bytes || entries > kept_.entries));
    if (!any_ || nearer) kept_ = {.entries = entries, .bytes = *bytes};
    any_ = true;
    return bytes;
  }
  bool near() const {
    return any_ && static_cast<double>(distance(kept_.bytes, target_)) <=
                       kNear * static_cast<double>(target_);
  }
  const Kept& kept() const { return kept_; }

 private:
  const BytesOf& bytes_of_;
  const std::uint64_t target_;
  bool any_ = false;
  Kept kept_;
};

}  // namespace

Result<Kept> find_keep(const BytesOf& bytes_of, std::uint64_t target, std::uint32_t least,
                       std::uint32_t most, std::uint32_t guess, std::uint32_t grain) {
  Search search(bytes_of, target);
  // Of [low, high] low is at or under the target and high over it, once they are known.
  std::uint32_t low = least - 1, high = most + 1;
  std::uint64_t low_bytes = 0, high_bytes = 0;
  std::uint32_t next = std::clamp(guess, least, most);
  for (int asked = 0; high - low > 1 && !search.near() && asked < kQuestions; ++asked) {
    const Result<std::uint64_t> bytes = search.ask(next);
    if (!bytes.ok()) return bytes.status();
    (*bytes <= target ? low : high) = next;
    (*bytes <= target ? low_bytes : high_bytes) = *bytes;
    if (high - low <= 1) break;
    // Straight through what is known, but never nearer than an eighth to an end: bytes rise in
    // steps.
    double at = low + (high - low) / 2.0;
    if (high_bytes > low_bytes) {
      at = low + (high - low) * static_cast<double>(target - low_bytes) /
                     static_cast<double>(high_bytes - low_bytes);
    } else if (low_bytes > 0) {
      at = low * static_cast<double>(target) / static_cast<double>(low_bytes) + 1;
    }
    const double edge = (high - low) / 8.0;
    at = std::clamp(at, low + edge, high - edge);
    next = std::clamp(static_cast<std::uint32_t>(at), low + 1, high - 1);
  }
  if (high == least) {
    return Kept{.entries = least, .bytes = high_bytes, .reachable = false};
  }
  const std::uint32_t whole = std::min((search.kept().entries + grain - 1) / grain * grain, most);
  if (whole != search.kept().entries) {
    const Result<std::uint64_t> bytes = search.ask(whole);
    if (!bytes.ok()) return bytes.status();
  }
  return search.kept();
}

}  // namespace quire::eval
