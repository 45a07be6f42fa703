// Regular expressions of JSON schemas, as llama.cpp's converter can turn them into a grammar.
#pragma once

#include <string>
#include <string_view>

#include "quire/status.h"

namespace quire::model {

constexpr std::size_t kMaxPatternBytes = 512;
// Of ways a repetition can be entered: grammars of more take too long at every token.
constexpr std::size_t kMaxPatternWays = 2000;

// The same language, of text that a JSON string holds without escapes, in the subset the converter
// gets right: groups, alternatives, classes, greedy repetitions.  kInvalidArgument: why not
// (lookaround, back references, no anchors, too many nested repetitions ...).
Result<std::string> plain_pattern(std::string_view pattern);

}  // namespace quire::model
