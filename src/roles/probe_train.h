// Training a probe from labelled texts, on one thread: a seed gives the same probe every time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "quire/status.h"
#include "roles/probe.h"

namespace quire::roles {

// A text, by token.  Neighbours are of the same lesson.
struct Lesson {
  std::vector<Token> tokens;
  std::vector<std::uint8_t> states;  // text_states
  std::vector<Role> roles;           // what they are
};

struct TrainOptions {
  // Of arXiv 2607.13205: Adam (arXiv 1412.6980), its decay added to the gradient, all weights at
  // every step.
  float rate = 0.5f, decay = 1e-5f;
  std::uint32_t batch = 8192, epochs = 20;  // batch: tokens of a step
  // Ours: the share of ids, each drawn anew at each step, that are hidden, so that the row of other
  // ids says what can be said of an id that training never saw.
  float hidden = 0.05f;
  std::uint64_t seed = 1;  // of the order of the tokens, and of what is hidden
  std::function<bool(double share)> progress{};  // false cancels
};

// Of more than kProbeIdsMost ids the most frequent are stored.  Leaves vocabulary and model empty.
// kInvalidArgument: no token; kCancelled.  REQUIRES: states and roles of every token.
Result<Probe> train_probe(std::span<const Lesson> lessons, const TrainOptions& options);

// The mean of -log(probability of the right role), in nats: what training lowers.
double probe_loss(const Probe& probe, std::span<const Lesson> lessons);

}  // namespace quire::roles
