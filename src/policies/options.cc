// Options of policies: declared once, parsed and checked in one place.

#include "policies/options.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "quire/check.h"

namespace quire::policies {
namespace {

std::optional<std::uint64_t> to_whole(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

std::optional<double> to_real(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

std::string shortest(double value) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return error == std::errc{} ? std::string(buffer, end) : std::string("?");
}

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

// What a value of the option must be, in words; for a refusal.
std::string expectation(const Option& option) {
  switch (option.kind) {
    case Option::Kind::kWhole:
      return std::string("must be ") + (option.odd ? "an odd" : "a whole") + " number from " +
             std::to_string(option.whole_min) + " to " + std::to_string(option.whole_max);
    case Option::Kind::kReal:
      return "must be a number from " + shortest(option.real_min) + " to " +
             shortest(option.real_max);
    case Option::Kind::kName:
      return "must be one of " + joined(option.choices);
  }
  return {};
}

bool fits(const Option& option, std::string_view text) {
  switch (option.kind) {
    case Option::Kind::kWhole: {
      const auto value = to_whole(text);
      return value && *value >= option.whole_min && *value <= option.whole_max &&
             (!option.odd || *value % 2 == 1);
    }
    case Option::Kind::kReal: {
      const auto value = to_real(text);
      return value && *value >= option.real_min && *value <= option.real_max;
    }
    case Option::Kind::kName:
      return std::ranges::find(option.choices, text) != option.choices.end();
  }
  return false;
}

Status refusal(std::string_view policy, const std::string& what) {
  return {Code::kInvalidArgument, "policy \"" + std::string(policy) + "\": " + what};
}

}  // namespace

Option whole(std::string name, std::uint64_t standard, std::uint64_t min, std::uint64_t max) {
  return {.name = std::move(name),
          .kind = Option::Kind::kWhole,
          .standard = std::to_string(standard),
          .whole_min = min,
          .whole_max = max};
}

Option odd(std::string name, std::uint64_t standard, std::uint64_t min, std::uint64_t max) {
  Option option = whole(std::move(name), standard, min, max);
  option.odd = true;
  return option;
}

Option real(std::string name, std::string standard, double min, double max) {
  return {.name = std::move(name),
          .kind = Option::Kind::kReal,
          .standard = std::move(standard),
          .real_min = min,
          .real_max = max};
}

Option choice(std::string name, std::string standard, std::vector<std::string> choices) {
  return {.name = std::move(name),
          .kind = Option::Kind::kName,
          .standard = std::move(standard),
          .choices = std::move(choices)};
}

const std::string& Values::text(std::string_view name) const {
  const auto found = value_.find(name);
  QUIRE_CHECK(found != value_.end());
  return found->second;
}

std::uint64_t Values::whole(std::string_view name) const {
  return to_whole(text(name)).value();
}

double Values::real(std::string_view name) const {
  return to_real(text(name)).value();
}

void Values::add_to_rest(std::string_view name) {
  rest_ += (rest_.empty() ? "" : ",") + std::string(name) + "=" + text(name);
}

Result<Values> Values::parse(std::string_view policy, std::string_view text,
                             const std::vector<Option>& options, bool pass_unknown) {
  Values values;
  std::vector<std::string> names;
  for (const Option& option : options) names.push_back(option.name);

  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return refusal(policy, "\"" + std::string(pair) + "\" is not key=value");
    }
    const std::string key(pair.substr(0, equals)), value(pair.substr(equals + 1));
    const auto option = std::ranges::find(options, key, &Option::name);
    if (option == options.end()) {
      if (!pass_unknown) {
        return refusal(policy, "no option \"" + key + "\"; there are " + joined(names));
      }
      values.rest_ += (values.rest_.empty() ? "" : ",") + key + "=" + value;
      continue;
    }
    if (!fits(*option, value)) {
      return refusal(policy, key + "=" + value + ": " + key + " " + expectation(*option));
    }
    if (!values.value_.emplace(key, value).second) return refusal(policy, key + " is given twice");
  }
  for (const Option& option : options) values.value_.emplace(option.name, option.standard);
  return values;
}

std::string describe(const std::vector<Option>& options) {
  std::string all;
  for (const Option& option : options) {
    all += (all.empty() ? "" : ",") + option.name + "=" + option.standard;
  }
  return all;
}

}  // namespace quire::policies
