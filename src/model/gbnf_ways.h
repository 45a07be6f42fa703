// How the rules of a grammar can begin.  Before it has seen a letter libllama walks through every
// way to one and remembers none; and it overlooks rules that begin with themselves behind rules
// that are empty through others, which it would follow without end.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace quire::model {

struct GbnfPart {
  std::string rule{};  // empty: a letter, a class or a token
  std::uint64_t least = 1;
  std::optional<std::uint64_t> most = 1;  // nothing: any number
};
using GbnfSequence = std::vector<GbnfPart>;
// The alternatives of each; NAME(N is what stands in brackets in NAME.
using GbnfRules = std::map<std::string, std::vector<GbnfSequence>>;

// What is wrong with them: "rule 'NAME' ..."; empty: nothing.  `most`: ways; 0: not limited.
std::string fault_of_beginnings(const GbnfRules& rules, std::uint64_t most);

}  // namespace quire::model
