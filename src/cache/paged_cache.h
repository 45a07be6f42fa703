// The cache: tables say where entries are, kernels compute over them, policies choose among them.
//
//   open.cc     what may be opened          step.cc     begin, append, commit, cancel
//   attend.cc   one layer's work items      review.cc   shrink: score, allocate, choose, evict
//   queries.cc  sequences, room, counts     show.cc     a lane as a policy sees it
//   taps.cc     sums for policies, undo     moves.cc    repacking: plan, copy, install
//   measure.cc  statistics for a gate, from the queries that last_queries.h keeps
//   prefix.cc   names and the calls of the prefix cache
//   expectation.cc   what queries to come will find, what values are worth to the output
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cache/gate_statistics.h"
#include "cache/last_queries.h"
#include "cache/query_sums.h"
#include "cache/review.h"
#include "cache/scratch.h"
#include "cache/tap_undo.h"
#include "cache/work.h"
#include "core/pool.h"
#include "core/tables.h"
#include "kernels/kernels.h"
#include "quire/cache.h"

namespace quire {

// Names the field that is wrong.
Status check_options(const CacheOptions& options);
// What K and V of these tokens depend on beside them, as one digest.  REQUIRES: valid options.
PrefixNaming prefix_naming(const CacheOptions& options);

class PagedCache final : public Cache {
 public:
  PagedCache(CacheOptions options, std::unique_ptr<Memory> memory);

  Result<SequenceId> start(const Needs& needs) override;
  Result<SequenceId> fork(SequenceId parent) override;
  Status drop(SequenceId sequence) override;
  Status set_roles(SequenceId sequence, Position first, std::span<const Role> roles) override;

  Result<double> measure(SequenceId sequence, Statistic statistic, const RunParts& run) override;
  Status keep_queries(SequenceId sequence, bool on) override;

  PrefixMatch lookup(const PrefixText& text, const Needs& needs) const override;
  Result<PrefixStart> start_with_prefix(const Needs& needs, const PrefixText& text,
                                        std::uint32_t most) override;
  Result<std::uint32_t> index(SequenceId sequence, const PrefixText& text) override;
  void forget(const PrefixText& text) override;
  void forget() override;
  std::uint32_t expect(const PrefixText& text) override;
  void unexpect(const PrefixText& text) override;

  Status begin(std::span<const Segment> segments) override;
  void append(std::uint32_t layer, const float* k, const float* v, std::uint32_t part,
              std::uint32_t parts) override;
  void attend(std::uint32_t layer, const float* q, float* out, std::uint32_t part,
              std::uint32_t parts) override;
  void commit() override;
  void cancel() override;

  std::size_t bytes_needed(SequenceId sequence, std::uint32_t rows) const override;
  std::size_t bytes_needed(std::span<const Segment> segments) const override;
  std::size_t bytes_free() const override;
  std::uint32_t tokens_that_fit(const Needs& needs) const override;

  Result<ShrinkReport> shrink(SequenceId sequence, const Policy& policy,
                              std::uint32_t keep) override;
  Status evict(SequenceId sequence, std::uint32_t layer, std::uint32_t head,
               std::span<const Position> positions) override;
  MovesReport plan_moves(std::size_t copy_bytes) override;
  std::size_t repack(std::size_t free_bytes) override;
  std::size_t copy_moves(std::size_t bytes) override;
  void install_moves() override;
  Result<std::vector<Position>> positions(SequenceId sequence, std::uint32_t layer,
                                          std::uint32_t head) const override;
  Result<std::vector<float>> tap(SequenceId sequence, std::uint32_t layer,
                                 std::uint32_t head) const override;

  Result<std::uint32_t> length(SequenceId sequence) const override;
  CacheStats stats() const override;
  Result<SequenceStats> stats(SequenceId sequence) const override;
  const CacheOptions& options() const override { return options_; }
  Isa isa() const override { return kernels_.isa; }
  Isa chunk_isa() const override { return chunk_kernels_.isa; }
  void check_invariants() const override { tables_.check_invariants(); }

 private:
  // Refuses calls that may not come between begin() and commit() or cancel().
  Status between_steps(const char* call) const;
  Result<Sequence*> find(SequenceId id) const;
  Status check_lane(std::uint32_t layer, std::uint32_t head) const;
  Status check_segments(std::span<const Segment> segments);
  Status out_of_room(const char* what, std::size_t slabs) const;

  // The lane's blocks over positions [begin, end), written to `blocks`.
  kernels::LaneView view(const Sequence& sequence, std::uint32_t layer, std::uint32_t head,
                         Position begin, Position end, kernels::BlockView* blocks) const;
  void attend_item(std::uint32_t layer, const WorkItem& item, const float* q, float* out,
                   Scratch& scratch);
  kernels::QueryView query_view(std::uint32_t layer, std::uint32_t head) const;
  // What computes all of a work item's lane.
  const kernels::Kernels& whole_kernels(const kernels::QueryView& rows) const;

  void attend_with_taps(const kernels::LaneView& lane, const kernels::QueryView& rows,
                        const WorkItem& item, std::uint32_t layer, Scratch& scratch);
  void keep_queries(const kernels::QueryView& rows, const StepSegment& segment,
                    const WorkItem& item, std::uint32_t layer, std::uint32_t first_token);
  void sum_taps(const kernels::Kernels& kernels, const kernels::LaneView& lane,
                const kernels::QueryView& rows, const Sequence& sequence, LanePlace at,
                std::uint32_t first_token, Scratch& scratch);
  void add_sums(std::uint32_t live, const Sequence& sequence, LanePlace at,
                const std::int64_t* sums, bool alone) const;
  void subtract_taps();
  void subtract_taps(std::uint32_t index, std::uint32_t layer, std::uint32_t head,
                     const float* kept, Scratch& scratch, std::vector<float>& out);

  // What a lane holds (show.cc): positions, a column of its sums, its states.
  void fill_positions(const Sequence& sequence, LanePlace at,
                      std::vector<Position>& positions) const;
  void fill_taps(const Sequence& sequence, LanePlace at, std::uint32_t column,
                 std::span<float> sums) const;
  void fill_states(const Sequence& sequence, LanePlace at, std::span<float> states) const;
  void keep_states(Sequence& sequence, LanePlace at, std::span<const float> states);
  void show_features(const Sequence& sequence, const Needs& needs, ShownLane& lane);
  // What takes more than the lane (expectation.cc).
  void show_expected(const Sequence& sequence, const Needs& needs, const kernels::LaneView& seen,
                     ShownLane& lane);
  void weigh_values(const Sequence& sequence, std::uint32_t layer);
  Status check_shapes(const Needs& needs) const;
  Status check_needs(const Needs& needs) const;
  void show_lane(const Sequence& sequence, std::uint32_t layer, std::uint32_t head,
                 const Needs& needs, ShownLane& lane);

  Status check_measure(const Sequence& sequence) const;
  LaneReading read_gate_lane(const Sequence& sequence, Statistic statistic, std::uint32_t layer,
                             std::uint32_t head, Scratch& scratch) const;

  // A review (review.cc).
  Status check_policy(const Sequence& sequence, const Policy& policy, std::uint32_t keep) const;
  Status show_and_score(const Sequence& sequence, std::uint32_t layer, std::uint32_t head,
                        const Policy& policy);
  Status decide(const Policy& policy, std::uint32_t keep);
  Status decide_all(const Sequence& sequence, const Policy& policy, std::uint32_t keep);

  CacheOptions options_;
  std::unique_ptr<Memory> memory_;
  Pool pool_;
  Tables tables_;
  const kernels::Kernels& kernels_;
  const kernels::Kernels& chunk_kernels_;  // of whole items with many rows
  std::vector<float> scale_;               // [layer]
  MovesReport moved_;                      // since open()

  // The running step.
  std::vector<StepSegment> segments_;
  std::vector<Growth> growth_;
  std::vector<std::uint32_t> append_blocks_;  // [segment + 1] blocks of a lane before the segment
  Work work_;
  TapUndo undo_;
  QuerySums queries_;
  LastQueries last_queries_;
  ScratchSlots scratch_;
  std::vector<SequenceId> named_;
  Review review_;
};

}  // namespace quire
