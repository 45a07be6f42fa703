#include "cli/bench_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/terminal.h"

namespace quire::cli {
namespace {

using json = nlohmann::ordered_json;

double rounded(double value, int decimals) {
  const double scale = std::pow(10.0, decimals);
  return std::round(value * scale) / scale;
}

const char* type_name(KvType type) {
  return type == KvType::kF32 ? "f32" : type == KvType::kBF16 ? "bf16" : "f16";
}

json rounded_list(const std::vector<double>& values, int decimals) {
  json list = json::array();
  for (const double value : values) list.push_back(rounded(value, decimals));
  return list;
}

json row_json(const BenchReport& report, const RowResult& result) {
  const BenchRow& row = result.row;
  const TokenCost cost = cost_of(row, report.matrices, report.cache, report.chunk);
  json object = {{"test", row.name()},
                 {"depth", row.depth},
                 {"batch", row.batch},
                 {"tok_s", rounded(median(result.ours), 2)},
                 {"p10", rounded(percentile10(result.ours), 2)},
                 {"bandwidth_share", rounded(report.bandwidth_share(result), 4)},
                 {"peak_share", rounded(report.peak_share(result), 4)},
                 {"peers", json::object()},
                 {"tokens", row.tokens},
                 {"policy", row.keep > 0 ? json(report.policy) : json(nullptr)},
                 {"keep", row.keep > 0 ? json(row.keep) : json(nullptr)},
                 {"bytes_per_token", std::round(cost.bytes)},
                 {"operations_per_token", std::round(cost.operations)},
                 {"spread", rounded(result.spread(), 4)},
                 {"repeated", result.repeated},
                 {"samples", rounded_list(result.ours, 2)}};
  if (!result.peer.empty()) {
    const std::vector<double> ratios = result.ratios();
    object["peers"]["llama"] = {{"tok_s", rounded(median(result.peer), 2)},
                                {"ratio", rounded(median(ratios), 3)},
                                {"ratio_p10", rounded(percentile10(ratios), 3)},
                                {"samples", rounded_list(result.peer, 2)}};
  }
  return object;
}

std::string percent(double share) {
  return number(share * 100, share < 0.0995 ? 1 : 0) + " %";
}

// Wide enough for tok/s of every model, short enough for a table.
std::string rate(double tokens_per_second) {
  return number(tokens_per_second, tokens_per_second < 100 ? 1 : 0);
}

}  // namespace

double BenchReport::bandwidth_share(const RowResult& row) const {
  const TokenCost cost = cost_of(row.row, matrices, cache, chunk);
  return limits.read_bytes_s > 0 ? cost.bytes * median(row.ours) / limits.read_bytes_s : 0;
}

double BenchReport::peak_share(const RowResult& row) const {
  const TokenCost cost = cost_of(row.row, matrices, cache, chunk);
  const double peak = limits.best_peak();
  return peak > 0 ? cost.operations * median(row.ours) / peak : 0;
}

json bench_json(const BenchReport& report) {
  json peaks = json::object();
  for (const auto& [name, peak] : report.limits.peaks) peaks[name] = std::round(peak);
  json rows = json::array();
  for (const RowResult& row : report.rows) rows.push_back(row_json(report, row));
  json object = {{"quire_json", 1},
                 {"machine",
                  {{"cpu", report.limits.cpu},
                   {"cores", report.limits.cores},
                   {"threads", report.limits.threads},
                   {"read_bytes_s", std::round(report.limits.read_bytes_s)},
                   {"peak_operations_s", peaks},
                   {"attention", report.attention_isa},
                   {"attention_of_chunks", report.chunk_isa},
                   {"ggml", report.model.isa}}},
                 {"model",
                  {{"name", report.model.name},
                   {"architecture", report.model.architecture},
                   {"quantization", report.model.quantization},
                   {"parameters", report.model.parameters},
                   {"file_bytes", report.model.file_bytes},
                   {"weights_bytes", report.model.weights_bytes},
                   {"copies_bytes", report.model.copies_bytes},
                   {"kv_type", type_name(report.cache.key_type)}}},
                 {"rows", rows},
                 {"left_out", report.left_out}};
  if (report.peer_system_info) {
    object["peers"]["llama"] = {
        {"system_info", *report.peer_system_info}, {"kv_type", "f16"}, {"flash_attention", true}};
  }
  if (report.same_text) {
    object["check"] = {{"tokens", report.same_text->tokens},
                       {"near_ties", report.same_text->near_ties}};
  }
  return object;
}

void print_bench_head(const BenchReport& report) {
  const model::ModelInfo& model = report.model;
  const MachineLimits& limits = report.limits;
  std::string peaks;
  for (const auto& [name, peak] : limits.peaks) {
    peaks += ", " + name + " " + grouped(static_cast<unsigned long long>(peak / 1e9)) + " G/s";
  }
  std::printf("model    %s, %s, %s cache, weights %s + copies %s\n", model.name.c_str(),
              model.quantization.c_str(), type_name(report.cache.key_type),
              readable_bytes(static_cast<double>(model.weights_bytes)).c_str(),
              readable_bytes(static_cast<double>(model.copies_bytes)).c_str());
  std::printf("machine  %s, %u cores, %u threads: reads %s GB/s%s\n", limits.cpu.c_str(),
              limits.cores, limits.threads, number(limits.read_bytes_s / 1e9, 1).c_str(),
              peaks.c_str());
  std::printf("quire    attention %s, of chunks %s\n", report.attention_isa.c_str(),
              report.chunk_isa.c_str());
  for (const auto& [path, tensors] : model.linear) {
    std::printf("         products by %s: %s\n", path.c_str(), tensors.c_str());
  }
  if (report.peer_system_info) {
    std::printf(
        "libllama f16 cache, flash attention, its own %u threads, weights repacked\n"
        "         %s\n",
        limits.threads, report.peer_system_info->c_str());
  }
  if (report.same_text) {
    std::printf("check    both continue a text alike: %u tokens", report.same_text->tokens);
    std::printf(report.same_text->near_ties > 0 ? ", %u near ties\n" : "\n",
                report.same_text->near_ties);
  }
  std::printf("\n%-20s %8s %8s %7s ", "tokens a second", "quire", "p10", "spread");
  if (report.peer_system_info) std::printf("%9s %6s %6s ", "libllama", "ratio", "p10");
  std::printf("%10s %9s %7s\n", "MB/token", "of read", "of peak");
  std::fflush(stdout);
}

void print_bench_row(const BenchReport& report, const RowResult& row) {
  const TokenCost cost = cost_of(row.row, report.matrices, report.cache, report.chunk);
  const std::string mark = row.wide() ? "!" : row.repeated ? "*" : " ";
  std::printf("%-20s %8s %8s %6s%s ", row.row.name().c_str(), rate(median(row.ours)).c_str(),
              rate(percentile10(row.ours)).c_str(), percent(row.spread()).c_str(), mark.c_str());
  if (report.peer_system_info) {
    const std::vector<double> ratios = row.ratios();
    std::printf("%9s %6s %6s ", rate(median(row.peer)).c_str(), number(median(ratios), 2).c_str(),
                number(percentile10(ratios), 2).c_str());
  }
  std::printf("%10s %9s %7s\n", number(cost.bytes / 1e6, 2).c_str(),
              percent(report.bandwidth_share(row)).c_str(),
              percent(report.peak_share(row)).c_str());
  std::fflush(stdout);
}

void print_bench_notes(const BenchReport& report) {
  const auto any = [&](bool (*is)(const RowResult&)) {
    return std::ranges::any_of(report.rows, is);
  };
  std::printf("\n");
  if (any([](const RowResult& row) { return row.repeated && !row.wide(); })) {
    std::printf("*  measured twice: the first time its own times spread over 10 %%\n");
  }
  if (any([](const RowResult& row) { return row.wide(); })) {
    std::printf("!  its own times spread over 10 %%: a busy machine, or a short row\n");
  }
  if (any([](const RowResult& row) { return row.row.keep > 0; })) {
    std::printf("+keep: quire with the policy %s; libllama decodes with its full cache\n",
                report.policy.c_str());
  }
  std::printf(
      "MB/token: the least there is to move; of read, of peak: shares of the best measured\n");
  for (const std::string& row : report.left_out) std::printf("left out: %s\n", row.c_str());
}

}  // namespace quire::cli
