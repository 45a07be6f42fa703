#include "model/gbnf_ways.h"

#include <algorithm>

#include "model/json_text.h"

namespace quire::model {
namespace {

constexpr double kMuch = 1e12;            // counts end here: they can double with every rule
constexpr std::uint64_t kTurns = 10'000;  // of a repetition; more are not counted

struct Ways {
  double to_letter = 0, to_end = 0;  // to a first letter, and to the end without one
};

Ways capped(Ways ways) {
  return {std::min(ways.to_letter, kMuch), std::min(ways.to_end, kMuch)};
}

Ways then(Ways first, Ways next) {
  return capped({first.to_letter + first.to_end * next.to_letter, first.to_end * next.to_end});
}

Ways repeated(Ways one, const GbnfPart& part) {
  Ways optional{.to_end = 1}, all{.to_end = 1};
  const std::uint64_t times = part.most ? *part.most - std::min(*part.most, part.least) : 1;
  for (std::uint64_t i = 0; i < std::min(times, kTurns); ++i) {
    optional = then(one, optional);
    optional.to_end += 1;
  }
  for (std::uint64_t i = 0; i < std::min(part.least, kTurns); ++i) all = then(all, one);
  return then(all, optional);
}

class Counter {
 public:
  explicit Counter(const GbnfRules& rules) : rules_(rules) {}

  Ways of(const std::string& rule) {
    const auto [known, fresh] = known_.try_emplace(rule);
    if (!fresh) {
      if (!known->second && begins_with_itself_.empty()) begins_with_itself_ = rule;
      return known->second.value_or(Ways{});
    }
    Ways ways;
    for (const GbnfSequence& sequence : rules_.at(rule)) {
      const Ways one = of(sequence);
      ways = capped({ways.to_letter + one.to_letter, ways.to_end + one.to_end});
    }
    known->second = ways;
    return ways;
  }
  const std::string& begins_with_itself() const { return begins_with_itself_; }

 private:
  Ways of(const GbnfSequence& sequence) {
    Ways ways{.to_end = 1};
    for (const GbnfPart& part : sequence) {
      if (ways.to_end == 0) break;
      ways = then(ways, repeated(part.rule.empty() ? Ways{.to_letter = 1} : of(part.rule), part));
    }
    return ways;
  }

  const GbnfRules& rules_;
  std::map<std::string, std::optional<Ways>> known_;  // nothing: it is being counted
  std::string begins_with_itself_;
};

std::string shown(const std::string& rule) {
  return "rule '" + brief(rule.substr(0, rule.find('('))) + "' ";
}

}  // namespace

std::string fault_of_beginnings(const GbnfRules& rules, std::uint64_t most) {
  Counter counter(rules);
  std::string many;
  for (const auto& [rule, ignored] : rules) {
    const Ways ways = counter.of(rule);
    const bool too_many = most > 0 && ways.to_letter + ways.to_end > static_cast<double>(most);
    if (too_many && many.empty()) many = rule;
  }
  const std::string& itself = counter.begins_with_itself();
  if (!itself.empty()) return shown(itself) + "begins with itself";
  return many.empty() ? "" : shown(many) + "can begin in too many ways";
}

}  // namespace quire::model
