// In which order requests run: the rank of each, from what it asks and how long it waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "quire/status.h"

namespace quire::engine {

// A request in the queue.
struct Queued {
  double submitted_seconds = 0;
  std::int32_t priority = 0;
  std::size_t prompt_tokens = 0;
  double prefill_seconds = 0;  // predicted, of what the prefix cache does not have
};

// Lower rank runs first; equal ranks by id.
class QueueOrder {
 public:
  virtual ~QueueOrder() = default;
  virtual double rank(const Queued& request) const = 0;
  // Whether it looks at prefill_seconds: ranks of who waits are then found anew as it changes.
  virtual bool by_prefill() const { return false; }
};

// First come, first served; a level of priority is worth `ageing_seconds` of waiting, so every
// request overtakes better ones that come late enough.
class FirstCome final : public QueueOrder {
 public:
  explicit FirstCome(double ageing_seconds) : ageing_seconds_(ageing_seconds) {}
  double rank(const Queued& request) const override {
    return request.submitted_seconds + request.priority * ageing_seconds_;
  }

 private:
  double ageing_seconds_;
};

// The smallest  prefill - eta x waiting  first, both in seconds: what is cached or short overtakes,
// but a request of p seconds of prefill nothing that came more than p / eta seconds after it.
// Divided by eta, that is a head start in FirstCome, which does not change as time passes.
class CacheAware final : public QueueOrder {
 public:
  CacheAware(double ageing_seconds, double eta) : first_come_(ageing_seconds), eta_(eta) {}
  double rank(const Queued& request) const override {
    return first_come_.rank(request) + request.prefill_seconds / eta_;
  }
  bool by_prefill() const override { return true; }

 private:
  FirstCome first_come_;
  double eta_;
};

constexpr double kEta = 0.1;  // of "cache-aware" alone

// "fcfs", "cache-aware" or "cache-aware:eta=0.5".  kInvalidArgument says what there is.
Result<std::shared_ptr<const QueueOrder>> make_queue_order(std::string_view text,
                                                           double ageing_seconds);

}  // namespace quire::engine
