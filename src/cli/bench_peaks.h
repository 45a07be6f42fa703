// Loops that do nothing but the arithmetic of one instruction, by instruction set.
#pragma once

#include <cstdint>
#include <vector>

namespace quire::cli {

struct PeakLoop {
  const char* name;
  // Runs `rounds` rounds and returns the operations it did.
  double (*run)(std::uint64_t rounds);
};

// The best loop of each kind that this machine runs.
std::vector<PeakLoop> peak_loops();

}  // namespace quire::cli
