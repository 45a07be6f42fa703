// GBNF grammars from outside.
#pragma once

#include <string>
#include <string_view>

#include "quire/status.h"

namespace quire::serve {

// Refuses what is over 16 KiB, no GBNF, or over the limits of model/gbnf.h.  What is accepted may
// still lead to itself without a letter between; libllama says so.
Status check_grammar(std::string_view text);

// Any JSON object.
const char* json_grammar();

}  // namespace quire::serve
