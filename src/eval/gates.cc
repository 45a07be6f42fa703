#include "eval/gates.h"

#include <algorithm>
#include <charconv>

namespace quire::eval {
namespace {

bool harmed(const QuestionScore& score) {
  return score.full_right && !score.right;
}

bool unharmed(const GateCase& one) {
  if (!one.view) return true;
  const std::vector<QuestionScore>& scores = one.arm.scores(*one.view);
  if (*one.view != View::kBlind) return !harmed(scores[one.question]);
  return std::ranges::none_of(scores, harmed);
}

// Neither the arm nor its policy enters: an input is open to all or to none.
bool drawn_open(const GateCase& one, double share) {
  const Stream stream =
      Stream(one.input.seed, "gate").of(static_cast<std::uint64_t>(one.input.task));
  const auto view = static_cast<std::uint64_t>(one.view.value_or(View::kBlind));
  return stream.of(view).unit(one.question) < share;
}

void close(QuestionScore& score) {
  score.right = score.full_right;
  score.log_p = score.full_log_p;
  score.kl = 0;
  score.first_kl = 0;
  score.open = false;
}

void close(ProseScore& score) {
  score.nll = score.full_nll;
  score.kl = 0;
  score.same_top = 1;
  score.open = false;
}

}  // namespace

Result<Gate> make_gate(std::string_view spec) {
  Gate gate{.name = std::string(spec)};
  constexpr std::string_view kRandom = "random:";
  if (spec == kOpen) {
    gate.open = [](const GateCase&) { return true; };
  } else if (spec == "closed") {
    gate.open = [](const GateCase&) { return false; };
  } else if (spec == kOracle) {
    gate.open = unharmed;
  } else if (spec.starts_with(kRandom) && spec.ends_with('%')) {
    const std::string_view digits = spec.substr(kRandom.size(), spec.size() - kRandom.size() - 1);
    double percent = -1;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), percent);
    if (error == std::errc() && end == digits.data() + digits.size() && percent >= 0 &&
        percent <= 100) {
      gate.open = [percent](const GateCase& one) { return drawn_open(one, percent / 100); };
    }
  }
  if (gate.open) return gate;
  return Status(Code::kInvalidArgument, "\"" + gate.name +
                                            "\" is none of the gates open, closed, oracle, "
                                            "random:P% with P from 0 to 100");
}

ArmResult gated(const InputResult& input, const ArmResult& plain, const Gate& gate) {
  ArmResult result = plain;
  result.arm.gate = gate.name;
  if (continues(input.task)) {
    if (!gate.open({input, plain})) close(result.prose);
    return result;
  }
  if (!gate.open({input, plain, View::kBlind})) {
    for (QuestionScore& score : result.blind) close(score);
  }
  for (std::size_t q = 0; q < plain.aware.size(); ++q) {
    if (gate.open({input, plain, View::kAware, q})) continue;
    close(result.aware[q]);
    if (q < result.second.size()) close(result.second[q]);
  }
  return result;
}

void apply_gates(const std::vector<Gate>& gates, std::vector<InputResult>& results) {
  for (InputResult& input : results) {
    std::vector<ArmResult> arms;
    for (const ArmResult& plain : input.arms) {
      if (plain.arm.policy == kFull) {
        arms.push_back(plain);
        continue;
      }
      for (const Gate& gate : gates) arms.push_back(gated(input, plain, gate));
    }
    input.arms = std::move(arms);
  }
}

}  // namespace quire::eval
