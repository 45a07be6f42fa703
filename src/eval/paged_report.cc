// What `quire eval paged-eviction` says.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "eval/arms.h"
#include "eval/paged_eval.h"
#include "eval/plot.h"
#include "eval/statistics.h"

namespace quire::eval {
namespace {

constexpr double kMi = 1 << 20;

// One comparison over all inputs.
struct Compared {
  std::string better, other;
  Pairs pairs;
  Estimate estimate;
};

const char* measure_of(const Pairs& pairs) {
  return pairs.of == Compare::kKl ? "KL" : pairs.task == Task::kProse ? "NLL" : "log-probability";
}

const char* verdict(const Estimate& estimate) {
  const int sign = sign_of(estimate);
  return sign > 0 ? "better" : sign < 0 ? "worse" : "no difference shown";
}

std::vector<std::string> others_of(const PagedReport& report) {
  std::vector<std::string> others;
  if (report.quality.results.empty()) return others;
  for (const ArmResult& arm : report.quality.results[0].arms) {
    const std::string& policy = arm.arm.policy;
    if (policy == kPublished || std::ranges::find(others, policy) != others.end()) continue;
    others.push_back(policy);
  }
  return others;
}

// |v| / |k| of lanes against every other arm, on each task.
std::vector<Compared> overall(const PagedReport& report) {
  std::vector<Compared> all;
  for (const std::string& other : others_of(report)) {
    for (const Task task : kBasicTasks) {
      for (const Compare of : {Compare::kNats, Compare::kKl}) {
        if (of == Compare::kKl && other == kFull) continue;
        const Pairs pairs{.task = task, .of = of};
        Compared one{kPublished, other, pairs,
                     contrast(report.quality.results, kPublished, other, pairs)};
        if (one.estimate.items > 0) all.push_back(std::move(one));
      }
    }
  }
  return all;
}

// The sign test, cell by cell.
std::vector<Compared> by_cell(const PagedReport& report) {
  std::vector<std::uint32_t> blocks;
  std::vector<double> keeps;
  for (const InputResult& input : report.quality.results) {
    if (std::ranges::find(blocks, input.block_tokens) == blocks.end()) {
      blocks.push_back(input.block_tokens);
    }
    for (const ArmResult& arm : input.arms) {
      if (arm.arm.policy != kPublished || std::ranges::find(keeps, arm.arm.keep) != keeps.end()) {
        continue;
      }
      keeps.push_back(arm.arm.keep);
    }
  }
  std::vector<Compared> all;
  for (const std::uint32_t block : blocks) {
    for (const double keep : keeps) {
      for (const char* other : {kInverse, kRandomBlocks}) {
        const Pairs pairs{.task = Task::kProse, .block_tokens = block, .keep = keep};
        all.push_back(
            {kPublished, other, pairs, contrast(report.quality.results, kPublished, other, pairs)});
      }
    }
  }
  return all;
}

double document_tokens(const PagedReport& report) {
  return report.quality.header.at("options").at("tokens").get<double>();
}

std::string contrasts_page(const PagedReport& report) {
  std::string text =
      "## |v| / |k| of lanes beside each other arm\n\nNats by which it is better: NLL of prose, "
      "log-probability of an answer token elsewhere, and KL to the full cache; mean over budgets "
      "and block sizes, interval over documents.\n\n"
      "| beside | task | measure | nats | |\n|---|---|---|---|---|\n";
  for (const Compared& one : overall(report)) {
    text += "| " + one.other + " | " + name_of(one.pairs.task) + " | " + measure_of(one.pairs) +
            " | " + with_interval(one.estimate) + " | " + verdict(one.estimate) + " |\n";
  }
  text +=
      "\n## The sign, cell by cell\n\nProse.\n\n| beside | block | entries | nats of NLL | |\n"
      "|---|---|---|---|---|\n";
  for (const Compared& one : by_cell(report)) {
    text += "| " + one.other + " | " + std::to_string(*one.pairs.block_tokens) + " | " +
            fixed(*one.pairs.keep * document_tokens(report), 0) + " | " +
            with_interval(one.estimate) + " | " + verdict(one.estimate) + " |\n";
  }
  return text + "\n";
}

// Of the full cache with these blocks.
double full_rate(const PagedReport& report, std::uint32_t block) {
  for (const RateCell& cell : report.rates) {
    if (cell.policy == kFull && cell.block_tokens == block) return median(cell.tok_s);
  }
  return std::nan("");
}

std::string rates_page(const PagedReport& report) {
  std::string text =
      "## Decode where memory is ample\n\nSequences together, reviews included; medians of rounds. "
      "Bytes and blocks are of one sequence.\n\n![tokens a second](plots/paged-rates.svg)\n\n"
      "| block | policy | entries | tok/s | to full | reviews | bytes | blocks |\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const RateCell& cell : report.rates) {
    const double tok_s = median(cell.tok_s);
    text += "| " + std::to_string(cell.block_tokens) + " | " + cell.policy + " | " +
            std::to_string(cell.keep) + " | " + fixed(tok_s, 1) + " | " +
            fixed(tok_s / full_rate(report, cell.block_tokens), 2) + " | " +
            fixed(cell.review_share * 100, 1) + " % | " + fixed(cell.bytes / kMi, 1) + " MiB | " +
            fixed(cell.blocks, 0) + " |\n";
  }
  return text + "\n";
}

Plot rates_plot(const PagedReport& report) {
  Plot plot{.title = "Decode, tokens a second, blocks of 16",
            .x_label = "entries a lane",
            .y_label = "tokens a second"};
  for (const RateCell& cell : report.rates) {
    if (cell.block_tokens != 16) continue;
    auto line = std::ranges::find(plot.lines, cell.policy, &PlotLine::name);
    if (line == plot.lines.end()) {
      line = plot.lines.insert(
          plot.lines.end(),
          PlotLine{.name = cell.policy, .points = {}, .dashed = cell.policy == kFull});
    }
    line->points.push_back({static_cast<double>(cell.keep), median(cell.tok_s)});
  }
  for (PlotLine& line : plot.lines) std::ranges::sort(line.points, {}, &PlotPoint::x);
  return plot;
}

std::string capacity_page(const PagedReport& report) {
  std::string text =
      "## Where the full cache must queue\n\nAll requests arrive at once, a pool of the share of "
      "what all would hold, blocks of 16, half of the entries evicted. Which reclaims: `whole` "
      "frees blocks whose entries are all dead, `repack` moves survivors together.\n\n"
      "| policy | pool | seed | arm | requests together | tok/s | p95 of a request, s |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const CapacityCell& cell : report.capacity.cells) {
    text += "| " + cell.policy + " | " + fixed(cell.pool * 100, 0) + " % | " +
            std::to_string(cell.seed) + " | " + cell.arm + " | " +
            std::to_string(cell.concurrency) + " | " + fixed(cell.tok_s, 1) + " | " +
            fixed(cell.latency_p95, 2) + " |\n";
  }
  return text + "\n";
}

std::string page_of(const PagedReport& report) {
  const Json& model = report.quality.header.at("model");
  std::string text =
      "# PagedEviction: whole blocks, no attention watched\n\n"
      "Written by `quire eval paged-eviction --report`: " +
      model.at("name").get<std::string>() + " (" + model.at("quantization").get<std::string>() +
      "), " + std::to_string(report.quality.inputs) +
      " inputs. Arms of one budget keep equal entries, which after a repack take equal bytes (a "
      "check); the cache beside them is never cut, and rows of both are computed in the same step. "
      "Documents are read, cut, then continued or asked: no score here looks at a question. A "
      "review follows every block of an answer. Intervals are 95 %, bootstrapped over "
      "documents. `paged-eviction` decides for every lane; scopes layer and sequence make lanes "
      "agree, as the paper's shared tables do. Settings: `" +
      report.quality.header.at("options").dump() + "`.\n\n## Checks\n\n" +
      checks_page(report.checks);
  return text + contrasts_page(report) + rates_page(report) + capacity_page(report) +
         sections_page(report.quality, "paged-");
}

Json compared_json(const std::vector<Compared>& list) {
  Json all = Json::array();
  for (const Compared& one : list) {
    all.push_back(
        {{"arm", one.better},
         {"beside", one.other},
         {"task", name_of(one.pairs.task)},
         {"measure", measure_of(one.pairs)},
         {"block_tokens", one.pairs.block_tokens ? Json(*one.pairs.block_tokens) : Json()},
         {"keep", one.pairs.keep ? Json(*one.pairs.keep) : Json()},
         {"nats", json_of(one.estimate)},
         {"verdict", verdict(one.estimate)}});
  }
  return all;
}

}  // namespace

Json json_of(const PagedReport& report) {
  Json json = json_of(report.quality);
  Json rates = Json::array(), capacity = Json::array();
  for (const RateCell& cell : report.rates) {
    rates.push_back({{"policy", cell.policy},
                     {"block_tokens", cell.block_tokens},
                     {"keep", cell.keep},
                     {"tok_s", cell.tok_s},
                     {"tok_s_median", median(cell.tok_s)},
                     {"to_full", median(cell.tok_s) / full_rate(report, cell.block_tokens)},
                     {"review_share", cell.review_share},
                     {"bytes", cell.bytes},
                     {"blocks", cell.blocks}});
  }
  for (const CapacityCell& cell : report.capacity.cells) {
    capacity.push_back({{"policy", cell.policy},
                        {"arm", cell.arm},
                        {"pool", cell.pool},
                        {"seed", cell.seed},
                        {"concurrency", cell.concurrency},
                        {"tok_s", cell.tok_s},
                        {"latency_p95", cell.latency_p95}});
  }
  json["contrasts"] = compared_json(overall(report));
  json["sign_cells"] = compared_json(by_cell(report));
  json["rates"] = rates;
  json["capacity"] = capacity;
  json["checks"] = json_of(report.checks);
  return json;
}

std::string table_of(const PagedReport& report) {
  PoliciesReport quality = report.quality;
  quality.summary.checks.clear();  // ours are more
  std::string text = table_of(quality);
  char buffer[200];
  std::snprintf(buffer, sizeof(buffer), "%-32s %-8s %-16s %24s\n", "|v| / |k| of lanes beside",
                "task", "measure", "nats better");
  text += buffer;
  for (const Compared& one : overall(report)) {
    std::snprintf(buffer, sizeof(buffer), "%-32s %-8s %-16s %24s  %s\n", one.other.c_str(),
                  name_of(one.pairs.task), measure_of(one.pairs),
                  with_interval(one.estimate).c_str(), verdict(one.estimate));
    text += buffer;
  }
  std::snprintf(buffer, sizeof(buffer), "\n%-24s %6s %8s %10s %8s %8s\n", "decode", "block",
                "entries", "tok/s", "to full", "reviews");
  text += buffer;
  for (const RateCell& cell : report.rates) {
    const double tok_s = median(cell.tok_s);
    std::snprintf(buffer, sizeof(buffer), "%-24s %6u %8u %10.1f %8.2f %7.1f%%\n",
                  cell.policy.c_str(), cell.block_tokens, cell.keep, tok_s,
                  tok_s / full_rate(report, cell.block_tokens), cell.review_share * 100);
    text += buffer;
  }
  std::snprintf(buffer, sizeof(buffer), "\n%-24s %6s %-7s %9s %10s\n", "queueing", "pool", "arm",
                "together", "tok/s");
  text += buffer;
  for (const CapacityCell& cell : report.capacity.cells) {
    std::snprintf(buffer, sizeof(buffer), "%-24s %5.0f%% %-7s %9u %10.1f\n", cell.policy.c_str(),
                  cell.pool * 100, cell.arm.c_str(), cell.concurrency, cell.tok_s);
    text += buffer;
  }
  text += "\n";
  for (const Check& check : report.checks) {
    text += std::string(check.pass ? "pass  " : "FAIL  ") + check.name + ": " + check.found + " (" +
            check.threshold + ")\n";
  }
  return text;
}

std::string csv_of(const PagedReport& report) {
  std::string text = csv_of(report.quality);
  const auto line = [&](const RateCell& cell, const char* name, double value) {
    // The columns of the quality: no task, view or interval.
    text += "decode,," + std::to_string(cell.block_tokens) + ",\"" + cell.policy + "\"," +
            fixed(cell.keep / document_tokens(report), 6) + "," + std::to_string(cell.keep) + "," +
            fixed(cell.bytes, 0) + ",,,1," + name + "," + fixed(value, 9) + ",-,-,," +
            std::to_string(cell.tok_s.size()) + "\n";
  };
  for (const RateCell& cell : report.rates) {
    line(cell, "tok_s", median(cell.tok_s));
    line(cell, "review_share", cell.review_share);
    line(cell, "blocks", cell.blocks);
  }
  return text;
}

Status write_report(const PagedReport& report, const std::string& directory) {
  if (Status status = write_plots(report.quality, directory, "paged-"); !status.ok()) return status;
  const std::filesystem::path root(directory);
  const std::pair<std::filesystem::path, std::string> files[] = {
      {root / "plots" / "paged-rates.svg", svg(rates_plot(report))},
      {root / "paged-eviction.csv", csv_of(report)},
      {root / "paged-eviction.md", page_of(report)}};
  for (const auto& [path, text] : files) {
    if (Status status = write_file(path.string(), text); !status.ok()) return status;
  }
  return {};
}

}  // namespace quire::eval
