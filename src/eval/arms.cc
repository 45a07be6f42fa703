#include "eval/arms.h"

#include <algorithm>
#include <limits>

namespace quire::eval {
namespace {

constexpr const char* kAnchors[] = {kFull, kOracle, "sink-recency", "random", "prompt-random"};

bool special(const std::string& policy) {
  return policy == kFull || policy == kOracle;
}

}  // namespace

std::string Arm::label() const {
  const std::string by = labels.empty() ? policy : policy + " [" + labels + "]";
  return gate == kOpen ? by : by + " (" + gate + ")";
}

std::string labels_of(const Arm& arm) {
  const Result<Policy> policy = make_policy(arm.policy);
  if (!policy.ok() || !policy->needs.roles) return "none";
  if (!arm.labels.empty()) return arm.labels;
  return arm.policy.find("shuffle=") == std::string::npos ? "parser" : "shuffled";
}

std::vector<std::string> split_policies(const std::string& list) {
  std::vector<std::string> found;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    const std::string piece = list.substr(at, end - at);
    const bool option = piece.find('=') < piece.find(':');
    if (option && !found.empty()) {
      found.back() += "," + piece;
    } else {
      found.push_back(piece);
    }
    at = end + 1;
  }
  return found;
}

bool is_anchor(const std::string& policy) {
  return std::ranges::find(kAnchors, policy) != std::end(kAnchors);
}

Result<std::vector<std::string>> with_anchors(const std::vector<std::string>& policies,
                                              bool oracle) {
  std::vector<std::string> all;
  for (const char* anchor : kAnchors) {
    if (anchor == kOracle && !oracle) continue;
    if (special(anchor) || make_policy(anchor).ok()) all.push_back(anchor);
  }
  for (const std::string& policy : policies) {
    if (std::ranges::find(all, policy) != all.end()) continue;
    if (const Result<Policy> made = make_policy(policy); !made.ok()) return made.status();
    all.push_back(policy);
  }
  return all;
}

std::vector<Arm> cross_arms(const std::vector<std::string>& policies,
                            const std::vector<double>& keeps) {
  std::vector<Arm> arms;
  for (const std::string& policy : policies) {
    if (policy == kFull) {
      arms.push_back({policy, 1});
      continue;
    }
    for (const double keep : keeps) arms.push_back({policy, keep});
  }
  return arms;
}

Policy oracle_policy(std::shared_ptr<const Mass> mass) {
  return Policy{.name = kOracle,
                .source = "what later rows of the full cache attended to",
                .score = [mass = std::move(mass)](const EntryView& lane, std::span<float> score) {
                  const std::vector<float>& known = (*mass)[lane.layer][lane.head];
                  for (std::uint32_t i = 0; i < lane.live; ++i) {
                    const Position p = lane.position[i];
                    score[i] = p < known.size() ? known[p] : std::numeric_limits<float>::max();
                  }
                }};
}

Status add_mass(const Cache& cache, SequenceId sequence, Mass& mass) {
  const std::vector<LayerShape>& layers = cache.options().layers;
  Mass sums(layers.size());
  for (std::uint32_t layer = 0; layer < layers.size(); ++layer) {
    sums[layer].resize(layers[layer].kv_heads);
    if (layers[layer].window != 0) continue;
    for (std::uint32_t head = 0; head < layers[layer].kv_heads; ++head) {
      Result<std::vector<float>> lane = cache.tap(sequence, layer, head);
      if (!lane.ok()) return lane.status();
      sums[layer][head] = *std::move(lane);
    }
  }
  add_mass(sums, mass);
  return {};
}

void add_mass(const Mass& more, Mass& mass) {
  mass.resize(std::max(mass.size(), more.size()));
  for (std::size_t layer = 0; layer < more.size(); ++layer) {
    mass[layer].resize(std::max(mass[layer].size(), more[layer].size()));
    for (std::size_t head = 0; head < more[layer].size(); ++head) {
      const std::vector<float>& from = more[layer][head];
      std::vector<float>& to = mass[layer][head];
      to.resize(std::max(to.size(), from.size()), 0.0f);
      for (std::size_t i = 0; i < from.size(); ++i) to[i] += from[i];
    }
  }
}

}  // namespace quire::eval
