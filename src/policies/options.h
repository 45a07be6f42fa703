// How a policy's options are declared, read from NAME:key=value,key=value and range-checked.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "quire/status.h"

namespace quire::policies {

// One option a policy takes.  A name (kName) is one of `choices`.
struct Option {
  enum class Kind : std::uint8_t { kWhole, kReal, kName };
  std::string name;
  Kind kind = Kind::kWhole;
  std::string standard;  // the value without one in the spec
  std::uint64_t whole_min = 0, whole_max = 0;
  double real_min = 0, real_max = 0;
  bool odd = false;  // kWhole: odd numbers only
  std::vector<std::string> choices{};
};

Option whole(std::string name, std::uint64_t standard, std::uint64_t min, std::uint64_t max);
Option odd(std::string name, std::uint64_t standard, std::uint64_t min, std::uint64_t max);
Option real(std::string name, std::string standard, double min, double max);
Option choice(std::string name, std::string standard, std::vector<std::string> choices);

// The options of one spec, every one of them set.
class Values {
 public:
  std::uint64_t whole(std::string_view name) const;
  double real(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  // key=value pairs that were not ours, joined by commas: a wrapper hands them to what it wraps.
  const std::string& rest() const { return rest_; }
  void add_to_rest(std::string_view name);  // an option of ours that the wrapped policy has, too

  // Reads "key=value,key=value".  Unknown keys are refused, or collected in rest() when
  // `pass_unknown`.  `policy` is the name that messages give.
  static Result<Values> parse(std::string_view policy, std::string_view text,
                              const std::vector<Option>& options, bool pass_unknown);

 private:
  std::map<std::string, std::string, std::less<>> value_;
  std::string rest_;
};

// "sinks=4,recent=64": the options with their standard values.
std::string describe(const std::vector<Option>& options);

}  // namespace quire::policies
