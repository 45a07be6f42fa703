#include "eval/summary.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <tuple>

namespace quire::eval {
namespace {

using Clusters = std::vector<std::vector<double>>;

std::string decimals(double value, const char* format) {
  char buffer[48];
  std::snprintf(buffer, sizeof(buffer), format, value);
  return buffer;
}

// An arm of every input that has it.
struct Row {
  const InputResult* input;
  const ArmResult* arm;
};

Estimate over_inputs(const std::vector<Row>& rows,
                     const std::function<std::vector<double>(const ArmResult&)>& items) {
  Clusters clusters;
  for (const Row& row : rows) clusters.push_back(items(*row.arm));
  return bootstrap_mean(clusters);
}

std::vector<Measure> prose_measures(const std::vector<Row>& rows) {
  const auto of = [&](auto value) {
    return over_inputs(rows, [&](const ArmResult& arm) {
      return arm.prose.rows == 0 ? std::vector<double>{} : std::vector<double>{value(arm.prose)};
    });
  };
  return {
      {"kl", false, false, of([](const ProseScore& s) { return s.kl; })},
      {"nll", false, false, of([](const ProseScore& s) { return s.nll; })},
      {"nll_over_full", false, false, of([](const ProseScore& s) { return s.nll - s.full_nll; })},
      {"same_top", true, true, of([](const ProseScore& s) { return s.same_top; })},
  };
}

std::vector<Measure> question_measures(const std::vector<Row>& rows, View view) {
  const auto of = [&](auto value, bool where_full_is_right) {
    return over_inputs(rows, [&](const ArmResult& arm) {
      std::vector<double> items;
      for (const QuestionScore& score : arm.scores(view)) {
        if (where_full_is_right && !score.full_right) continue;
        items.push_back(value(score));
      }
      return items;
    });
  };
  const auto share = [](bool yes) { return yes ? 1.0 : 0.0; };
  const auto right = [&](const QuestionScore& s) { return share(s.right); };
  std::vector<Measure> measures = {
      {"log_p", true, false, of([](const QuestionScore& s) { return s.log_p; }, false)},
      {"log_p_over_full", true, false,
       of([](const QuestionScore& s) { return s.log_p - s.full_log_p; }, false)},
      {"right", true, true, of(right, false)},
      {"full_right", true, true,
       of([&](const QuestionScore& s) { return share(s.full_right); }, false)},
      {"retained", true, true, of(right, true)},
      {"harm", false, true,
       of([&](const QuestionScore& s) { return share(s.full_right && !s.right); }, false)},
      {"kl", false, false, of([](const QuestionScore& s) { return s.kl; }, false)},
  };
  for (Measure& measure : measures) {
    const Estimate& e = measure.estimate;
    if (!measure.percent || e.items == 0) continue;
    const double yes = e.value * static_cast<double>(e.items);
    measure.wilson = wilson(static_cast<std::size_t>(std::lround(yes)), e.items);
  }
  return measures;
}

// The share of an arm's inputs that its gate let through, in this view.
double open_share(const ArmResult& arm, std::optional<View> view) {
  if (!view) return arm.prose.open ? 1 : 0;
  const std::vector<QuestionScore>& scores = arm.scores(*view);
  if (scores.empty()) return 1;
  const auto open = std::ranges::count(scores, true, &QuestionScore::open);
  return static_cast<double>(open) / static_cast<double>(scores.size());
}

// Item by item better than `random`: > 0.
std::optional<Estimate> paired(const std::vector<Row>& rows, const std::vector<Row>& random,
                               std::optional<View> view) {
  Clusters clusters;
  for (const Row& row : rows) {
    const auto other = std::ranges::find(random, row.input, &Row::input);
    if (other == random.end()) continue;
    std::vector<double>& items = clusters.emplace_back();
    if (!view) {
      items.push_back(other->arm->prose.kl - row.arm->prose.kl);
      continue;
    }
    const auto &mine = row.arm->scores(*view), &theirs = other->arm->scores(*view);
    for (std::size_t q = 0; q < std::min(mine.size(), theirs.size()); ++q) {
      items.push_back(mine[q].log_p - theirs[q].log_p);
    }
  }
  if (clusters.empty()) return {};
  return bootstrap_mean(clusters);
}

Cell cell_of(const std::vector<Row>& rows, std::optional<View> view) {
  Cell cell{.task = rows[0].input->task,
            .view = view,
            .block_tokens = rows[0].input->block_tokens,
            .arm = rows[0].arm->arm};
  const auto n = static_cast<double>(rows.size());
  cell.open_share = 0;
  for (const Row& row : rows) {
    const auto target = static_cast<double>(row.arm->target);
    const auto all = static_cast<double>(row.input->full_bytes);
    const double open = open_share(*row.arm, view);
    const double bytes = open * static_cast<double>(row.arm->bytes) + (1 - open) * all;
    cell.open_share += open / n;
    cell.entries += row.arm->entries / n;
    cell.bytes += bytes / n;
    cell.bytes_share += bytes / all / n;
    cell.off_target =
        std::max(cell.off_target, std::fabs(static_cast<double>(row.arm->bytes) / target - 1));
    cell.grain = std::max(cell.grain, static_cast<double>(row.input->grain_bytes) / target);
    cell.reachable = cell.reachable && row.arm->reachable;
    cell.only_protected = cell.only_protected || row.arm->only_protected;
  }
  cell.measures = view ? question_measures(rows, *view) : prose_measures(rows);
  return cell;
}

Check twin_check(const std::vector<InputResult>& results) {
  double worst = 0;
  std::size_t arms = 0;
  for (const InputResult& input : results) {
    for (const ArmResult& arm : input.arms) {
      if (arm.arm.policy != kFull) continue;
      ++arms;
      worst = std::max(worst, arm.prose.kl);
      for (const View view : kViews) {
        for (const QuestionScore& score : arm.scores(view)) worst = std::max(worst, score.kl);
      }
    }
  }
  return {"an arm that never shrinks is the full cache", "KL = 0 in every row",
          "largest KL " + decimals(worst, "%.3g") + " on " + std::to_string(arms) + " inputs",
          worst <= kTwinKlMost};
}

// The widest (largest - smallest) / mean of the bytes of arms that share a task, block and share.
double spread(const std::vector<Cell>& cells) {
  double widest = 0;
  for (const Cell& one : cells) {
    double low = one.bytes, high = one.bytes;
    for (const Cell& other : cells) {
      const bool beside = other.arm.gate == kOpen && other.task == one.task &&
                          other.view == one.view && other.reachable &&
                          other.block_tokens == one.block_tokens && other.arm.keep == one.arm.keep;
      if (!beside) continue;
      low = std::min(low, other.bytes);
      high = std::max(high, other.bytes);
    }
    if (one.reachable && one.arm.gate == kOpen)
      widest = std::max(widest, 2 * (high - low) / (high + low));
  }
  return widest;
}

Check bytes_check(const std::vector<Cell>& cells) {
  std::size_t beyond = 0, coarse = 0, all = 0;
  for (const Cell& cell : cells) {
    if (!cell.reachable || cell.arm.policy == kFull || cell.arm.gate != kOpen) continue;
    ++all;
    coarse += cell.off_target > kBytesTolerance ? 1 : 0;
    beyond += cell.off_target > std::max(kBytesTolerance, cell.grain) ? 1 : 0;
  }
  return {kBytesCheck,
          "within 1 % of the target, or within a block of every lane where that is more",
          std::to_string(all - coarse) + " of " + std::to_string(all) + " cells within 1 %, " +
              std::to_string(coarse - beyond) + " within a block, " + std::to_string(beyond) +
              " beyond; widest spread " + decimals(spread(cells) * 100, "%.1f") + " %",
          beyond == 0};
}

Check oracle_check(const std::vector<Cell>& cells) {
  std::size_t better = 0, all = 0;
  for (const Cell& cell : cells) {
    if (cell.arm.policy != kOracle || !cell.over_random) continue;
    ++all;
    better += cell.over_random->value > 0 ? 1 : 0;
  }
  return {kOracleCheck, "oracle over random > 0 in every cell",
          std::to_string(better) + " of " + std::to_string(all) + " cells", better == all};
}

}  // namespace

const char* main_measure(Task task) {
  return continues(task) ? "kl" : "log_p";
}

std::string Cell::task_name() const {
  return name_of(task) + (view ? std::string(", ") + name_of(*view) : std::string());
}

const Measure* Cell::measure(std::string_view name) const {
  const auto found = std::ranges::find(measures, name, &Measure::name);
  return found == measures.end() ? nullptr : &*found;
}

Summary summarise(const std::vector<InputResult>& results) {
  // Cells in the order in which their first input names them; tasks and block sizes together.
  using Key = std::tuple<int, std::uint32_t, std::size_t>;  // task, block_tokens, arm
  std::map<Key, std::vector<Row>> rows;
  std::vector<Arm> arms;
  for (const InputResult& input : results) {
    for (const ArmResult& arm : input.arms) {
      auto known = std::ranges::find(arms, arm.arm);
      if (known == arms.end()) known = arms.insert(arms.end(), arm.arm);
      const auto at = static_cast<std::size_t>(known - arms.begin());
      rows[{static_cast<int>(input.task), input.block_tokens, at}].push_back({&input, &arm});
    }
  }
  Summary summary;
  for (const auto& [key, cell_rows] : rows) {
    const auto [task, block, at] = key;
    std::vector<std::optional<View>> views;
    if (continues(cell_rows[0].input->task)) {
      views.push_back({});
    } else {
      // Of one question there is no second: a view may lack in some inputs.
      for (const View view : kViews) {
        const bool any = std::ranges::any_of(
            cell_rows, [&](const Row& row) { return !row.arm->scores(view).empty(); });
        if (any) views.push_back(view);
      }
    }
    const auto random = std::ranges::find_if(arms, [&, arm = arms[at]](const Arm& other) {
      return other == Arm{"random", arm.keep, arm.gate};
    });
    for (const std::optional<View>& view : views) {
      Cell cell = cell_of(cell_rows, view);
      const bool compared = cell.arm.policy != "random" && cell.arm.policy != kFull;
      if (compared && random != arms.end()) {
        const auto other =
            rows.find({task, block, static_cast<std::size_t>(random - arms.begin())});
        if (other != rows.end()) cell.over_random = paired(cell_rows, other->second, view);
      }
      summary.cells.push_back(std::move(cell));
    }
  }
  std::ranges::stable_sort(summary.cells, {}, [](const Cell& cell) {
    return std::tuple(cell.task, cell.block_tokens, cell.view.value_or(View::kBlind));
  });
  summary.checks = {twin_check(results), bytes_check(summary.cells), oracle_check(summary.cells)};
  return summary;
}

}  // namespace quire::eval
