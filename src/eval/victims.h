// Victims: what a policy dropped from which lane and when, recorded on a real model, so that every
// way to reclaim memory can be shown the same holes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "eval/shadow.h"
#include "model/model.h"

namespace quire::eval {

struct Review {
  std::uint32_t length = 0;  // positions of the sequence when it came
  LanePositions victims;
};

struct Trace {
  std::string policy;
  double ratio = 0;                // share of the entries that were evicted at the end
  std::uint32_t block_tokens = 0;  // only for blocks of this size; 0: for all
  std::uint32_t length = 0;        // positions at the end
  std::vector<Review> reviews;
};

struct RecordOptions {
  std::uint32_t prompt = 1984;  // tokens read before the first review can come
  std::uint32_t cadence = 0;    // answer tokens between reviews; 0: one review, at the end
  std::uint32_t chunk = 512;
};

// Reads `tokens` under each policy (specs of make_policy) at each ratio: the prompt, then the rest
// as rows of an answer.  A review keeps round((1 - ratio) x positions, to a multiple of
// `keep_multiple`).  Policies with equal needs share a reading, up to their first review.
Result<std::vector<Trace>> record(model::Model& model, Cache& cache,
                                  std::span<const model::Token> tokens,
                                  const std::vector<std::string>& policies,
                                  const std::vector<double>& ratios, std::uint32_t keep_multiple,
                                  const RecordOptions& options);

// Of a policy that looks at nothing but positions: one review at `length`, of rows that need not be
// computed.  kInvalidArgument: a policy that looks at more.
Result<Trace> record_unread(CacheOptions options, std::uint32_t length, const std::string& policy,
                            double ratio);

// A line {policy, ratio, step, layer, head, positions} per lane of each review.
std::string victims_text(const std::vector<Trace>& traces);

}  // namespace quire::eval
