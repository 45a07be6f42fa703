// Who runs in the next step, and with how many rows: pure functions of what waits, what runs and
// what the pool says.  No clock, no thread, no model, no cache.
//
// Rank.  Requests are totally ordered (QueueOrder); nothing below depends on anything else.
// Rows.  The first of the running gets a row whatever it does; then every answer gets its row, then
//   prompts get chunks, in rank order, out of `max_rows`.
// Room.  Rows are given room in rank order.  Where they find none, in this order:
//   1. entries move together, if that frees enough (Room::repack);
//   2. a request whose keep is the pool is cut, the largest first (Plan::cut);
//   3. the last of the running behind it that lost no entry is preempted: dropped, and recomputed
//      from its tokens later, to the same bits;
//   4. for the first of the running only: the last that did lose entries is restarted;
//   5. it takes fewer rows;
//   6. it is paused, and keeps its blocks.
// Admission.  Strictly in rank order: the first of the waiting starts once what it will need, with
//   what all running ones will need (Candidate::reserve), fits, after a repack if need be.  When
//   nothing runs, `least` must fit.  Who shares the beginning of a prompt that is being read waits
//   until it can be shared (Candidate::held).
// Time.  While somebody answers, prompts get only the rows with which the step is predicted to stay
//   within `step_seconds`.
//
// Bound.  While anything is running the first of them computes at least one row a step, and it is
// never preempted, restarted or paused for another; so it ends within (rows of its prompt) +
// max_tokens steps.  Nobody starts before a request ranked ahead of it.  With FirstCome a request
// is overtaken only by those submitted less than (its priority - theirs) * ageing_seconds later, so
// every request runs after finitely many others, each within its own bound.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/queue_order.h"
#include "engine/step_cost.h"

namespace quire::engine {

enum class RequestId : std::uint64_t {};

// What a plan must know of a request.
struct Candidate {
  RequestId id{};
  std::uint32_t rows = 0;     // to compute before its next token: 1 while it answers
  std::uint32_t chunk = 1;    // of those, at most so many in the next step
  std::uint32_t reserve = 0;  // rows it needs soon, `rows` included: what admission sets aside
  std::uint32_t least = 0;    // rows it cannot begin without
  std::uint64_t context = 0;  // entries its rows attend to
  bool answering = false;     // its row is of the answer
  bool exact = true;          // no entry was dropped
  bool droppable = true;      // it may be preempted and restarted
  bool held = false;          // starts when others have read what it shares with them
};

// Rows of a request.
struct Share {
  RequestId id{};
  std::uint32_t rows = 0;
};

// The pool, as far as a plan sees it.
class Room {
 public:
  virtual ~Room() = default;
  // Whether so many more rows of each fit, all together.
  virtual bool fits(std::span<const Share> shares) = 0;
  // Frees room for rows that do not fit without dropping anything.  False: nothing came of it.
  virtual bool repack(std::span<const Share>) { return false; }
  // Entries a lane that may be cut from the request for the pool's sake; 0: none.
  virtual double spare(RequestId id) = 0;
};

struct ScheduleLimits {
  std::uint32_t max_rows = 512;
  std::uint32_t max_running = 32;
  double step_seconds = 0;  // 0: no limit
  StepCost cost{};
};

// Either one change to make before planning again, or a step.
struct Plan {
  enum class Change : std::uint8_t { kNone, kCut, kPreempt, kRestart, kRefuse };
  Change change = Change::kNone;
  RequestId target{};               // of the change
  std::vector<Share> rows;          // the step, in rank order; with kCut: what must fit
  std::vector<RequestId> admitted;  // waiting ones that start; their rows are in `rows`
  std::vector<RequestId> paused;    // running ones without room
};

// `running` and `waiting` in rank order.  kRefuse: the first of the waiting does not fit although
// nothing runs.  An empty plan: nothing to do.
Plan make_plan(std::span<const Candidate> running, std::span<const Candidate> waiting,
               const ScheduleLimits& limits, Room& room);

}  // namespace quire::engine
