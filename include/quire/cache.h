// The key-value cache of a decoder: paged per KV head, within a byte budget that is never exceeded.
//
// One step of an engine:
//
//   begin(segments)                  one thread: room for every row of the step, or nothing changes
//   for each layer:
//     append(layer, k, v, part, parts)    any threads, each with its own part of `parts`
//     -- barrier --
//     attend(layer, q, out, part, parts)  likewise
//     -- barrier --
//   commit()                         one thread: the rows are now part of their sequences
//
// The cache starts no thread, prints nothing and reads no environment.  Unless said otherwise a
// method may be called by one thread at a time, and never between begin() and commit()/cancel().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quire/gate.h"
#include "quire/policy.h"
#include "quire/prefix.h"
#include "quire/status.h"
#include "quire/types.h"

namespace quire {

// How the q and k of a layer were rotated (RoPE, arXiv 2104.09864) before the cache got them: the
// pair i of a head by position * frequency[i], in radians.
struct RopeShape {
  bool halves = false;  // pair i is the values i and i + key_size / 2; else 2 i and 2 i + 1
  std::vector<float> frequency{};  // [key_size / 2], or empty: not known
};

// The projection that reads what attend() writes.
struct OutputShape {
  std::uint32_t size = 0;  // its outputs; 0: not known
  // Writes the weights of outputs [begin, end): rows [end - begin][query_heads * value_size].  May
  // be called by shrink(), in its thread, as long as the cache lives.
  std::function<void(std::uint32_t begin, std::uint32_t end, float* rows)> rows{};
};

// One attention layer.  query_heads is a multiple of kv_heads; the query heads
// [kv * group, (kv + 1) * group) share KV head kv.
struct LayerShape {
  std::uint32_t kv_heads = 0;
  std::uint32_t query_heads = 0;  // group = query_heads / kv_heads, 1 to 16
  std::uint32_t key_size = 0;     // values of one K row, 64 to 256, a multiple of 16
  std::uint32_t value_size = 0;   // values of one V row, likewise
  float scale = 0;                // of q.k before the softmax; 0 = 1 / sqrt(key_size)
  float softcap = 0;              // score = softcap * tanh(score / softcap); 0 = none
  std::uint32_t window = 0;    // a row sees the last `window` positions, its own included; 0 = all
  std::vector<float> sinks{};  // [query_heads] learned sink logits, or empty
  RopeShape rope{};            // Needs::future wants it
  OutputShape output{};        // Needs::output_norm wants it
};

// Which instructions kernels may use.  Results are memcmp-equal across layouts, threads, chunks and
// batches at every level.
enum class Isa : std::uint8_t { kAuto, kScalar, kAvx2, kAvxVnni, kAvx512, kAvx512Vnni, kAmx };

// When the memory of evicted entries comes back.
enum class Reclaim : std::uint8_t {
  kNever,   // with their sequence: what a cache without liveness per entry does, to compare with
  kWhole,   // when every entry of a block is dead
  kRepack,  // likewise; and where plan_moves() is called, survivors of sparse blocks move together
};

// When and what to repack (vToken, arXiv 2608.13263: theta_F, u_max, W_low, H).
struct RepackOptions {
  float waste = 0.25f;  // of a sequence: 1 - mean share of live slots of its blocks; more: repack
  float fullness = 0.75f;   // fuller blocks move only where that frees another block
  float watermark = 0.10f;  // of the budget: repack while no more than this is free; 1 = always
  std::size_t headroom_bytes = 0;  // blocks kept for moves, inside the budget; 0 = 1 % of it, or 8
};

struct CacheOptions {
  std::vector<LayerShape> layers;
  std::size_t budget_bytes = 0;  // K, V, tables, scores, masks: everything
  KvType key_type = KvType::kF16;
  KvType value_type = KvType::kF16;
  std::uint32_t block_tokens = 16;  // 8, 16, 32 or 64
  std::uint32_t max_rows = 512;     // rows of one step, all segments together
  Isa isa = Isa::kAuto;
  // Chunks of rows may take faster kernels, where the machine has some (AMX).  Their results agree
  // with those of single rows to rounding, no longer to the bit.
  bool chunk_kernels = false;
  // With chunk_kernels: from how many rows of a work item on (tokens x query heads of a KV head, at
  // most 64 tokens).  Fewer do not pay for the conversion of K and V; `quire tune` measures it.
  std::uint32_t attend_chunk_rows = 24;
  Reclaim reclaim = Reclaim::kRepack;
  RepackOptions repack{};
  PrefixOptions prefix{};
};

// Rows that one sequence adds in a step: its next `rows` positions, in order.
struct Segment {
  SequenceId sequence{};
  std::uint32_t rows = 0;
  bool answer = false;            // rows of the answer (Tap::kDecodeRows); false: of the prompt
  std::uint32_t window_rows = 0;  // the last this many rows are among the last Needs::window rows
                                  // of the prompt, or before a review (Tap::kLastRows)
  std::uint32_t gate_rows = 0;    // the last this many rows are among the last Needs::gate_rows
                                  // that a gate judges by; more are allowed
};

// What a review did to one sequence, in numbers an answer can carry.
struct ShrinkReport {
  std::uint64_t entries_before = 0;   // live entries over all lanes of full-attention layers
  std::uint64_t entries_dropped = 0;  // of those
  std::uint64_t bytes_freed = 0;  // given back to the pool by this review, or left to prefix units
};

// Moves of a repack, planned or installed.
struct MovesReport {
  std::uint64_t plans = 0;    // runs of neighbouring blocks of a lane
  std::uint64_t entries = 0;  // moved
  std::uint64_t bytes = 0;    // of K and V, likewise
  std::uint64_t blocks = 0;   // freed, less those taken
};

struct SequenceStats {
  std::uint32_t tokens_seen = 0;      // positions ever appended
  double tokens_kept_mean = 0;        // live entries / lanes, full-attention layers
  std::uint32_t tokens_kept_min = 0;  // smallest lane, full-attention layers
  std::uint64_t entries_dropped = 0;  // by policies, over all lanes and time
  std::size_t bytes = 0;              // blocks and tables no other sequence holds
  std::size_t bytes_shared = 0;       // blocks it shares with another sequence
  std::uint64_t blocks = 0;           // it reads or holds, over all lanes, shared ones included
  double waste = 0;                   // 1 - mean share of live slots, but for those still filling
};

struct CacheStats {
  std::size_t budget_bytes = 0;
  std::size_t used_bytes = 0;       // blocks and metadata in use
  std::size_t kv_bytes = 0;         // of used: blocks of K and V
  std::size_t metadata_bytes = 0;   // of used: tables, masks, positions, scores
  std::size_t committed_bytes = 0;  // slabs taken: what the process pays for
  std::size_t stranded_bytes = 0;   // committed, not in use, unusable to another block format
  std::size_t peak_bytes = 0;       // highest committed_bytes ever, sampled at every allocation
  std::size_t headroom_bytes = 0;   // of used: blocks kept for moves
  MovesReport moves{};              // installed since open()
  std::uint32_t sequences = 0;
  PrefixStats prefix{};  // its bytes are part of used_bytes and of bytes_free()
};

class Cache {
 public:
  // kInvalidArgument names the field; kOutOfMemory when the budget cannot hold one block of every
  // lane, or is over what the machine can give (the message says the largest that fits).
  static Result<std::unique_ptr<Cache>> open(CacheOptions options);
  virtual ~Cache() = default;

  // An empty sequence.  `needs` is what the policies that will shrink it must be shown; taps and
  // statistics of queries that are not asked for here cost nothing and cannot be had later.
  // kInvalidArgument where the layers do not say what the needs take (LayerShape::rope, output).
  virtual Result<SequenceId> start(const Needs& needs = {}) = 0;
  // A second sequence with the same entries; blocks are shared until one of the two changes them.
  virtual Result<SequenceId> fork(SequenceId parent) = 0;
  virtual Status drop(SequenceId sequence) = 0;
  // The roles of the tokens at positions [first, first + roles.size()), read already or to be read;
  // of positions never named they are Role::kProse.  A byte a position up to the last one named,
  // within the budget, kept until drop() and by forks.  kInvalidArgument where start() was not
  // asked for them (Needs::roles); kOutOfMemory, and nothing changed.
  virtual Status set_roles(SequenceId sequence, Position first, std::span<const Role> roles) = 0;

  // --- a gate (quire/gate.h) ---
  // A statistic of the last Needs::gate_rows rows, all of which Segment::gate_rows named, on the
  // entries that are there; `run` brings threads, null: the caller's alone.  Takes the time of
  // those rows' attention without V, in a part of the layers.  kInvalidArgument: other rows came
  // after them, they are fewer, or a lane has no middle entries; kUnsupported: every layer has a
  // window.
  virtual Result<double> measure(SequenceId sequence, Statistic statistic,
                                 const RunParts& run = {}) = 0;
  // Queries are kept from start() on, where it was asked for gate_rows, for 4 x Needs::gate_rows x
  // query heads x key_size bytes a layer, within the budget.  Off: they are given up, and no more
  // are kept, until they are to be kept again.
  virtual Status keep_queries(SequenceId sequence, bool on) = 0;

  // --- the prefix cache (quire/prefix.h) ---
  // What of the text a sequence with these needs could begin behind.  Changes nothing.
  virtual PrefixMatch lookup(const PrefixText& text, const Needs& needs = {}) const = 0;
  // start(), but the sequence has the first `reused` tokens of the text (a whole prompt) already,
  // at most `most`; one row, Needs::gate_rows, and with Tap::kLastRows Needs::window are left to
  // compute.  It takes no block until its first step: where that begins inside a unit, the rows
  // before are copied then, and bytes_needed() counts it.
  virtual Result<PrefixStart> start_with_prefix(const Needs& needs, const PrefixText& text,
                                                std::uint32_t most = ~std::uint32_t{0}) = 0;
  // Enters the whole units of a sequence that are not there yet, `text` being what it has read, or
  // a beginning of it; of window layers what they still see, so call it after every step of a
  // prompt.  Nothing of a sequence that has lost an entry.  Units for which the budget has no room
  // are left out.  Returns how many tokens of the text are cached, up to the first hole.
  virtual Result<std::uint32_t> index(SequenceId sequence, const PrefixText& text) = 0;
  // Drops the units of a text, or all.  Sequences keep what they read of them.
  virtual void forget(const PrefixText& text) = 0;
  virtual void forget() = 0;
  // Look-ahead: somebody who waits will hit the cached units of the text (up to the first hole);
  // while they are expected they are evicted only when nothing else is left.  Returns the tokens
  // marked.  unexpect() of just these takes it back, whatever has been evicted or entered
  // meanwhile.
  virtual std::uint32_t expect(const PrefixText& text) = 0;
  virtual void unexpect(const PrefixText& text) = 0;

  // Reserves room for the rows of every segment in every layer.  On any refusal nothing changed:
  // kOutOfMemory (budget), kNotFound (stale id), kInvalidArgument (no rows, over max_rows, a
  // sequence named twice).
  virtual Status begin(std::span<const Segment> segments) = 0;
  // k [rows][kv_heads][key_size], v [rows][kv_heads][value_size], f32, row r being the r-th row of
  // the step's segments in order.  K rows carry their rotary phase already.
  virtual void append(std::uint32_t layer, const float* k, const float* v, std::uint32_t part,
                      std::uint32_t parts) = 0;
  // q [rows][query_heads][key_size] -> out [rows][query_heads][value_size], f32.  Every row sees
  // the live entries of its sequence up to its own position, inside the layer's window.
  // Call for part = 0 ... parts - 1 once each, after every append() of the layer returned.
  virtual void attend(std::uint32_t layer, const float* q, float* out, std::uint32_t part,
                      std::uint32_t parts) = 0;
  virtual void commit() = 0;
  virtual void cancel() = 0;  // the step's rows were never there

  // Bytes the pool must still give for `rows` more rows of the sequence (new blocks, copies of
  // shared ones, tables), and what it can give now, both in whole slabs, and both as if no prefix
  // unit were cached that is not being read: begin() evicts what it needs of them.  begin() of
  // these rows alone is refused for memory exactly when needed > free (an answer near the border
  // may be too careful by a slab).  More than max_rows rows take several steps: what window layers
  // drop meanwhile is not counted.  The needs of several sequences do not add up, as they share
  // open slabs: ask for them together.  Of a stale id 0 bytes are needed.
  virtual std::size_t bytes_needed(SequenceId sequence, std::uint32_t rows) const = 0;
  virtual std::size_t bytes_needed(std::span<const Segment> segments) const = 0;
  virtual std::size_t bytes_free() const = 0;
  // Tokens of one fresh sequence that the whole budget holds, tables and `needs` included.
  virtual std::uint32_t tokens_that_fit(const Needs& needs = {}) const = 0;

  // Reviews the full-attention lanes of a sequence: at most `keep` entries a lane on average, as
  // the policy divides and chooses them.  keep >= length changes nothing.  A policy that needs
  // taps, a state or statistics of queries that start() was not asked for is kInvalidArgument, and
  // so is one that decides for several lanes at once which hold different positions.  Never refused
  // for want of memory.  Where an allocating policy's counts do not add up, or leave a lane less
  // than it protects, the nearest legal counts are used.
  virtual Result<ShrinkReport> shrink(SequenceId sequence, const Policy& policy,
                                      std::uint32_t keep) = 0;
  // Drops the entries at `positions` (ascending, live) from one lane.
  virtual Status evict(SequenceId sequence, std::uint32_t layer, std::uint32_t head,
                       std::span<const Position> positions) = 0;
  // Repacking: entries of neighbouring sparse blocks of a lane move together into fewer blocks, and
  // nothing that is computed changes, to the bit.  Between steps plan_moves() lists moves of about
  // `copy_bytes` of K and V (0: only sets blocks aside for later moves); copy_moves() copies
  // planned entries, about `bytes` a call, and returns how much it did, 0 when nothing is left; and
  // the next begin(), or install_moves(), lets attention read the copies and frees the old blocks.
  // Of these only copy_moves() may also run during a step, in one thread beside those of append()
  // and attend(): it must have returned before commit(), cancel() or any other call.
  virtual MovesReport plan_moves(std::size_t copy_bytes) = 0;
  virtual std::size_t copy_moves(std::size_t bytes) = 0;
  virtual void install_moves() = 0;
  // All three at once, where the pool lacks room: entries move until blocks of about `free_bytes`
  // are free, however little a sequence wastes.  Where all holes are less, nothing moves, and most
  // of the headroom is given up instead.  Blocks also move out of the emptiest slabs, as tables and
  // packs take whole ones.  Returns the bytes of blocks and slabs that came free; 0: none did.
  virtual std::size_t repack(std::size_t free_bytes) = 0;
  // Live positions of one lane, ascending.
  virtual Result<std::vector<Position>> positions(SequenceId sequence, std::uint32_t layer,
                                                  std::uint32_t head) const = 0;
  // The attention sums of one lane's live entries since start(), as a policy would see them.
  virtual Result<std::vector<float>> tap(SequenceId sequence, std::uint32_t layer,
                                         std::uint32_t head) const = 0;

  // Positions ever appended: SequenceStats::tokens_seen, without counting the rest.
  virtual Result<std::uint32_t> length(SequenceId sequence) const = 0;
  virtual CacheStats stats() const = 0;
  virtual Result<SequenceStats> stats(SequenceId sequence) const = 0;
  virtual const CacheOptions& options() const = 0;
  virtual Isa isa() const = 0;        // the level in use
  virtual Isa chunk_isa() const = 0;  // of chunks: see CacheOptions::chunk_kernels
  // Every invariant of docs/ARCHITECTURE.md; a violation is a QUIRE_CHECK.  Slow.
  virtual void check_invariants() const = 0;
};

const char* name_of(Isa isa);

}  // namespace quire
