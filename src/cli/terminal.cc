// Terminal output.

#include "cli/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace quire::cli {

bool stdin_is_terminal() {
  return isatty(STDIN_FILENO) == 1;
}
bool stdout_is_terminal() {
  return isatty(STDOUT_FILENO) == 1;
}
bool stderr_is_terminal() {
  return isatty(STDERR_FILENO) == 1;
}

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)), enabled_(stderr_is_terminal()) {}

ProgressLine::~ProgressLine() {
  clear();
}

void ProgressLine::show(double share, const std::string& note) {
  const auto now = std::chrono::steady_clock::now();
  if (!enabled_ || (drawn_ && share < 1 && now - last_ < std::chrono::milliseconds(100))) return;
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(std::clamp(share, 0.0, 1.0) * kWidth);
  const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
  std::fprintf(stderr, "\r\x1b[K%s [%s] %3.0f %%%s%s", what_.c_str(), bar.c_str(), share * 100,
               note.empty() ? "" : "  ", note.c_str());
  std::fflush(stderr);
  last_ = now;
  drawn_ = true;
}

void ProgressLine::clear() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
  drawn_ = false;
}

void complain(const std::string& message) {
  std::fprintf(stderr, "quire: %s\n", message.c_str());
}

std::string number(double value, int decimals) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%.*f", decimals, value);
  return buffer;
}

std::string readable_bytes(double bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  return number(bytes, unit == 0 ? 0 : 1) + " " + units[unit];
}

std::string grouped(unsigned long long value) {
  std::string digits = std::to_string(value);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

}  // namespace quire::cli
