// How many requests libllama's unified cache serves at once in as many bytes, and how fast: beside
// the arms of eval/capacity.h, of the same prompts.
//
// What drives libllama is its server's loop, in process and without HTTP.  A waiting request gets a
// slot while the cells hold its prompt and its whole answer beside those of the running ones: the
// server preempts nobody, a request that finds no cell fails, so this is the number of slots
// (--parallel) its user would set.  Cells that libllama rounds up to are not counted.  A step takes
// a row of every answer, then prompts in the order of their slots, up to the server's 2,048 rows
// (n_batch; computed 512 at a time, n_ubatch).  Answers are greedy, by a plain maximum; a finished
// request's cells are free before the next step.
#pragma once

#include <span>
#include <vector>

#include "eval/capacity.h"
#include "model/peer.h"

namespace quire::eval {

struct PeerCapacity {
  std::vector<CapacityCell> cells;  // of arm "llama", without a policy
  // quire's `repack` to it: the least over policies and pools of medians over seeds.
  double concurrency = 0, throughput = 0;
};

// `tokens`: the text of `options`, tokenized as measure_capacity() does.  `like`: the cache whose
// bytes are counted.  kOutOfMemory: a pool that holds not one request.
Result<PeerCapacity> measure_peer_capacity(model::Peer& peer, std::span<const model::Token> tokens,
                                           const CacheOptions& like, const CapacityOptions& options,
                                           const CapacityReport& ours);

// Of a report: a section with a row per pool, policy and arm, and the cells as JSON.
std::string page_of(const PeerCapacity& peer, const CapacityReport& ours);
Json json_of(const PeerCapacity& peer);

}  // namespace quire::eval
