// What a person at a terminal sees besides the answer.
#pragma once

#include <chrono>
#include <string>

namespace quire::cli {

bool stdin_is_terminal();
bool stdout_is_terminal();
bool stderr_is_terminal();

// One line on stderr that is drawn over itself; draws nothing when stderr is no terminal.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what);
  ~ProgressLine();
  // At most ten times a second.  `note` follows the bar.
  void show(double share, const std::string& note = {});
  void clear();

 private:
  std::string what_;
  bool enabled_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

// Prints "quire: MESSAGE" to stderr.
void complain(const std::string& message);

// "12.3 MiB", for people.
std::string readable_bytes(double bytes);
// `format` as printf's, for one number.
std::string number(double value, int decimals);
// 1234567 -> "1,234,567"
std::string grouped(unsigned long long value);

}  // namespace quire::cli
