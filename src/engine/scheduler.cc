// Plans: rows are handed out first, then given room, then the queue is looked at.

#include "engine/scheduler.h"

#include <algorithm>

namespace quire::engine {
namespace {

// Rows that the first prompt gets however slow the step is already.
constexpr std::uint32_t kLeastChunk = 16;

// Rows of a step that were not given out yet.
class RowBudget {
 public:
  explicit RowBudget(const ScheduleLimits& limits)
      : limits_(limits), left_(limits.max_rows), seconds_(limits.cost.fixed_seconds) {}

  std::uint32_t left() const { return left_; }

  // Up to `wanted` rows of the request, behind `taken` others of it.
  std::uint32_t take(const Candidate& request, std::uint32_t wanted, std::uint32_t taken = 0) {
    const std::uint32_t rows = std::min(wanted, left_);
    left_ -= rows;
    seconds_ += limits_.cost.row_seconds * rows +
                limits_.cost.entry_seconds * pairs_of(request.context + taken, rows);
    answers_ = answers_ || request.answering;
    return rows;
  }

  // Likewise of a prompt: only while the step is predicted to stay within its time.
  std::uint32_t take_prompt(const Candidate& request, std::uint32_t wanted,
                            std::uint32_t taken = 0) {
    if (limits_.step_seconds > 0 && answers_) {
      const double left = limits_.step_seconds - seconds_;
      const std::uint32_t rows = rows_within(limits_.cost, request.context + taken, left, wanted);
      wanted = std::min(wanted, std::max(rows, prompts_ ? 0 : kLeastChunk));
    }
    prompts_ = true;
    return take(request, wanted, taken);
  }

 private:
  const ScheduleLimits& limits_;
  std::uint32_t left_;
  double seconds_;
  bool answers_ = false, prompts_ = false;
};

// [running] rows of each: 1 for the first whatever it does, then answers, then prompts.
std::vector<std::uint32_t> give_rows(std::span<const Candidate> running, RowBudget& budget) {
  std::vector<std::uint32_t> rows(running.size(), 0);
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (i == 0 || running[i].answering) rows[i] = budget.take(running[i], 1);
  }
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (running[i].answering) continue;
    const std::uint32_t most = std::min(running[i].rows, running[i].chunk);
    rows[i] += budget.take_prompt(running[i], most - rows[i], rows[i]);
  }
  return rows;
}

// The running request with the most entries to spare; null: none has any.
const Candidate* largest_spare(std::span<const Candidate> running, Room& room) {
  const Candidate* largest = nullptr;
  double most = 0;
  for (const Candidate& request : running) {
    const double spare = room.spare(request.id);
    if (spare <= most) continue;
    most = spare;
    largest = &request;
  }
  return largest;
}

// The last of `behind` that may be dropped.
const Candidate* last_droppable(std::span<const Candidate> behind, bool exact) {
  for (std::size_t i = behind.size(); i-- > 0;) {
    if (behind[i].droppable && behind[i].exact == exact) return &behind[i];
  }
  return nullptr;
}

Plan change(Plan::Change what, RequestId target, std::vector<Share> rows = {}) {
  Plan plan;
  plan.change = what;
  plan.target = target;
  plan.rows = std::move(rows);
  return plan;
}

// Whether the rows fit, if need be after a repack.
bool make_fit(std::span<const Share> shares, Room& room) {
  while (!room.fits(shares)) {
    if (!room.repack(shares)) return false;
  }
  return true;
}

// Gives the rows room, or says what has to change first.
Plan find_room(std::span<const Candidate> running, std::span<const std::uint32_t> rows,
               Room& room) {
  Plan plan;
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (rows[i] > 0) plan.rows.push_back({running[i].id, rows[i]});
  }
  if (plan.rows.empty() || room.fits(plan.rows)) return plan;

  plan.rows.clear();
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (rows[i] == 0) continue;
    plan.rows.push_back({running[i].id, rows[i]});
    if (make_fit(plan.rows, room)) continue;
    const bool first = plan.rows.size() == 1;
    if (const Candidate* spare = largest_spare(running, room)) {
      return change(Plan::Change::kCut, spare->id, std::move(plan.rows));
    }
    const std::span<const Candidate> behind = running.subspan(i + 1);
    if (const Candidate* last = last_droppable(behind, true)) {
      return change(Plan::Change::kPreempt, last->id);
    }
    if (const Candidate* last = first ? last_droppable(behind, false) : nullptr) {
      return change(Plan::Change::kRestart, last->id);
    }
    std::uint32_t& fewer = plan.rows.back().rows;
    while (fewer > 1 && !room.fits(plan.rows)) fewer /= 2;
    // Alone and still no room: the pool itself has the last word.
    if (first || room.fits(plan.rows)) continue;
    plan.paused.push_back(running[i].id);
    plan.rows.pop_back();
  }
  return plan;
}

// Adds the waiting requests that start now.
void admit(std::span<const Candidate> running, std::span<const Candidate> waiting,
           const ScheduleLimits& limits, RowBudget& budget, Room& room, Plan& plan) {
  std::vector<Share> reserved;
  for (const Candidate& request : running) reserved.push_back({request.id, request.reserve});
  for (const Candidate& next : waiting) {
    if (reserved.size() >= limits.max_running || budget.left() == 0 || next.held) return;
    const bool alone = reserved.empty();
    std::uint32_t most = std::min(next.rows, next.chunk);
    reserved.push_back({next.id, next.reserve});
    const bool scarce = !make_fit(reserved, room);
    if (scarce) {
      if (!alone) return;
      reserved.back().rows = next.least;
      if (!room.fits(reserved)) {
        plan = change(Plan::Change::kRefuse, next.id);
        return;
      }
      most = std::min(most, next.least);
    }
    const std::uint32_t rows = budget.take_prompt(next, most);
    if (rows == 0) return;
    plan.rows.push_back({next.id, rows});
    plan.admitted.push_back(next.id);
    if (scarce) return;  // what it will need is not set aside: nobody beside it
  }
}

}  // namespace

Plan make_plan(std::span<const Candidate> running, std::span<const Candidate> waiting,
               const ScheduleLimits& limits, Room& room) {
  RowBudget budget(limits);
  const std::vector<std::uint32_t> rows = give_rows(running, budget);
  Plan plan = find_room(running, rows, room);
  if (plan.change != Plan::Change::kNone || !plan.paused.empty()) return plan;
  admit(running, waiting, limits, budget, room, plan);
  return plan;
}

}  // namespace quire::engine
