// The C interface: every call is the C++ one with its types translated.
#include "quire/quire.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "quire/cache.h"

struct quire_cache {
  std::unique_ptr<quire::Cache> cache;
};

namespace {

using quire::Code;
using quire::Result;
using quire::SequenceId;
using quire::Status;

quire_code fail(quire_error* error, quire_code code, const char* message) {
  if (error == nullptr) return code;
  error->code = code;
  std::strncpy(error->message, message, sizeof error->message - 1);
  error->message[sizeof error->message - 1] = '\0';
  return code;
}

quire_code code_of(Code code) {
  switch (code) {
    case Code::kOk:
      return QUIRE_OK;
    case Code::kNotFound:
      return QUIRE_NOT_FOUND;
    case Code::kOutOfMemory:
      return QUIRE_OUT_OF_MEMORY;
    case Code::kUnsupported:
      return QUIRE_UNSUPPORTED;
    default:
      return QUIRE_INVALID_ARGUMENT;
  }
}

quire_code done(const Status& status, quire_error* error) {
  return fail(error, code_of(status.code()), status.message().c_str());
}

// Runs a call; the one exception it may meet is the heap's.
template <typename F>
quire_code guarded(quire_error* error, F call) {
  try {
    return done(call(), error);
  } catch (const std::bad_alloc&) {
    return fail(error, QUIRE_INTERNAL, "the system's memory is exhausted");
  }
}

Status missing(const char* argument) {
  return {Code::kInvalidArgument, std::string(argument) + ": is null"};
}

Result<quire::Policy> policy_of(const char* spec) {
  if (spec == nullptr) return missing("policy");
  return quire::make_policy(spec);
}

Result<quire::Needs> needs_of(const char* spec) {
  if (spec == nullptr) return quire::Needs{};
  Result<quire::Policy> policy = quire::make_policy(spec);
  if (!policy.ok()) return policy.status();
  return policy->needs;
}

template <typename T>
Status copy_out(const Result<std::vector<T>>& items, T* out, std::size_t capacity,
                std::size_t* count) {
  if (!items.ok()) return items.status();
  if (out == nullptr && capacity > 0) return missing("the array");
  if (count == nullptr) return missing("count");
  *count = items->size();
  std::copy_n(items->begin(), std::min(capacity, items->size()), out);
  return {};
}

Status open(std::uint32_t abi, const quire_options* given, quire_cache** out) {
  if (out == nullptr) return missing("cache");
  *out = nullptr;
  if (abi != QUIRE_ABI) {
    return {Code::kUnsupported, "abi: the library has " + std::to_string(QUIRE_ABI) +
                                    ", the caller was compiled for " + std::to_string(abi)};
  }
  if (given == nullptr) return missing("options");
  if (given->layers == nullptr && given->layer_count > 0) return missing("options.layers");
  quire::CacheOptions options;
  for (std::size_t l = 0; l < given->layer_count; ++l) {
    const quire_layer& layer = given->layers[l];
    options.layers.push_back({.kv_heads = layer.kv_heads,
                              .query_heads = layer.query_heads,
                              .key_size = layer.key_size,
                              .value_size = layer.value_size,
                              .scale = layer.scale,
                              .softcap = layer.softcap,
                              .window = layer.window});
    if (layer.sinks != nullptr) {
      options.layers.back().sinks.assign(layer.sinks, layer.sinks + layer.query_heads);
    }
  }
  options.budget_bytes = given->budget_bytes;
  options.key_type = static_cast<quire::KvType>(given->key_type);
  options.value_type = static_cast<quire::KvType>(given->value_type);
  if (given->block_tokens != 0) options.block_tokens = given->block_tokens;
  if (given->max_rows != 0) options.max_rows = given->max_rows;
  options.isa = static_cast<quire::Isa>(given->isa);
  switch (given->reclaim) {
    case QUIRE_RECLAIM_REPACK:
      options.reclaim = quire::Reclaim::kRepack;
      break;
    case QUIRE_RECLAIM_WHOLE:
      options.reclaim = quire::Reclaim::kWhole;
      break;
    case QUIRE_RECLAIM_NEVER:
      options.reclaim = quire::Reclaim::kNever;
      break;
    default:
      return {Code::kInvalidArgument, "options.reclaim: is none of repack, whole, never"};
  }
  Result<std::unique_ptr<quire::Cache>> cache = quire::Cache::open(std::move(options));
  if (!cache.ok()) return cache.status();
  *out = new quire_cache{*std::move(cache)};
  return {};
}

}  // namespace

extern "C" {

quire_code quire_open(uint32_t abi, const quire_options* options, quire_cache** cache,
                      quire_error* error) {
  return guarded(error, [&] { return open(abi, options, cache); });
}

void quire_close(quire_cache* cache) {
  delete cache;
}

quire_code quire_start(quire_cache* cache, const char* policy, quire_sequence* sequence,
                       quire_error* error) {
  return guarded(error, [&]() -> Status {
    if (sequence == nullptr) return missing("sequence");
    const Result<quire::Needs> needs = needs_of(policy);
    if (!needs.ok()) return needs.status();
    const Result<SequenceId> id = cache->cache->start(*needs);
    if (!id.ok()) return id.status();
    *sequence = static_cast<quire_sequence>(*id);
    return {};
  });
}

quire_code quire_fork(quire_cache* cache, quire_sequence parent, quire_sequence* child,
                      quire_error* error) {
  return guarded(error, [&]() -> Status {
    if (child == nullptr) return missing("child");
    const Result<SequenceId> id = cache->cache->fork(SequenceId{parent});
    if (!id.ok()) return id.status();
    *child = static_cast<quire_sequence>(*id);
    return {};
  });
}

quire_code quire_drop(quire_cache* cache, quire_sequence sequence, quire_error* error) {
  return guarded(error, [&] { return cache->cache->drop(SequenceId{sequence}); });
}

quire_code quire_set_roles(quire_cache* cache, quire_sequence sequence, uint32_t first,
                           const uint8_t* roles, size_t role_count, quire_error* error) {
  return guarded(error, [&]() -> Status {
    if (roles == nullptr && role_count > 0) return missing("roles");
    std::vector<quire::Role> known;
    known.reserve(role_count);
    for (std::size_t i = 0; i < role_count; ++i)
      known.push_back(static_cast<quire::Role>(roles[i]));
    return cache->cache->set_roles(SequenceId{sequence}, first, known);
  });
}

quire_code quire_begin(quire_cache* cache, const quire_segment* segments, size_t segment_count,
                       quire_error* error) {
  return guarded(error, [&]() -> Status {
    if (segments == nullptr && segment_count > 0) return missing("segments");
    std::vector<quire::Segment> step;
    for (std::size_t s = 0; s < segment_count; ++s) {
      step.push_back({.sequence = SequenceId{segments[s].sequence},
                      .rows = segments[s].rows,
                      .answer = segments[s].answer != 0,
                      .window_rows = segments[s].window_rows});
    }
    return cache->cache->begin(step);
  });
}

void quire_append(quire_cache* cache, uint32_t layer, const float* k, const float* v, uint32_t part,
                  uint32_t parts) {
  cache->cache->append(layer, k, v, part, parts);
}

void quire_attend(quire_cache* cache, uint32_t layer, const float* q, float* out, uint32_t part,
                  uint32_t parts) {
  cache->cache->attend(layer, q, out, part, parts);
}

void quire_commit(quire_cache* cache) {
  cache->cache->commit();
}

void quire_cancel(quire_cache* cache) {
  cache->cache->cancel();
}

size_t quire_bytes_needed(const quire_cache* cache, quire_sequence sequence, uint32_t rows) {
  return cache->cache->bytes_needed(SequenceId{sequence}, rows);
}

size_t quire_bytes_free(const quire_cache* cache) {
  return cache->cache->bytes_free();
}

uint32_t quire_tokens_that_fit(const quire_cache* cache, const char* policy) {
  const Result<quire::Needs> needs = needs_of(policy);
  return needs.ok() ? cache->cache->tokens_that_fit(*needs) : 0;
}

quire_code quire_shrink(quire_cache* cache, quire_sequence sequence, const char* policy,
                        uint32_t keep, quire_shrink_report* report, quire_error* error) {
  return guarded(error, [&]() -> Status {
    const Result<quire::Policy> chosen = policy_of(policy);
    if (!chosen.ok()) return chosen.status();
    const Result<quire::ShrinkReport> done_by =
        cache->cache->shrink(SequenceId{sequence}, *chosen, keep);
    if (!done_by.ok()) return done_by.status();
    if (report != nullptr) {
      *report = {done_by->entries_before, done_by->entries_dropped, done_by->bytes_freed};
    }
    return {};
  });
}

quire_code quire_evict(quire_cache* cache, quire_sequence sequence, uint32_t layer, uint32_t head,
                       const uint32_t* positions, size_t position_count, quire_error* error) {
  return guarded(error, [&]() -> Status {
    if (positions == nullptr && position_count > 0) return missing("positions");
    return cache->cache->evict(SequenceId{sequence}, layer, head, {positions, position_count});
  });
}

size_t quire_plan_moves(quire_cache* cache, size_t copy_bytes) {
  return cache->cache->plan_moves(copy_bytes).bytes;
}

size_t quire_copy_moves(quire_cache* cache, size_t bytes) {
  return cache->cache->copy_moves(bytes);
}

size_t quire_repack(quire_cache* cache, size_t free_bytes) {
  return cache->cache->repack(free_bytes);
}

void quire_install_moves(quire_cache* cache) {
  cache->cache->install_moves();
}

quire_code quire_positions(const quire_cache* cache, quire_sequence sequence, uint32_t layer,
                           uint32_t head, uint32_t* positions, size_t capacity, size_t* count,
                           quire_error* error) {
  return guarded(error, [&] {
    return copy_out(cache->cache->positions(SequenceId{sequence}, layer, head), positions, capacity,
                    count);
  });
}

quire_code quire_tap(const quire_cache* cache, quire_sequence sequence, uint32_t layer,
                     uint32_t head, float* sums, size_t capacity, size_t* count,
                     quire_error* error) {
  return guarded(error, [&] {
    return copy_out(cache->cache->tap(SequenceId{sequence}, layer, head), sums, capacity, count);
  });
}

void quire_stats(const quire_cache* cache, quire_cache_stats* stats) {
  const quire::CacheStats s = cache->cache->stats();
  *stats = {s.budget_bytes,    s.used_bytes,     s.kv_bytes,     s.metadata_bytes,
            s.committed_bytes, s.stranded_bytes, s.peak_bytes,   s.headroom_bytes,
            s.moves.entries,   s.moves.bytes,    s.moves.blocks, s.sequences};
}

quire_code quire_stats_of(const quire_cache* cache, quire_sequence sequence,
                          quire_sequence_stats* stats, quire_error* error) {
  return guarded(error, [&]() -> Status {
    if (stats == nullptr) return missing("stats");
    const Result<quire::SequenceStats> s = cache->cache->stats(SequenceId{sequence});
    if (!s.ok()) return s.status();
    *stats = {s->tokens_seen, s->tokens_kept_min, s->tokens_kept_mean, s->entries_dropped,
              s->bytes,       s->bytes_shared,    s->blocks,           s->waste};
    return {};
  });
}

const char* quire_policy_name(size_t index) {
  static const std::vector<quire::PolicyInfo> policies = quire::list_policies();
  return index < policies.size() ? policies[index].name.c_str() : nullptr;
}

}  // extern "C"
