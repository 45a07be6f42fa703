#include "engine/gate.h"

namespace quire::engine {

std::optional<GateRule> parse_gate_rule(std::string_view name) {
  if (name == "open") return GateRule::kOpen;
  if (name == "closed") return GateRule::kClosed;
  if (name == "auto") return GateRule::kAuto;
  return {};
}

const char* name_of(GateMode mode) {
  switch (mode) {
    case GateMode::kRaw:
      return "raw";
    case GateMode::kZ:
      return "z";
    case GateMode::kLabelled:
      return "labelled";
  }
  return "";
}

std::optional<GateMode> parse_gate_mode(std::string_view name) {
  for (const GateMode mode : {GateMode::kRaw, GateMode::kZ, GateMode::kLabelled}) {
    if (name == name_of(mode)) return mode;
  }
  return {};
}

double gate_score(const GateCalibration& calibration, double value) {
  if (calibration.mode != GateMode::kZ) return value;
  const double above = (value - calibration.mean) / calibration.deviation;
  return info_of(calibration.statistic).safe_above ? above : -above;
}

bool gate_opens(const GateCalibration& calibration, double value) {
  const double score = gate_score(calibration, value);
  const bool above = calibration.mode == GateMode::kZ || info_of(calibration.statistic).safe_above;
  return above ? score >= calibration.threshold : score <= calibration.threshold;
}

const char* name_of(GateDecision decision) {
  switch (decision) {
    case GateDecision::kSkipped:
      return "skipped";
    case GateDecision::kOpen:
      return "open";
    case GateDecision::kClosed:
      return "closed";
  }
  return "";
}

}  // namespace quire::engine
