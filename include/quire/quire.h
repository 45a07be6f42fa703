/* The C interface of the cache: quire/cache.h with handles, pointers and codes.
 *
 * What a call does, when it may be called and from which threads is written there; the prefix cache
 * is C++ only, as it takes a hash function.  Calls that can
 * be refused return a quire_code and describe a refusal in `error`, which may be null.  Memory
 * stays with the side that allocated it; strings are UTF-8 and end in a zero byte.
 */
#ifndef QUIRE_QUIRE_H
#define QUIRE_QUIRE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised whenever a struct or a meaning changes; quire_open refuses another one. */
#define QUIRE_ABI 2

typedef enum quire_code {
  QUIRE_OK = 0,
  QUIRE_INVALID_ARGUMENT = 1, /* the call is wrong; the message names the field */
  QUIRE_NOT_FOUND = 2,        /* no such sequence */
  QUIRE_OUT_OF_MEMORY = 3,    /* the budget has no room now */
  QUIRE_UNSUPPORTED = 4,      /* not something this build or machine can do */
  QUIRE_INTERNAL = 5          /* the system's memory is exhausted */
} quire_code;

typedef struct quire_error {
  quire_code code;
  char message[500]; /* cut, never unterminated */
} quire_error;

typedef enum quire_kv_type { QUIRE_F16 = 0, QUIRE_BF16 = 1, QUIRE_F32 = 2 } quire_kv_type;
typedef enum quire_isa {
  QUIRE_ISA_AUTO = 0,
  QUIRE_ISA_SCALAR = 1,
  QUIRE_ISA_AVX2 = 2,
  QUIRE_ISA_AVXVNNI = 3,
  QUIRE_ISA_AVX512 = 4,
  QUIRE_ISA_AVX512VNNI = 5,
  QUIRE_ISA_AMX = 6
} quire_isa;

/* When the memory of evicted entries comes back: quire::Reclaim. */
typedef enum quire_reclaim {
  QUIRE_RECLAIM_REPACK = 0,
  QUIRE_RECLAIM_WHOLE = 1,
  QUIRE_RECLAIM_NEVER = 2
} quire_reclaim;

typedef struct quire_cache quire_cache;
typedef uint64_t quire_sequence;

typedef struct quire_layer {
  uint32_t kv_heads, query_heads;
  uint32_t key_size, value_size;
  float scale;        /* 0: 1 / sqrt(key_size) */
  float softcap;      /* 0: none */
  uint32_t window;    /* 0: all */
  const float* sinks; /* [query_heads] or null; copied by quire_open */
} quire_layer;

typedef struct quire_options {
  const quire_layer* layers; /* [layer_count], copied */
  size_t layer_count;
  size_t budget_bytes;
  quire_kv_type key_type, value_type;
  uint32_t block_tokens; /* 0: 16 */
  uint32_t max_rows;     /* 0: 512 */
  quire_isa isa;
  quire_reclaim reclaim;
} quire_options;

typedef struct quire_segment {
  quire_sequence sequence;
  uint32_t rows;
  uint32_t answer; /* 1: rows of the answer */
  uint32_t window_rows;
} quire_segment;

typedef struct quire_shrink_report {
  uint64_t entries_before, entries_dropped, bytes_freed;
} quire_shrink_report;

typedef struct quire_cache_stats {
  size_t budget_bytes, used_bytes, kv_bytes, metadata_bytes;
  size_t committed_bytes, stranded_bytes, peak_bytes, headroom_bytes;
  uint64_t moved_entries, moved_bytes, moved_blocks; /* by repacking; blocks: freed */
  uint32_t sequences;
} quire_cache_stats;

typedef struct quire_sequence_stats {
  uint32_t tokens_seen, tokens_kept_min;
  double tokens_kept_mean;
  uint64_t entries_dropped;
  size_t bytes, bytes_shared;
  uint64_t blocks;
  double waste;
} quire_sequence_stats;

quire_code quire_open(uint32_t abi, const quire_options* options, quire_cache** cache,
                      quire_error* error);
void quire_close(quire_cache* cache); /* null is allowed */

/* `policy` (NAME or NAME:key=value,...) is the one that will shrink the sequence; null: none. */
quire_code quire_start(quire_cache* cache, const char* policy, quire_sequence* sequence,
                       quire_error* error);
quire_code quire_fork(quire_cache* cache, quire_sequence parent, quire_sequence* child,
                      quire_error* error);
quire_code quire_drop(quire_cache* cache, quire_sequence sequence, quire_error* error);
/* The roles of the tokens at positions [first, first + role_count), for policies of roles: 0 prose,
 * 1 blank, 2 delimiter, 3 value, 4 header, 5 key. */
quire_code quire_set_roles(quire_cache* cache, quire_sequence sequence, uint32_t first,
                           const uint8_t* roles, size_t role_count, quire_error* error);

quire_code quire_begin(quire_cache* cache, const quire_segment* segments, size_t segment_count,
                       quire_error* error);
void quire_append(quire_cache* cache, uint32_t layer, const float* k, const float* v, uint32_t part,
                  uint32_t parts);
void quire_attend(quire_cache* cache, uint32_t layer, const float* q, float* out, uint32_t part,
                  uint32_t parts);
void quire_commit(quire_cache* cache);
void quire_cancel(quire_cache* cache);

size_t quire_bytes_needed(const quire_cache* cache, quire_sequence sequence, uint32_t rows);
size_t quire_bytes_free(const quire_cache* cache);
/* Of a sequence started with `policy`; 0 when the policy is unknown. */
uint32_t quire_tokens_that_fit(const quire_cache* cache, const char* policy);

/* `report` may be null. */
quire_code quire_shrink(quire_cache* cache, quire_sequence sequence, const char* policy,
                        uint32_t keep, quire_shrink_report* report, quire_error* error);
quire_code quire_evict(quire_cache* cache, quire_sequence sequence, uint32_t layer, uint32_t head,
                       const uint32_t* positions, size_t position_count, quire_error* error);
/* Repacking: plan between steps, copy between or during steps, install (quire_begin does it, too).
 * Plan returns the bytes to copy, copy those it copied: 0 when nothing is left. */
size_t quire_plan_moves(quire_cache* cache, size_t copy_bytes);
size_t quire_copy_moves(quire_cache* cache, size_t bytes);
void quire_install_moves(quire_cache* cache);
/* All three at once, until about `free_bytes` are free; nothing moves where all holes are less.
 * Returns the bytes that came free. */
size_t quire_repack(quire_cache* cache, size_t free_bytes);
/* Writes the first `capacity` live positions, or sums, of a lane; *count is how many there are. */
quire_code quire_positions(const quire_cache* cache, quire_sequence sequence, uint32_t layer,
                           uint32_t head, uint32_t* positions, size_t capacity, size_t* count,
                           quire_error* error);
quire_code quire_tap(const quire_cache* cache, quire_sequence sequence, uint32_t layer,
                     uint32_t head, float* sums, size_t capacity, size_t* count,
                     quire_error* error);

void quire_stats(const quire_cache* cache, quire_cache_stats* stats);
quire_code quire_stats_of(const quire_cache* cache, quire_sequence sequence,
                          quire_sequence_stats* stats, quire_error* error);

/* The name of the index-th policy of this build, or null past the last. */
const char* quire_policy_name(size_t index);

#ifdef __cplusplus
}
#endif

#endif /* QUIRE_QUIRE_H */
