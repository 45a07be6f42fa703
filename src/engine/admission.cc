// What a request must be to be accepted.

#include <string>

#include "engine/budget.h"
#include "engine/generation.h"

namespace quire::engine {
namespace {

constexpr std::int32_t kPriorityMost = 1000;

Status refuse(const std::string& text) {
  return {Code::kInvalidArgument, text};
}

const char* type_name(KvType type) {
  switch (type) {
    case KvType::kF16:
      return "f16";
    case KvType::kBF16:
      return "bf16";
    case KvType::kF32:
      return "f32";
  }
  return "";
}

Status check_tokens(const model::ModelInfo& info, const std::vector<model::Token>& prompt) {
  if (prompt.empty()) return refuse("prompt: no tokens");
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] >= 0 && static_cast<std::uint32_t>(prompt[i]) < info.vocabulary) continue;
    return refuse("prompt: token " + std::to_string(i) + " is " + std::to_string(prompt[i]) +
                  ", the vocabulary has " + std::to_string(info.vocabulary));
  }
  return {};
}

// "history 20 + prompt 7 + answer 16 tokens"
std::string parts(std::size_t history, std::size_t prompt, std::size_t answer) {
  return (history > 0 ? "history " + std::to_string(history) + " + " : std::string()) + "prompt " +
         std::to_string(prompt) + " + answer " + std::to_string(answer) + " tokens";
}

Status no_room(const Cache& cache, const Needs& needs, const std::string& what,
               std::size_t tokens) {
  return {Code::kOutOfMemory,
          what + " do not fit the budget of " + bytes_text(cache.options().budget_bytes) +
              budget_advice(cache.options(), needs, static_cast<std::uint32_t>(tokens))};
}

}  // namespace

Status Generation::check(const model::Model& model, const Cache& cache, const Reviewer& reviewer,
                         const Request& request) {
  const GenerateOptions& options = request.options;
  const model::ModelInfo& info = model.info();
  if (Status status = check_tokens(info, request.prompt); !status.ok()) return status;
  if (options.context > info.context) {
    return refuse("context " + std::to_string(options.context) + " is over the model's " +
                  std::to_string(info.context));
  }
  if (options.chunk == 0) return refuse("chunk: no rows");
  if (request.priority < -kPriorityMost || request.priority > kPriorityMost) {
    return refuse("priority " + std::to_string(request.priority) + " is not from -1000 to 1000");
  }
  if (!(request.deadline_seconds >= 0)) return refuse("deadline_seconds: below 0");
  if (Status status = reviewer.check(); !status.ok()) return status;
  const bool tries = reviewer.active() && options.gate.rule == GateRule::kSelfCheck;
  if (tries && options.keep.unit == Keep::Unit::kPool) {
    return refuse("gate self-check tries a keep, and there is none; name one, as 25% or 1024tok");
  }

  std::size_t history = 0;
  if (request.sequence) {
    const Result<SequenceStats> stats = cache.stats(*request.sequence);
    if (!stats.ok()) return stats.status();
    history = stats->tokens_seen;
  }
  const std::size_t prompt = request.prompt.size(), answer = options.max_tokens;
  const std::size_t total = history + prompt + answer;
  const std::uint32_t context = options.context == 0 ? info.context : options.context;
  const std::string what = parts(history, prompt, answer);
  if (total > context) {
    return refuse(what + " = " + std::to_string(total) + " are over the context of " +
                  std::to_string(context));
  }
  const Needs& needs = reviewer.needs();
  const std::size_t together = prompt + (reviewer.active() ? 0 : answer);
  const bool fits = request.sequence
                        ? reviewer.fits(*request.sequence, static_cast<std::uint32_t>(together))
                        : together <= cache.tokens_that_fit(needs);
  if (fits || (reviewer.active() && request.on_overflow == Overflow::kStream)) return {};
  if (!reviewer.active()) {
    Status status = no_room(cache, needs, what, total);
    const bool closed = options.policy && options.gate.rule == GateRule::kClosed;
    return {status.code(),
            status.message() + (closed ? "; with an open gate, less" : "; with a policy, less")};
  }
  return no_room(cache, needs, "prompt " + std::to_string(prompt) + " tokens", history + prompt);
}

void describe_cache(const Cache& cache, KvReport& kv) {
  const CacheOptions& shape = cache.options();
  kv.type = type_name(shape.key_type);
  if (shape.key_type != shape.value_type) kv.type += std::string("/") + type_name(shape.value_type);
  const CacheStats pool = cache.stats();
  kv.pool_bytes = pool.budget_bytes;
  kv.bytes_peak = pool.peak_bytes;
}

}  // namespace quire::engine
