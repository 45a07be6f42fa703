// Whether a prompt may be evicted from at all: decided once for each request, when its prompt is
// read and before anything of it is dropped, from a statistic of its last rows (quire/gate.h), or
// from what the review would do to its last row.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "quire/gate.h"
#include "quire/status.h"

namespace quire::engine {

enum class GateRule : std::uint8_t {
  kOpen,    // the policy drops what it drops
  kClosed,  // nothing is dropped, as without a policy
  kAuto,    // by the statistic; a prompt that is streamed is not judged
  // By the review itself, tried on a fork: the prompt's last row is computed behind it, too, and
  // the two predictions of the first token are compared.  Streamed prompts are not judged.
  kSelfCheck,
};
std::optional<GateRule> parse_gate_rule(std::string_view name);
inline constexpr const char* kGateRules = "auto, open, closed, self-check";  // for messages

// What a threshold is compared with: the statistic itself, or how many deviations it lies above the
// mean of unlabelled prompts (below, where small values are safe).  Labelled is raw, the threshold
// being half way between prompts that need every entry and prompts that do not.  Signed asks where
// between these two kinds' means the statistic lies, from -1 to 1, whichever mean is the larger:
// models order them either way.
enum class GateMode : std::uint8_t { kRaw, kZ, kLabelled, kSigned };
inline constexpr GateMode kGateModes[] = {GateMode::kRaw, GateMode::kZ, GateMode::kLabelled,
                                          GateMode::kSigned};
constexpr bool of_two_kinds(GateMode mode) {
  return mode == GateMode::kLabelled || mode == GateMode::kSigned;
}
const char* name_of(GateMode mode);
std::optional<GateMode> parse_gate_mode(std::string_view name);

// PAGE's, fitted on Qwen2.5-1.5B (tau, theta_z): `quire train gate` measures a model's own mean and
// deviation.
inline constexpr double kPageTau = 0.07, kGateZ = -0.69;

struct GateCalibration {
  Statistic statistic = Statistic::kPageD;
  GateMode mode = GateMode::kRaw;
  double threshold = kPageTau;
  // kZ; kSigned: half way between the kinds, and half the way from the first to the second, below 0
  // where small values are safe.
  double mean = 0, deviation = 1;

  bool operator==(const GateCalibration&) const = default;
};
// What the threshold is compared with.
double gate_score(const GateCalibration& calibration, double value);
bool gate_opens(const GateCalibration& calibration, double value);

// KL of the first token's distributions, with everything kept from after the review, in nats: up
// to here the self-check passes.
inline constexpr double kSelfCheckKl = 0.1;
inline constexpr const char* kSelfCheck = "self-check";

// Of two rows of finite logits, as long as each other: the sum of p log(p / q), in nats.
double kl_divergence(std::span<const float> p, std::span<const float> q);

struct GateOptions {
  GateRule rule = GateRule::kOpen;
  GateCalibration calibration{};     // kAuto
  double self_check = kSelfCheckKl;  // kSelfCheck
};

enum class GateDecision : std::uint8_t { kSkipped, kOpen, kClosed };
const char* name_of(GateDecision decision);

inline constexpr const char* kNoGate = "no gate configured";

// What was compared with what.
struct Judgement {
  std::string by;  // the statistic's name, or "self-check"
  GateMode mode = GateMode::kRaw;
  double threshold = 0;
  double value = 0, score = 0;  // score: by the mode
};

// The gate of an answer's kv object.
struct GateReport {
  GateDecision decision = GateDecision::kSkipped;
  // A word or a few: "no gate configured", "no policy", "streamed", "fits" (nothing would be
  // dropped anyway), "configured", "short" (fewer rows than the statistic takes, or no middle),
  // "passed", "missed", "not finite", "no room" (for the self-check's row); "not reached": the
  // answer ended before.
  std::string reason = kNoGate;
  std::optional<Judgement> judged{};
  double seconds = 0;  // it took
};

}  // namespace quire::engine
