// What this machine can do at best, measured: memory it reads, and arithmetic, on some threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quire::cli {

struct MachineLimits {
  std::string cpu;  // as /proc/cpuinfo names it
  std::uint32_t cores = 0, threads = 0;
  double read_bytes_s = 0;  // of a region larger than the caches
  // Operations a second (a multiplication and an addition are two) by kind: "f32 fma",
  // "int8 dot" (VNNI, or the AVX2 multiply-add of bytes), "int8 tiles" (AMX).
  std::vector<std::pair<std::string, double>> peaks;

  double best_peak() const;
};

// As /proc/cpuinfo has it, or "unknown".
std::string cpu_name();

// About a second.
MachineLimits measure_limits(std::uint32_t threads);

}  // namespace quire::cli
