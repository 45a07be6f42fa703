// Goal: a plan keeps the rules that engine/scheduler.h states, and by them every request ends.
// Method: plans written by hand for each rule; then thousands of seeded runs over a pool that is a
//   count of blocks (block_pool.h), every plan checked against the rules and carried out.

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "engine/block_pool.h"
#include "engine/scheduler.h"
#include "support/seed.h"

namespace quire::engine {
namespace {

using test::BlockPool;
using test::BlockRequest;

// A pool of so many rows, whatever their request.
struct RowPool final : Room {
  explicit RowPool(std::uint32_t rows) : free(rows) {}
  bool fits(std::span<const Share> shares) override {
    std::uint32_t sum = 0;
    for (const Share& share : shares) sum += share.rows;
    return sum <= free;
  }
  bool repack(std::span<const Share>) override {
    const std::uint32_t freed = std::min(holes, 4u);
    free += freed;
    holes -= freed;
    return freed > 0;
  }
  double spare(RequestId id) override { return id == spared ? spare_entries : 0; }
  std::uint32_t free;
  std::uint32_t holes = 0;
  RequestId spared{};
  double spare_entries = 0;
};

Candidate answer(std::uint64_t id) {
  return {.id = RequestId{id}, .rows = 1, .chunk = 1, .reserve = 10, .least = 1, .answering = true};
}
Candidate prompt(std::uint64_t id, std::uint32_t rows, std::uint32_t chunk = 512) {
  return {.id = RequestId{id},
          .rows = rows,
          .chunk = std::min(rows, chunk),
          .reserve = rows + 10,
          .least = rows};
}

std::vector<std::pair<std::uint64_t, std::uint32_t>> rows_of(const Plan& plan) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> rows;
  for (const Share& share : plan.rows) rows.emplace_back(std::uint64_t(share.id), share.rows);
  return rows;
}
using Rows = std::vector<std::pair<std::uint64_t, std::uint32_t>>;

TEST(Scheduler, AnswersFirstThenPromptsInTheRowsLeft) {
  RowPool pool(1000);
  const std::vector<Candidate> running = {prompt(1, 300), answer(2), prompt(3, 300), answer(4)};
  const Plan plan = make_plan(running, {}, {.max_rows = 400}, pool);
  EXPECT_EQ(rows_of(plan), (Rows{{1, 300}, {2, 1}, {3, 98}, {4, 1}}));
  EXPECT_EQ(plan.change, Plan::Change::kNone);
}

TEST(Scheduler, TheFirstComputesAtLeastARowHoweverManyAnswersThereAre) {
  RowPool pool(1000);
  const std::vector<Candidate> running = {prompt(1, 300), answer(2), answer(3), answer(4)};
  EXPECT_EQ(rows_of(make_plan(running, {}, {.max_rows = 3}, pool)), (Rows{{1, 1}, {2, 1}, {3, 1}}));
  EXPECT_EQ(rows_of(make_plan(running, {}, {.max_rows = 1}, pool)), (Rows{{1, 1}}));
}

TEST(Scheduler, PromptsAreShortenedToKeepAStepInTime) {
  RowPool pool(10'000);
  const std::vector<Candidate> running = {answer(1), prompt(2, 300), prompt(3, 300)};
  ScheduleLimits limits{.max_rows = 512, .step_seconds = 0.1, .cost = {0.01, 0.001, 0}};
  EXPECT_EQ(rows_of(make_plan(running, {}, limits, pool)), (Rows{{1, 1}, {2, 89}}));
  limits.step_seconds = 0.005;  // too slow already: the first prompt still moves
  EXPECT_EQ(rows_of(make_plan(running, {}, limits, pool)), (Rows{{1, 1}, {2, 16}}));
  const std::vector<Candidate> prompts = {prompt(2, 300), prompt(3, 300)};
  EXPECT_EQ(rows_of(make_plan(prompts, {}, limits, pool)), (Rows{{2, 300}, {3, 212}}))
      << "nobody's pace to keep";
}

TEST(Scheduler, StartsAreInRankOrderAndSetBytesAside) {
  RowPool pool(100);
  const std::vector<Candidate> running = {answer(1)};  // reserves 10
  const std::vector<Candidate> waiting = {prompt(2, 40), prompt(3, 60), prompt(4, 5)};
  const Plan plan = make_plan(running, waiting, {}, pool);
  EXPECT_EQ(rows_of(plan), (Rows{{1, 1}, {2, 40}}));
  EXPECT_EQ(plan.admitted, (std::vector<RequestId>{RequestId{2}})) << "4 does not pass 3";
  EXPECT_TRUE(make_plan(running, waiting, {.max_running = 1}, pool).admitted.empty());
}

TEST(Scheduler, AloneOnlyWhatItCannotBeginWithoutMustFit) {
  RowPool pool(45);
  EXPECT_EQ(rows_of(make_plan({}, std::vector{prompt(2, 40)}, {}, pool)), (Rows{{2, 40}}));
  const Plan plan = make_plan({}, std::vector{prompt(3, 46)}, {}, pool);
  EXPECT_EQ(plan.change, Plan::Change::kRefuse);
  EXPECT_EQ(plan.target, RequestId{3});
}

TEST(Scheduler, HolesServeBeforeAnybodyIsCutOrWaits) {
  RowPool pool(1);
  pool.holes = 6;
  pool.spared = RequestId{1};
  pool.spare_entries = 5;
  const std::vector<Candidate> running = {answer(1), answer(2), answer(3)};
  const Plan all = make_plan(running, {}, {}, pool);
  EXPECT_EQ(all.change, Plan::Change::kNone);
  EXPECT_EQ(rows_of(all), (Rows{{1, 1}, {2, 1}, {3, 1}}));
  EXPECT_EQ(pool.holes, 2u) << "no more than was needed";

  pool = RowPool(20);
  pool.holes = 40;
  const std::vector<Candidate> waiting = {prompt(2, 30)};
  const Plan admitted = make_plan({running.data(), 1}, waiting, {}, pool);
  EXPECT_EQ(admitted.admitted, (std::vector{RequestId{2}}));
  EXPECT_EQ(pool.free, 52u) << "10 for the answer, 40 for the prompt";
}

TEST(Scheduler, WithoutRoomTheOrderIsCutPreemptRestartFewerPause) {
  RowPool pool(1);
  Candidate lossy = answer(3);
  lossy.exact = false;
  std::vector<Candidate> running = {answer(1), answer(2), lossy, answer(4)};
  pool.spared = RequestId{2};
  pool.spare_entries = 5;
  Plan plan = make_plan(running, {}, {}, pool);
  EXPECT_EQ(plan.change, Plan::Change::kCut);
  EXPECT_EQ(plan.target, RequestId{2});
  EXPECT_EQ(rows_of(plan), (Rows{{1, 1}, {2, 1}})) << "what must fit";

  pool.spare_entries = 0;
  plan = make_plan(running, {}, {}, pool);
  EXPECT_EQ(plan.change, Plan::Change::kPreempt);
  EXPECT_EQ(plan.target, RequestId{4}) << "the last that lost nothing";

  running.pop_back();
  plan = make_plan(running, std::vector{prompt(9, 1)}, {}, pool);
  EXPECT_EQ(rows_of(plan), (Rows{{1, 1}}));
  EXPECT_EQ(plan.paused, (std::vector<RequestId>{RequestId{2}, RequestId{3}}))
      << "only for the first is one restarted that lost entries";
  EXPECT_TRUE(plan.admitted.empty());

  pool.free = 0;
  plan = make_plan(std::vector{answer(1), lossy}, {}, {}, pool);
  EXPECT_EQ(plan.change, Plan::Change::kRestart);
  EXPECT_EQ(plan.target, RequestId{3});

  pool.free = 40;
  EXPECT_EQ(rows_of(make_plan(std::vector{prompt(1, 100)}, {}, {}, pool)), (Rows{{1, 25}}));
}

TEST(Scheduler, WhoMayNotBeDroppedIsNot) {
  RowPool pool(0);
  Candidate held = answer(2);
  held.droppable = false;
  const Plan plan = make_plan(std::vector{answer(1), held}, {}, {}, pool);
  EXPECT_EQ(plan.change, Plan::Change::kNone);
  EXPECT_EQ(rows_of(plan), (Rows{{1, 1}})) << "the pool has the last word on the first";
}

TEST(Scheduler, WhoSharesAPromptBeingReadWaitsForIt) {
  RowPool pool(1000);
  Candidate sharing = prompt(2, 40);
  sharing.held = true;
  const std::vector<Candidate> running = {prompt(1, 300, 64)};
  const std::vector<Candidate> waiting = {sharing, prompt(3, 5)};
  EXPECT_EQ(rows_of(make_plan(running, waiting, {}, pool)), (Rows{{1, 64}})) << "nobody passes it";
}

TEST(Scheduler, AChunksOwnEntriesCountForItsTime) {
  RowPool pool(10'000);
  Candidate reading = prompt(2, 300);
  reading.context = 100;
  const std::vector<Candidate> running = {answer(1), reading};
  // Pairs alone cost: 1 ms each; the answer has 1, a chunk of n 100 n + n (n + 1) / 2.
  const ScheduleLimits limits{.step_seconds = 2.821, .cost = {0, 0, 0.001}};
  EXPECT_EQ(rows_of(make_plan(running, {}, limits, pool)), (Rows{{1, 1}, {2, 24}}));
}

// Requests arriving over time on a small pool; every plan is checked and carried out.
class Simulation {
 public:
  explicit Simulation(std::uint64_t seed) : random_(seed) {
    pool_ = std::make_unique<BlockPool>(4 + below(40));
    limits_ = {.max_rows = 1 + below(64), .max_running = 1 + below(12)};
    chunk_ = 1 + below(64);
    const std::uint32_t count = 1 + below(25);
    for (std::uint32_t i = 0; i < count; ++i) arrivals_.insert(below(60));
  }

  void run() {
    std::uint64_t bound = 200;  // steps, once all have arrived
    for (std::uint32_t time = 0; !arrivals_.empty() || busy(); ++time) {
      for (; !arrivals_.empty() && *arrivals_.begin() <= time; arrivals_.erase(arrivals_.begin())) {
        arrive(time);
        bound += 3ull * (all_.back()->prompt + all_.back()->answer);
      }
      ASSERT_LT(time, bound) << "somebody starves";
      step();
      if (::testing::Test::HasFatalFailure()) return;
      if (below(40) == 0) cancel();
    }
    EXPECT_EQ(pool_->used(), 0u);
    for (const auto& request : all_) EXPECT_TRUE(request->done || request->refused);
  }

  std::uint32_t preempted = 0, restarted = 0, paused = 0, cuts = 0;

 private:
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }
  bool busy() const { return !running_.empty() || !waiting_.empty(); }

  void arrive(std::uint32_t time) {
    auto request = std::make_unique<BlockRequest>();
    request->id = RequestId{all_.size() + 1};
    request->rank = FirstCome(10).rank(
        {.submitted_seconds = double(time), .priority = static_cast<std::int32_t>(below(5)) - 2});
    request->prompt = 1 + below(120);
    request->answer = 1 + below(80);
    if (below(2) == 0) {
      request->keep = 8 + below(40);
      request->by_pool = below(2) == 0;
    }
    const std::uint32_t most = request->prompt + (request->keep == 0 ? request->answer : 24);
    if (BlockPool::blocks_for(most) > pool_->capacity()) request->refused = true;
    if (!request->refused) {
      pool_->requests[request->id] = request.get();
      insert(waiting_, request.get());
    }
    all_.push_back(std::move(request));
  }

  static void insert(std::vector<BlockRequest*>& list, BlockRequest* request) {
    const auto before = [](const BlockRequest* a, const BlockRequest* b) {
      return std::pair(a->rank, a->id) < std::pair(b->rank, b->id);
    };
    list.insert(std::ranges::upper_bound(list, request, before), request);
  }

  std::vector<Candidate> candidates(const std::vector<BlockRequest*>& list) const {
    std::vector<Candidate> all;
    for (const BlockRequest* request : list) all.push_back(request->candidate(chunk_));
    return all;
  }

  void step() {
    for (std::uint32_t changes = 0;; ++changes) {
      ASSERT_LT(changes, 2000u);
      const Plan plan = make_plan(candidates(running_), candidates(waiting_), limits_, *pool_);
      if (plan.change == Plan::Change::kNone) return carry_out(plan);
      change(plan);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }

  void change(const Plan& plan) {
    BlockRequest& request = *pool_->requests.at(plan.target);
    switch (plan.change) {
      case Plan::Change::kCut:
        ++cuts;
        ASSERT_GT(pool_->spare(request.id), 0);
        request.held -= std::min(request.held - request.keep, BlockRequest::kBlock);
        request.dropped = true;
        return;
      case Plan::Change::kPreempt:
      case Plan::Change::kRestart:
        ASSERT_TRUE(request.running);
        ASSERT_NE(&request, running_.front()) << "the first makes way for nobody";
        ASSERT_EQ(request.dropped, plan.change == Plan::Change::kRestart);
        ++(request.dropped ? restarted : preempted);
        request.held = request.read = 0;
        request.dropped = request.running = false;
        std::erase(running_, &request);
        insert(waiting_, &request);
        return;
      case Plan::Change::kRefuse:
        ASSERT_TRUE(running_.empty());
        request.refused = true;
        leave(request);
        return;
      case Plan::Change::kNone:
        return;
    }
  }

  void carry_out(const Plan& plan) {
    for (std::size_t i = 0; i < plan.admitted.size(); ++i) {
      ASSERT_EQ(waiting_.front()->id, plan.admitted[i]) << "admission is in rank order";
      waiting_.front()->running = true;
      insert(running_, waiting_.front());
      waiting_.erase(waiting_.begin());
    }
    ASSERT_LE(running_.size(), limits_.max_running);
    if (!running_.empty()) {
      ASSERT_FALSE(plan.rows.empty());
    }
    if (plan.admitted.empty() && !running_.empty()) {
      ASSERT_EQ(plan.rows.front().id, running_.front()->id) << "the first computes in every step";
    }
    paused += plan.paused.size();
    if (!pool_->fits(plan.rows)) {
      ASSERT_EQ(running_.size(), 1u) << "only alone, when nothing is left to try";
      running_.front()->refused = true;
      return leave(*running_.front());
    }
    std::uint32_t rows = 0;
    std::set<RequestId> seen;
    for (const Share& share : plan.rows) {
      BlockRequest& request = *pool_->requests.at(share.id);
      ASSERT_TRUE(request.running && seen.insert(share.id).second);
      ASSERT_GT(share.rows, 0u);
      ASSERT_LE(share.rows, request.candidate(chunk_).chunk);
      rows += share.rows;
      request.read += share.rows;
      request.held += share.rows;
    }
    ASSERT_LE(rows, limits_.max_rows);
    ASSERT_LE(pool_->used(), pool_->capacity());
    for (const Share& share : plan.rows) advance(*pool_->requests.at(share.id));
  }

  void advance(BlockRequest& request) {
    if (request.unread() > 0) return;
    if (request.keep != 0 && !request.by_pool && request.held > request.keep) {
      request.held = request.keep;
      request.dropped = true;
    }
    if (++request.answered < request.answer) return;
    request.done = true;
    leave(request);
  }

  void leave(BlockRequest& request) {
    std::erase(running_, &request);
    std::erase(waiting_, &request);
    pool_->requests.erase(request.id);
  }

  void cancel() {
    if (all_.empty()) return;
    BlockRequest& request = *all_[below(static_cast<std::uint32_t>(all_.size()))];
    if (request.done || request.refused) return;
    request.done = true;
    leave(request);
  }

  std::mt19937_64 random_;
  std::unique_ptr<BlockPool> pool_;
  ScheduleLimits limits_;
  std::uint32_t chunk_;
  std::multiset<std::uint32_t> arrivals_;
  std::vector<std::unique_ptr<BlockRequest>> all_;
  std::vector<BlockRequest*> running_, waiting_;  // in rank order
};

TEST(SchedulerSimulation, EveryRequestEndsWithinTheBound) {
  const std::uint64_t first = test::seed();
  std::uint32_t preempted = 0, restarted = 0, paused = 0, cuts = 0;
  for (std::uint64_t seed = first; seed < first + 4000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation simulation(seed);
    simulation.run();
    if (HasFailure()) return;
    preempted += simulation.preempted;
    restarted += simulation.restarted;
    paused += simulation.paused;
    cuts += simulation.cuts;
  }
  EXPECT_GT(preempted, 100u);
  EXPECT_GT(restarted, 10u);
  EXPECT_GT(paused, 100u);
  EXPECT_GT(cuts, 100u);
}

}  // namespace
}  // namespace quire::engine
