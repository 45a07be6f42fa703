// The rows of `quire bench`: what each measures, and how it is written on the command line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quire/status.h"

namespace quire::cli {

// pp512: reads a prompt.  tg32@d4096: generates at a depth.  tg16x16@d2048: 16 sequences, each.
// tg32@d8000+keep1024: with a policy that keeps 1024 of the 8000.
struct BenchRow {
  enum class Kind : std::uint8_t { kPrefill, kDecode };
  Kind kind = Kind::kPrefill;
  std::uint32_t tokens = 0;  // read or generated per sequence in one measurement
  std::uint32_t depth = 0;   // tokens each sequence holds before
  std::uint32_t batch = 1;   // sequences
  std::uint32_t keep = 0;    // entries a lane keeps of the depth; 0: all

  std::string name() const;  // as parse_bench_row() reads it
  std::uint64_t work() const { return std::uint64_t{tokens} * batch; }
};

constexpr std::uint32_t kMaxBenchTokens = 1u << 20;
constexpr std::uint32_t kMaxBenchBatch = 256;  // as many as libllama takes

// kInvalidArgument says what a test looks like.
Result<BenchRow> parse_bench_row(std::string_view text);
// What is measured when nothing is asked for, and the short list of --quick.
std::vector<BenchRow> default_bench_rows();
std::vector<BenchRow> quick_bench_rows();
// Every prompt length and every generation length x batch at every depth, as llama-bench does.
std::vector<BenchRow> cross_bench_rows(const std::vector<std::uint32_t>& prompts,
                                       const std::vector<std::uint32_t>& generations,
                                       const std::vector<std::uint32_t>& depths,
                                       const std::vector<std::uint32_t>& batches);

}  // namespace quire::cli
