#include "cli/bench_serve_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "cli/bench_limits.h"
#include "cli/terminal.h"
#include "eval/plot.h"

namespace quire::cli {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kShownSamples = 512;

double rounded(double value) {  // to a microsecond, or a millionth of a byte: nobody measures more
  return std::round(value * 1e6) / 1e6;
}

json quantiles_json(const Quantiles& seconds) {
  return {
      {"p50", rounded(seconds.p50)}, {"p95", rounded(seconds.p95)}, {"p99", rounded(seconds.p99)}};
}

const char* name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kAnswered:
      return "answered";
    case Outcome::kRefused:
      return "refused";
    case Outcome::kCancelled:
      return "cancelled";
    case Outcome::kFailed:
      return "failed";
  }
  return "";
}

json arrivals_json(const ServeFlags& flags) {
  if (!flags.trace.empty()) return {{"kind", "trace"}, {"file", flags.trace}};
  if (flags.rate > 0) return {{"kind", "poisson"}, {"rate", rounded(flags.rate)}};
  return {{"kind", "closed"}, {"concurrency", concurrency_of(flags)}};
}

json limits_json(const ServeLimits& limits) {
  const auto or_null = [](const std::optional<double>& limit) {
    return limit ? json(rounded(*limit)) : json(nullptr);
  };
  return {{"ttft_s", or_null(limits.ttft)}, {"tpot_s", or_null(limits.tpot)}};
}

json requests_json(const ServeReport& report) {
  json list = json::array();
  for (const ServedRequest& request : report.record.requests) {
    json object = {{"arrived_s", rounded(request.arrived)},
                   {"outcome", name_of(request.outcome)},
                   {"prompt_tokens", request.prompt_tokens},
                   {"answer_tokens", request.answer_tokens},
                   {"ended_s", rounded(request.ended)}};
    if (request.outcome == Outcome::kAnswered) object["ttft_s"] = rounded(request.ttft());
    if (request.cached_tokens > 0) object["cached_tokens"] = request.cached_tokens;
    if (request.preemptions > 0) object["preemptions"] = request.preemptions;
    if (request.restarted) object["restarted"] = true;
    if (!request.error.empty()) object["error"] = request.error;
    list.push_back(object);
  }
  return list;
}

json samples_json(const ServeReport& report) {
  json list = json::array();
  for (const ServeSample& sample : thinned(report.record.samples, kShownSamples)) {
    list.push_back({{"s", rounded(sample.seconds)},
                    {"running", sample.running},
                    {"waiting", sample.waiting},
                    {"paused", sample.paused},
                    {"answer_rows", sample.answer_rows},
                    {"prompt_rows", sample.prompt_rows},
                    {"blocks", sample.blocks},
                    {"used_bytes", sample.used_bytes},
                    {"committed_bytes", sample.committed_bytes}});
  }
  return list;
}

std::string milliseconds(double seconds) {
  return number(seconds * 1e3, seconds < 0.1 ? 1 : 0);
}

void print_quantiles(const char* name, const Quantiles& seconds) {
  std::printf("%-22s %10s %10s %10s\n", name, milliseconds(seconds.p50).c_str(),
              milliseconds(seconds.p95).c_str(), milliseconds(seconds.p99).c_str());
}

std::string arrivals_text(const ServeFlags& flags) {
  if (!flags.trace.empty()) return "as in " + flags.trace;
  if (flags.rate > 0) return number(flags.rate, 2) + " a second at random";
  return std::to_string(concurrency_of(flags)) + " at a time";
}

double share(std::size_t part, std::size_t all) {
  return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 0;
}

// --- plots ---

template <typename Value>
eval::PlotLine line_of(const char* name, const std::vector<ServeSample>& samples, Value value) {
  eval::PlotLine line{.name = name, .points = {}};
  for (const ServeSample& sample : samples) line.points.push_back({sample.seconds, value(sample)});
  return line;
}

std::string requests_plot(const std::vector<ServeSample>& samples) {
  eval::Plot plot{.title = "Requests", .x_label = "seconds", .y_label = "requests", .lines = {}};
  plot.lines.push_back(
      line_of("running", samples, [](const auto& s) { return static_cast<double>(s.running); }));
  plot.lines.push_back(
      line_of("waiting", samples, [](const auto& s) { return static_cast<double>(s.waiting); }));
  plot.lines.push_back(
      line_of("paused", samples, [](const auto& s) { return static_cast<double>(s.paused); }));
  return eval::svg(plot);
}

std::string bytes_plot(const ServeReport& report, const std::vector<ServeSample>& samples) {
  constexpr double kMi = 1 << 20;
  const double budget = static_cast<double>(report.cache.budget_bytes) / kMi;
  eval::Plot plot{.title = "Cache", .x_label = "seconds", .y_label = "MiB", .lines = {}};
  plot.lines.push_back(line_of(
      "in use", samples, [](const auto& s) { return static_cast<double>(s.used_bytes) / kMi; }));
  plot.lines.push_back(line_of("committed", samples, [](const auto& s) {
    return static_cast<double>(s.committed_bytes) / kMi;
  }));
  plot.lines.push_back(line_of("budget", samples, [budget](const auto&) { return budget; }));
  plot.lines.back().dashed = true;
  return eval::svg(plot);
}

// The share of answered requests that took at most so long.
eval::PlotLine shares_of(const char* name, std::vector<double> seconds) {
  std::ranges::sort(seconds);
  eval::PlotLine line{.name = name, .points = {}};
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    line.points.push_back({seconds[i], share(i + 1, seconds.size())});
  }
  return line;
}

std::string latency_plot(const ServeReport& report) {
  std::vector<double> ttft, end_to_end;
  for (const ServedRequest& request : report.record.requests) {
    if (request.outcome != Outcome::kAnswered) continue;
    ttft.push_back(request.ttft());
    end_to_end.push_back(request.end_to_end());
  }
  eval::Plot plot{.title = "Latency", .x_label = "seconds", .y_label = "requests", .lines = {}};
  plot.lines.push_back(shares_of("first token", ttft));
  plot.lines.push_back(shares_of("whole answer", end_to_end));
  plot.y_percent = true;
  return eval::svg(plot);
}

Status write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file.good() ? Status() : Status(Code::kIo, path.string() + ": cannot be written");
}

}  // namespace

ServeReport report_of(const Engine& engine, const ServeFlags& flags, ServeRecord record) {
  const model::ModelInfo& info = engine.model->info();
  ServeReport report{.model = info.name,
                     .quantization = info.quantization,
                     .cpu = cpu_name(),
                     .threads = engine.model->threads(),
                     .cache = engine.cache->options(),
                     .flags = flags,
                     .record = std::move(record),
                     .summary = {}};
  report.summary = summarise(report.record.requests, report.record.samples, limits_of(flags));
  return report;
}

json serve_json(const ServeReport& report) {
  const ServeFlags& flags = report.flags;
  const ServeSummary& s = report.summary;
  const ServeLimits limits = limits_of(flags);
  const auto tokens = static_cast<double>(s.prompt_tokens + s.answer_tokens);
  const MovesReport& moves = report.record.cache.moves;
  json goodput = nullptr;
  if (limits.any()) {
    goodput = {{"limits", limits_json(limits)},
               {"requests", s.met},
               {"share", rounded(share(s.met, s.requests))},
               {"requests_s", rounded(s.per_second(static_cast<double>(s.met)))}};
  }
  return {{"quire_json", 1},
          {"machine", {{"cpu", report.cpu}, {"threads", report.threads}}},
          {"model", {{"name", report.model}, {"quantization", report.quantization}}},
          {"load",
           {{"arrivals", arrivals_json(flags)},
            {"prompt", flags.prompt},
            {"answer", flags.answer},
            {"shared", flags.shared},
            {"seed", flags.seed},
            {"max_running", flags.loop.max_running},
            {"queue", flags.loop.queue},
            {"step_ms", rounded(flags.loop.step_ms)},
            {"reserve", flags.reserve}}},
          {"cache",
           {{"budget_bytes", report.cache.budget_bytes},
            {"block_tokens", report.cache.block_tokens},
            {"kv_type", flags.engine.kv_type},
            {"policy", flags.policy},
            {"keep", flags.keep.empty() ? "pool" : flags.keep},
            {"reclaim", flags.engine.reclaim},
            {"prefix_cache", flags.loop.prefix_cache == "on"},
            {"deterministic", flags.engine.deterministic}}},
          {"counts",
           {{"requests", s.requests},
            {"answered", s.answered},
            {"refused", s.refused},
            {"cancelled", s.cancelled},
            {"failed", s.failed},
            {"preemptions", s.preemptions},
            {"restarts", s.restarts},
            {"pauses", report.record.stats.pauses},
            {"cuts", report.record.stats.cuts},
            {"steps", report.record.stats.steps},
            {"recomputed_rows", report.record.stats.recomputed_rows}}},
          {"seconds", rounded(s.seconds)},
          {"ttft_s", quantiles_json(s.ttft)},
          {"tpot_s", quantiles_json(s.tpot)},
          {"end_to_end_s", quantiles_json(s.end_to_end)},
          {"goodput", goodput},
          {"tokens_s", rounded(s.per_second(tokens))},
          {"answer_tokens_s", rounded(s.per_second(static_cast<double>(s.answer_tokens)))},
          {"requests_s", rounded(s.per_second(static_cast<double>(s.answered)))},
          {"running", {{"mean", rounded(s.running_mean)}, {"peak", s.running_peak}}},
          {"waiting", {{"peak", s.waiting_peak}}},
          {"bytes",
           {{"used_peak", s.used_peak},
            {"committed_peak", s.committed_peak},
            {"blocks_peak", s.blocks_peak}}},
          {"prefix",
           {{"prompt_tokens", s.prompt_tokens},
            {"cached_tokens", s.cached_tokens},
            {"hit_ratio", rounded(share(s.cached_tokens, s.prompt_tokens))}}},
          {"moves",
           {{"entries", moves.entries}, {"bytes", moves.bytes}, {"blocks_freed", moves.blocks}}},
          {"requests", requests_json(report)},
          {"samples", samples_json(report)}};
}

void print_serve(const ServeReport& report) {
  const ServeFlags& flags = report.flags;
  const ServeSummary& s = report.summary;
  std::printf("model     %s, %s; %s, %u threads\n", report.model.c_str(),
              report.quantization.c_str(), report.cpu.c_str(), report.threads);
  std::printf("load      %zu requests, %s; prompts %s, answers %s tokens, seed %u\n", s.requests,
              arrivals_text(flags).c_str(), flags.prompt.c_str(), flags.answer.c_str(), flags.seed);
  std::printf("cache     %s, blocks of %u tokens, %s; policy %s, keep %s, reclaim %s\n\n",
              readable_bytes(static_cast<double>(report.cache.budget_bytes)).c_str(),
              report.cache.block_tokens, flags.engine.kv_type.c_str(), flags.policy.c_str(),
              flags.keep.empty() ? "pool" : flags.keep.c_str(), flags.engine.reclaim.c_str());
  std::printf("%-22s %10s %10s %10s\n", "milliseconds", "p50", "p95", "p99");
  print_quantiles("to the first token", s.ttft);
  print_quantiles("a token after it", s.tpot);
  print_quantiles("whole answer", s.end_to_end);
  std::printf("\nrequests  %zu answered, %zu refused, %zu cancelled, %zu failed in %s s\n",
              s.answered, s.refused, s.cancelled, s.failed, number(s.seconds, 2).c_str());
  std::printf(
      "speed     %s tokens a second, %s of answers; %s requests a second\n",
      number(s.per_second(static_cast<double>(s.prompt_tokens + s.answer_tokens)), 1).c_str(),
      number(s.per_second(static_cast<double>(s.answer_tokens)), 1).c_str(),
      number(s.per_second(static_cast<double>(s.answered)), 2).c_str());
  if (limits_of(flags).any()) {
    std::printf("goodput   %zu of %zu within the limits, %s a second\n", s.met, s.requests,
                number(s.per_second(static_cast<double>(s.met)), 2).c_str());
  }
  std::printf("at once   %s on average, %u at most; %u waited at most\n",
              number(s.running_mean, 1).c_str(), s.running_peak, s.waiting_peak);
  std::printf("prefixes  %s of %s prompt tokens were cached\n", grouped(s.cached_tokens).c_str(),
              grouped(s.prompt_tokens).c_str());
  std::printf("bytes     %s in use at most (%s blocks), %s committed\n",
              readable_bytes(static_cast<double>(s.used_peak)).c_str(),
              grouped(s.blocks_peak).c_str(),
              readable_bytes(static_cast<double>(s.committed_peak)).c_str());
  std::printf(
      "pressure  %s preemptions, %s restarts, %s pauses, %s cuts; repacking freed %s blocks\n",
      grouped(s.preemptions).c_str(), grouped(s.restarts).c_str(),
      grouped(report.record.stats.pauses).c_str(), grouped(report.record.stats.cuts).c_str(),
      grouped(report.record.cache.moves.blocks).c_str());
  const auto refused = std::ranges::find_if(
      report.record.requests, [](const ServedRequest& request) { return !request.error.empty(); });
  if (refused != report.record.requests.end()) {
    std::printf("first refusal: %s\n", refused->error.c_str());
  }
}

Status write_serve(const ServeReport& report, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return {Code::kIo, folder + ": " + error.message()};
  const std::filesystem::path path(folder);
  const std::vector<ServeSample> samples = thinned(report.record.samples, kShownSamples);
  const std::pair<const char*, std::string> files[] = {
      {"serve.json", serve_json(report).dump(1) + "\n"},
      {"requests.svg", requests_plot(samples)},
      {"bytes.svg", bytes_plot(report, samples)},
      {"latency.svg", latency_plot(report)}};
  for (const auto& [name, text] : files) {
    if (Status status = write_file(path / name, text); !status.ok()) return status;
  }
  return {};
}

}  // namespace quire::cli
