#include "engine/gate.h"

#include <algorithm>
#include <cmath>

namespace quire::engine {
namespace {

// Modes whose score is the larger, the safer, whatever the statistic.
bool scores_safety(GateMode mode) {
  return mode == GateMode::kZ || mode == GateMode::kSigned;
}

double log_of_sum(std::span<const float> logits, double most) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - most);
  return most + std::log(sum);
}

}  // namespace

std::optional<GateRule> parse_gate_rule(std::string_view name) {
  if (name == "open") return GateRule::kOpen;
  if (name == "closed") return GateRule::kClosed;
  if (name == "auto") return GateRule::kAuto;
  if (name == kSelfCheck) return GateRule::kSelfCheck;
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
    case GateMode::kSigned:
      return "signed";
  }
  return "";
}

std::optional<GateMode> parse_gate_mode(std::string_view name) {
  for (const GateMode mode : kGateModes) {
    if (name == name_of(mode)) return mode;
  }
  return {};
}

double gate_score(const GateCalibration& calibration, double value) {
  if (!scores_safety(calibration.mode)) return value;
  const double above = (value - calibration.mean) / calibration.deviation;
  const bool as_published = calibration.mode == GateMode::kZ;
  return as_published && !info_of(calibration.statistic).safe_above ? -above : above;
}

bool gate_opens(const GateCalibration& calibration, double value) {
  const double score = gate_score(calibration, value);
  const bool above = scores_safety(calibration.mode) || info_of(calibration.statistic).safe_above;
  return above ? score >= calibration.threshold : score <= calibration.threshold;
}

double kl_divergence(std::span<const float> p, std::span<const float> q) {
  const double log_p = log_of_sum(p, *std::ranges::max_element(p));
  const double log_q = log_of_sum(q, *std::ranges::max_element(q));
  double kl = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double of_p = double{p[i]} - log_p, of_q = double{q[i]} - log_q;
    kl += std::exp(of_p) * (of_p - of_q);
  }
  return std::max(kl, 0.0);
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
