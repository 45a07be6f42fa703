// The loop: plan, compute, answer.

#include "engine/engine.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/budget.h"
#include "engine/generation.h"
#include "engine/steady_clock.h"

namespace quire::engine {
namespace {

using Rank = std::pair<double, RequestId>;

class Loop final : public Engine, private Room {
 public:
  Loop(model::Model& model, Cache& cache, EngineOptions options);

  Result<RequestId> submit(Request request) override;
  bool cancel(RequestId id) override;
  bool step() override;
  EngineStats stats() const override;

 private:
  using Owned = std::unique_ptr<Generation>;
  struct Work {
    Generation* request;
    std::uint32_t rows;
  };

  // Room
  bool fits(std::span<const Share> shares) override;
  bool repack(std::span<const Share> shares) override;
  double spare(RequestId id) override;

  using Queue = std::map<Rank, Owned>;

  double now() const { return options_.clock ? options_.clock() : steady_seconds(); }
  Generation* find(RequestId id) const;
  Rank place_of(const Generation& request) const;
  std::uint64_t prefix_changes() const;
  void look_ahead();
  bool held(const Generation& request) const;
  StepCost cost() const;
  Plan plan();
  void change(const Plan& plan);
  void preempt(RequestId id);
  void cut(const Plan& plan);
  void admit(const Plan& plan);
  void compute(std::vector<Work> work);
  void observe(std::span<const Work> work, double seconds);
  Status forward(std::span<const Work> work);
  GateTools gate_tools();
  void refused(Generation& request, Status status);
  bool make_way(Generation& request);
  void repack_some();
  void sweep();
  void finish(Owned request);
  std::vector<Segment> segments(std::span<const Share> shares);

  model::Model& model_;
  Cache& cache_;
  const EngineOptions options_;
  const std::shared_ptr<const QueueOrder> order_;
  const std::size_t entry_bytes_;  // K and V of one token
  const Sharing sharing_;
  ScheduleLimits limits_;
  std::vector<model::Token> ends_;  // end-of-generation tokens
  Queue waiting_;
  Queue running_;
  const GateTools gate_tools_;
  StepFit fit_;
  bool dense_ = false;                  // a repack for the running plan found nothing to free
  std::vector<Generation*> looked_at_;  // of the running plan: the running, then some waiting
  std::vector<float> logits_;           // [chunk of a step][vocabulary]
  std::vector<bool> not_finite_;        // [chunk of a step]
  std::uint64_t next_id_ = 1;
  EngineStats stats_;
  StepReport report_;
};

Loop::Loop(model::Model& model, Cache& cache, EngineOptions options)
    : model_(model),
      cache_(cache),
      options_(std::move(options)),
      order_(options_.order ? options_.order
                            : std::make_shared<const FirstCome>(options_.ageing_seconds)),
      entry_bytes_(kv_bytes_per_token(cache.options())),
      sharing_(!options_.prefix_cache ? Sharing::kNone
               : options_.look_ahead  ? Sharing::kExpect
                                      : Sharing::kShare),
      gate_tools_(gate_tools()) {
  limits_ = {.max_rows = cache.options().max_rows,
             .max_running = std::min(options_.max_running, cache.options().max_rows),
             .step_seconds = options_.step_seconds};
  const auto vocabulary = static_cast<model::Token>(model.info().vocabulary);
  for (model::Token token = 0; token < vocabulary; ++token) {
    if (model.is_end(token)) ends_.push_back(token);
  }
}

// --- requests come and go ---

Result<RequestId> Loop::submit(Request request) {
  const GenerateOptions& options = request.options;
  if (waiting_.size() >= options_.max_waiting) {
    return Status(Code::kOutOfMemory,
                  "max_waiting: " + std::to_string(waiting_.size()) + " requests wait already");
  }
  const Reviewer reviewer(cache_, options);
  if (Status status = Generation::check(model_, cache_, reviewer, request); !status.ok()) {
    return status;
  }
  Result<std::unique_ptr<model::Sampler>> sampler =
      options.make_sampler ? options.make_sampler(model_, options.sampler)
                           : model::Sampler::create(model_, options.sampler);
  if (!sampler.ok()) return sampler.status();
  const RequestId id{next_id_++};
  auto owned = std::make_unique<Generation>(model_, cache_, ends_, id, std::move(request),
                                            *std::move(sampler), now(), sharing_);
  owned->look(prefix_changes());
  const Rank place = place_of(*owned);
  waiting_[place] = std::move(owned);
  return id;
}

// Of a request that waits, by what it would have to read.
Rank Loop::place_of(const Generation& request) const {
  const Candidate next = request.candidate(0);
  const StepCost cost = this->cost();
  const Queued queued{.submitted_seconds = request.submitted(),
                      .priority = request.request().priority,
                      .prompt_tokens = request.request().prompt.size(),
                      .prefill_seconds = cost.row_seconds * next.rows +
                                         cost.entry_seconds * pairs_of(next.context, next.rows)};
  return {order_->rank(queued), request.id()};
}

Generation* Loop::find(RequestId id) const {
  for (const auto* requests : {&running_, &waiting_}) {
    for (const auto& [rank, request] : *requests) {
      if (request->id() == id) return request.get();
    }
  }
  return nullptr;
}

bool Loop::cancel(RequestId id) {
  Generation* request = find(id);
  if (request == nullptr || request->ended() || request->cancelled()) return false;
  request->cancel();
  return true;
}

EngineStats Loop::stats() const {
  EngineStats stats = stats_;
  stats.waiting = static_cast<std::uint32_t>(waiting_.size());
  stats.running = static_cast<std::uint32_t>(running_.size());
  return stats;
}

void Loop::finish(Owned request) {
  request->close();
  request->drop();
  switch (request->answer().finish) {
    case Finish::kCancelled:
      ++stats_.cancelled;
      break;
    case Finish::kError:
      ++stats_.failed;
      break;
    default:
      ++stats_.finished;
  }
  if (request->request().on_done) request->request().on_done(request->id(), request->answer());
}

// Takes out what has ended, was cancelled or is overdue, then tells; who is told may submit.
void Loop::sweep() {
  const double time = now();
  std::vector<Owned> done;
  for (auto* requests : {&running_, &waiting_}) {
    for (auto next = requests->begin(); next != requests->end();) {
      Generation& request = *next->second;
      if (request.cancelled()) request.end(Finish::kCancelled);
      if (request.overdue(time)) {
        request.end(Finish::kCancelled, {Code::kCancelled, "deadline: it has passed"});
      }
      if (request.ended()) done.push_back(std::move(next->second));
      next = request.ended() ? requests->erase(next) : std::next(next);
    }
  }
  for (Owned& request : done) finish(std::move(request));
}

// --- the plan ---

std::vector<Segment> Loop::segments(std::span<const Share> shares) {
  std::vector<Segment> segments;
  for (const Share& share : shares) {
    const auto request = std::ranges::find(looked_at_, share.id, &Generation::id);
    segments.push_back({.sequence = *(*request)->sequence(), .rows = share.rows});
  }
  return segments;
}

// A waiting request is given a sequence to ask about, behind what is cached of its prompt; plan()
// takes it back.
bool Loop::fits(std::span<const Share> shares) {
  for (const Share& share : shares) {
    const auto request = std::ranges::find(looked_at_, share.id, &Generation::id);
    if (!(*request)->start().ok()) return false;
  }
  return cache_.bytes_needed(segments(shares)) <= cache_.bytes_free();
}

// As long as it helps: what a plan asks for in vain, it asks for once.
bool Loop::repack(std::span<const Share> shares) {
  if (dense_ || options_.repack_share == 0) return false;
  const std::size_t needed = cache_.bytes_needed(segments(shares)), free = cache_.bytes_free();
  dense_ = cache_.repack(needed - std::min(needed, free)) == 0;
  stats_.repacks += dense_ ? 0 : 1;
  return !dense_;
}

double Loop::spare(RequestId id) {
  const auto request = std::ranges::find(looked_at_, id, &Generation::id);
  return (*request)->spare(running_.size() == 1);
}

// Another number whenever other units are cached.
std::uint64_t Loop::prefix_changes() const {
  const PrefixStats prefix = cache_.stats().prefix;
  return prefix.entered + prefix.evicted;
}

// Who waits looks again at what it would find, when that may have changed: those who may start
// soon, or where the order goes by it all, and each gets its new place.
void Loop::look_ahead() {
  const bool by_prefill = order_->by_prefill();
  const std::uint64_t changes = prefix_changes();
  std::size_t left = by_prefill ? waiting_.size() : std::size_t{2} * limits_.max_running;
  bool changed = false;
  for (const auto& [rank, request] : waiting_) {
    if (left-- == 0) break;
    changed |= request->look(changes);
  }
  if (!changed || !by_prefill) return;
  Queue waiting;
  for (auto& [rank, request] : waiting_) {
    const Rank place = place_of(*request);
    waiting[place] = std::move(request);
  }
  waiting_ = std::move(waiting);
}

// Whether it shares what another ahead of it is reading.
bool Loop::held(const Generation& request) const {
  return std::ranges::any_of(looked_at_, [&](const Generation* other) {
    return other != &request && request.gains_by(*other);
  });
}

StepCost Loop::cost() const {
  return options_.cost.known() ? options_.cost : fit_.cost();
}

Plan Loop::plan() {
  looked_at_.clear();
  dense_ = false;
  look_ahead();
  if (limits_.step_seconds > 0) limits_.cost = cost();
  std::vector<Candidate> candidates;
  const auto look_at = [&](Generation& request) {
    candidates.push_back(request.candidate(options_.reserve_tokens));
    candidates.back().held = !request.sequence() && held(request);
    looked_at_.push_back(&request);
  };
  for (const auto& [rank, request] : running_) look_at(*request);
  for (const auto& [rank, request] : waiting_) {
    if (looked_at_.size() >= limits_.max_running) break;
    look_at(*request);
  }
  const std::span<const Candidate> all(candidates);
  Plan plan = make_plan(all.first(running_.size()), all.subspan(running_.size()), limits_, *this);
  for (std::size_t i = running_.size(); i < looked_at_.size(); ++i) {
    const bool starts = std::ranges::count(plan.admitted, looked_at_[i]->id()) > 0;
    if (!starts) looked_at_[i]->drop();
  }
  return plan;
}

void Loop::preempt(RequestId id) {
  const auto victim =
      std::ranges::find_if(running_, [id](const auto& entry) { return entry.second->id() == id; });
  ++(victim->second->candidate(0).exact ? stats_.preemptions : stats_.restarts);
  Owned request = std::move(victim->second);
  running_.erase(victim);
  request->preempt();
  request->look(prefix_changes());
  const Rank place = place_of(*request);
  waiting_[place] = std::move(request);
}

// Once; the plan is made again until the rows fit.
void Loop::cut(const Plan& plan) {
  const std::size_t needed = cache_.bytes_needed(segments(plan.rows)), free = cache_.bytes_free();
  Generation& request = *find(plan.target);
  const bool alone = running_.size() == 1;
  const double spare = request.spare(alone);
  ++stats_.cuts;
  Status status = request.cut(needed - std::min(needed, free), alone);
  if (status.ok() && request.spare(alone) >= spare) {
    status = {Code::kOutOfMemory,
              "policy " + request.request().options.policy->name + ": a cut dropped nothing"};
  }
  if (!status.ok()) request.end(Finish::kError, std::move(status));
}

void Loop::change(const Plan& plan) {
  switch (plan.change) {
    case Plan::Change::kNone:
      return;
    case Plan::Change::kCut:
      return cut(plan);
    case Plan::Change::kPreempt:
    case Plan::Change::kRestart:
      return preempt(plan.target);
    case Plan::Change::kRefuse: {
      Generation& request = *find(plan.target);
      if (request.stop_sharing() || request.stream_instead()) return;
      request.end(Finish::kError,
                  {Code::kOutOfMemory, "its prompt does not fit what is free of the budget"});
      return;
    }
  }
}

void Loop::admit(const Plan& plan) {
  const double time = now();
  for (const RequestId id : plan.admitted) {
    const auto next = std::ranges::find_if(
        waiting_, [id](const auto& entry) { return entry.second->id() == id; });
    Generation& request = *next->second;
    const bool first = !request.begun();
    request.admitted(time);
    if (first && request.prefix().on()) {
      stats_.prefix_queries += request.answer().prompt_tokens;
      stats_.prefix_hits += request.answer().kv.cached_tokens;
    }
    running_.insert(waiting_.extract(next));
  }
}

// --- a step ---

bool Loop::step() {
  sweep();
  if (running_.empty() && waiting_.empty()) return false;
  report_ = {.begin_seconds = now()};
  Plan next = plan();
  while (next.change != Plan::Change::kNone) {
    change(next);
    sweep();
    next = plan();
  }
  admit(next);
  report_.paused = static_cast<std::uint32_t>(next.paused.size());
  stats_.pauses += next.paused.size();
  std::vector<Work> work;
  for (const Share& share : next.rows) work.push_back({find(share.id), share.rows});
  compute(std::move(work));
  ++stats_.steps;
  sweep();
  repack_some();
  report_.end_seconds = now();
  report_.running = static_cast<std::uint32_t>(running_.size());
  report_.waiting = static_cast<std::uint32_t>(waiting_.size());
  if (options_.on_step) options_.on_step(report_);
  return true;
}

Status Loop::forward(std::span<const Work> work) {
  const std::size_t width = model_.info().vocabulary;
  logits_.resize(std::max(logits_.size(), work.size() * width));
  std::vector<model::Chunk> chunks;
  for (const Work& share : work) {
    chunks.push_back(share.request->chunk(share.rows));
    // Alone, the caller's sequence is left as it was.
    chunks.back().isolate = work.size() > 1 || !share.request->request().sequence;
  }
  not_finite_.assign(work.size(), false);
  return model_.forward(
      chunks, [&](std::size_t chunk, std::uint32_t, std::span<const float> logits) {
        not_finite_[chunk] = logits.empty();
        std::ranges::copy(logits, logits_.begin() + static_cast<std::ptrdiff_t>(chunk * width));
      });
}

GateTools Loop::gate_tools() {
  return {.run = [this](const PartWork& work) { model_.run_parts(work); },
          .forward =
              [this](const model::Chunk& chunk, std::vector<float>& logits) {
                return model_.forward({&chunk, 1}, [&](auto, auto, std::span<const float> row) {
                  logits.assign(row.begin(), row.end());
                });
              },
          .clock = [this] { return now(); }};
}

void Loop::observe(std::span<const Work> work, double seconds) {
  double rows = 0, pairs = 0;
  bool prompts = false;
  for (const Work& share : work) {
    const Candidate candidate = share.request->candidate(0);
    rows += share.rows;
    pairs += pairs_of(candidate.context, share.rows);
    prompts = prompts || !candidate.answering;
  }
  fit_.observe(rows, pairs, prompts, seconds);
}

// A step that is refused is computed in halves, down to the request that it is refused for.
void Loop::compute(std::vector<Work> work) {
  // Of those that made way for others nothing is left to compute.
  std::erase_if(work, [](const Work& share) { return !share.request->sequence(); });
  if (work.empty()) return;
  const double begin = now();
  Status status = forward(work);
  if (!status.ok() && work.size() > 1) {
    const auto middle = work.begin() + static_cast<std::ptrdiff_t>(work.size() / 2);
    compute({work.begin(), middle});
    compute({middle, work.end()});
    return;
  }
  if (!status.ok()) return refused(*work[0].request, std::move(status));
  const std::size_t width = model_.info().vocabulary;
  const double time = now();
  observe(work, time - begin);
  for (std::size_t i = 0; i < work.size(); ++i) {
    Generation& request = *work[i].request;
    const bool answers = request.candidate(0).answering;
    (answers ? report_.answer_rows : report_.prompt_rows) += work[i].rows;
    (answers ? stats_.answer_rows : stats_.prompt_rows) += work[i].rows;
    stats_.recomputed_rows += std::min(work[i].rows, request.recomputing());
    if (not_finite_[i]) {
      request.end(Finish::kError, {Code::kNumeric, "the logits are not finite"});
      continue;
    }
    request.computed(work[i].rows, std::span(logits_).subspan(i * width, width), time, gate_tools_);
  }
}

// The estimate of room was wrong, or the machine had no memory: others make way, or it waits for
// those ahead of it.  Every other refusal is the request's own.
void Loop::refused(Generation& request, Status status) {
  if (status.code() == Code::kOutOfMemory && make_way(request)) return;
  request.end(Finish::kError, std::move(status));
}

bool Loop::make_way(Generation& request) {
  for (auto last = running_.rbegin(); last != running_.rend(); ++last) {
    Generation& victim = *last->second;
    if (victim.id() == request.id()) break;
    if (victim.ended() || !victim.candidate(0).droppable) continue;
    preempt(victim.id());
    return true;
  }
  // Alone, and what was there before has cut the pool's slabs up, or what is cached does: read
  // again into an empty pool.
  if (running_.size() == 1 && request.candidate(0).droppable && request.begin_anew()) {
    preempt(request.id());
    cache_.forget();
    return true;
  }
  ++stats_.pauses;
  return running_.begin()->second->id() != request.id();
}

// The copies are made between steps, as nothing may run beside one on few cores; the next begin()
// would install them, but the next plan asks for their blocks before.
void Loop::repack_some() {
  double read = 0;     // entries
  bool lossy = false;  // or soon: blocks for moves are set aside before a full pool needs them
  for (const auto& [rank, request] : running_) {
    const Candidate candidate = request->candidate(0);
    read += static_cast<double>(candidate.context);
    const bool soon = running_.size() > 1 && request->request().options.policy;
    lossy = lossy || !candidate.exact || soon;
  }
  // Beside the share of what attention reads, as much as the step wrote: a prompt's review leaves
  // more to move than the few answers beside it read.
  const double written = report_.prompt_rows + report_.answer_rows;
  const double bytes = (read * options_.repack_share + written) * static_cast<double>(entry_bytes_);
  if (!lossy || options_.repack_share == 0) return;
  const auto most = static_cast<std::size_t>(bytes);
  if (cache_.plan_moves(most).plans > 0) cache_.copy_moves(most);
  cache_.install_moves();
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::open(model::Model& model, Cache& cache,
                                             EngineOptions options) {
  const auto refuse = [](const char* text) { return Status(Code::kInvalidArgument, text); };
  if (options.max_running == 0) return refuse("max_running: 0");
  if (!(options.ageing_seconds >= 0)) return refuse("ageing_seconds: below 0");
  if (!(options.repack_share >= 0)) return refuse("repack_share: below 0");
  if (!(options.step_seconds >= 0)) return refuse("step_seconds: below 0");
  std::unique_ptr<Engine> engine = std::make_unique<Loop>(model, cache, std::move(options));
  return engine;
}

}  // namespace quire::engine
