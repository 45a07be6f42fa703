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

// Of 8-bit tiles, in a file of its own that is compiled for them; x86-64 only.
double amx_dot(std::uint64_t rounds);

// The best loop of each kind that this machine runs.
std::vector<PeakLoop> peak_loops();

}  // namespace quire::cli
