// Whether a prompt may be evicted from at all: decided once for each request, when its prompt is
// read and before anything of it is dropped, from a statistic of its last rows (quire/gate.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "quire/gate.h"
#include "quire/status.h"

namespace quire::engine {

enum class GateRule : std::uint8_t {
  kOpen,    // the policy drops what it drops
  kClosed,  // nothing is dropped, as without a policy
  kAuto,    // by the statistic; a prompt that is streamed is not judged
};
std::optional<GateRule> parse_gate_rule(std::string_view name);  // open, closed, auto

// What a threshold is compared with: the statistic itself, or how many deviations it lies above the
// mean of unlabelled prompts (below, where small values are safe).  Labelled is raw, the threshold
// being half way between prompts that need every entry and prompts that do not.
enum class GateMode : std::uint8_t { kRaw, kZ, kLabelled };
const char* name_of(GateMode mode);
std::optional<GateMode> parse_gate_mode(std::string_view name);  // raw, z, labelled

// PAGE's, fitted on Qwen2.5-1.5B (tau, theta_z): `quire train gate` measures a model's own mean and
// deviation.
inline constexpr double kPageTau = 0.07, kGateZ = -0.69;

struct GateCalibration {
  Statistic statistic = Statistic::kPageD;
  GateMode mode = GateMode::kRaw;
  double threshold = kPageTau;
  double mean = 0, deviation = 1;  // kZ

  bool operator==(const GateCalibration&) const = default;
};
// What the threshold is compared with.
double gate_score(const GateCalibration& calibration, double value);
bool gate_opens(const GateCalibration& calibration, double value);

struct GateOptions {
  GateRule rule = GateRule::kOpen;
  GateCalibration calibration{};
};

enum class GateDecision : std::uint8_t { kSkipped, kOpen, kClosed };
const char* name_of(GateDecision decision);

inline constexpr const char* kNoGate = "no gate configured";

// The gate of an answer's kv object.
struct GateReport {
  GateDecision decision = GateDecision::kSkipped;
  // A word or a few: "no gate configured", "no policy", "streamed", "fits" (nothing would be
  // dropped anyway), "configured", "short" (fewer rows than the statistic takes, or no middle),
  // "passed", "missed", "not finite"; "not reached": the answer ended before.
  std::string reason = kNoGate;
  std::optional<GateCalibration> calibration{};  // with a value
  double value = 0, score = 0;
  double seconds = 0;  // the statistic took
};

}  // namespace quire::engine
