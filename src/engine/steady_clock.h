// Seconds of a clock that only goes on.
#pragma once

#include <chrono>

namespace quire::engine {

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace quire::engine
