// The text held back is never longer than the longest stop text.

#include "engine/stop_text.h"

#include <algorithm>
#include <utility>

namespace quire::engine {
namespace {

// Bytes at the end of `text` that may be the beginning of `stop`.
std::size_t overlap(std::string_view text, std::string_view stop) {
  for (std::size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length) {
    if (text.ends_with(stop.substr(0, length))) return length;
  }
  return 0;
}

}  // namespace

StopText::StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase(stops_, std::string());
}

std::string StopText::push(std::string_view text) {
  if (stopped_) return {};
  held_ += text;
  std::size_t begin = 0, end = std::string::npos, keep = 0;
  for (const std::string& stop : stops_) {
    const std::size_t at = held_.find(stop);
    if (at != std::string::npos && std::pair(at + stop.size(), at) < std::pair(end, begin)) {
      begin = at;
      end = at + stop.size();
    }
    keep = std::max(keep, overlap(held_, stop));
  }
  stopped_ = end != std::string::npos;
  std::string out = held_.substr(0, stopped_ ? begin : held_.size() - keep);
  held_.erase(0, stopped_ ? held_.size() : out.size());
  return out;
}

std::string StopText::finish() {
  return std::exchange(held_, {});
}

}  // namespace quire::engine
