// GBNF, the grammars of llama.cpp, checked before libllama's own parser sees them: that one writes
// what it does not understand to stderr, the whole grammar with it.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "quire/status.h"

namespace quire::model {

// Of a stranger's grammar; libllama's parser would meet more with a deep stack, an endless loop or
// gigabytes.
struct GbnfLimits {
  std::uint32_t depth = 64;    // of round brackets
  std::uint32_t repeat = 256;  // m and n of {m,n}
  bool stacked = false;        // {m}{n}, {m}*
  std::uint64_t ways = 4096;   // in which a rule can begin (model/gbnf_ways.h); 0: any
};
// Of those that come from schemas, which have limits of their own (model/schema.h).
constexpr GbnfLimits kOurGbnf{.depth = 512, .repeat = 2000, .stacked = true, .ways = 0};

// kInvalidArgument: "grammar: why", with the line where there is one.  `is_token` judges <text>;
// null: all are taken for some.
Status check_gbnf(std::string_view text, const GbnfLimits& limits,
                  const std::function<bool(std::string_view)>& is_token = {});

}  // namespace quire::model
