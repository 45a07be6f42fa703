#include "cli/bench_rows.h"

#include <charconv>

namespace quire::cli {
namespace {

constexpr std::uint32_t kDefaultPrompt = 512;
constexpr std::uint32_t kDefaultGeneration = 32;

// Takes a number from 1 to `most` off the front of `text`; false when there is none.
bool take_number(std::string_view& text, std::uint32_t most, std::uint32_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 1 || number > most) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

bool starts_with_digit(std::string_view text) {
  return !text.empty() && text.front() >= '0' && text.front() <= '9';
}

bool parse(std::string_view text, BenchRow& row) {
  const bool prefill = take(text, "pp");
  if (!prefill && !take(text, "tg")) return false;
  row.kind = prefill ? BenchRow::Kind::kPrefill : BenchRow::Kind::kDecode;
  row.tokens = prefill ? kDefaultPrompt : kDefaultGeneration;
  if (starts_with_digit(text) && !take_number(text, kMaxBenchTokens, row.tokens)) return false;
  if (!prefill && take(text, "x") && !take_number(text, kMaxBenchBatch, row.batch)) return false;
  if (take(text, "@d") && !take_number(text, kMaxBenchTokens, row.depth)) return false;
  if (!prefill && row.depth > 0 && take(text, "+keep")) {
    if (!take_number(text, row.depth, row.keep)) return false;
  }
  return text.empty();
}

}  // namespace

std::string BenchRow::name() const {
  std::string text = (kind == Kind::kPrefill ? "pp" : "tg") + std::to_string(tokens);
  if (batch > 1) text += "x" + std::to_string(batch);
  if (depth > 0) text += "@d" + std::to_string(depth);
  if (keep > 0) text += "+keep" + std::to_string(keep);
  return text;
}

Result<BenchRow> parse_bench_row(std::string_view text) {
  BenchRow row;
  if (parse(text, row)) return row;
  return Status(Code::kInvalidArgument,
                "\"" + std::string(text) +
                    "\" is not a test such as pp512, tg32@d4096, tg16x16@d2048 (16 sequences) or "
                    "tg32@d8000+keep1024");
}

std::vector<BenchRow> default_bench_rows() {
  std::vector<BenchRow> rows;
  // Depths ascend, so that each is reached by reading on from the one before.
  for (const char* name : {"pp128", "pp512", "pp4096", "tg32@d128", "tg32@d1024", "tg32@d4096",
                           "tg32@d8000", "tg32@d8000+keep1024", "tg16x16@d2048"}) {
    rows.push_back(*parse_bench_row(name));
  }
  return rows;
}

std::vector<BenchRow> quick_bench_rows() {
  std::vector<BenchRow> rows;
  for (const char* name : {"tg16@d128", "pp128", "pp512", "tg8x4@d256", "tg16@d1024"}) {
    rows.push_back(*parse_bench_row(name));
  }
  return rows;
}

std::vector<BenchRow> cross_bench_rows(const std::vector<std::uint32_t>& prompts,
                                       const std::vector<std::uint32_t>& generations,
                                       const std::vector<std::uint32_t>& depths,
                                       const std::vector<std::uint32_t>& batches) {
  using Kind = BenchRow::Kind;
  std::vector<BenchRow> rows;
  for (const std::uint32_t depth : depths) {
    for (const std::uint32_t n : prompts) {
      if (n > 0) rows.push_back({.kind = Kind::kPrefill, .tokens = n, .depth = depth});
    }
    for (const std::uint32_t n : generations) {
      for (const std::uint32_t batch : batches) {
        if (n == 0) continue;
        rows.push_back({.kind = Kind::kDecode, .tokens = n, .depth = depth, .batch = batch});
      }
    }
  }
  return rows;
}

}  // namespace quire::cli
