// GBNF grammars from outside.
#pragma once

#include <string>
#include <string_view>

#include "quire/status.h"

namespace quire::serve {

// Refuses what libllama's grammar parser would meet with a deep stack, an endless loop or
// gigabytes: over 16 KiB, brackets over 64 deep, {m,n} over 256 or with n below m, {m}{n}.  What is
// accepted may still be no grammar; its parser says so.
Status check_grammar(std::string_view text);

// Any JSON object.
const char* json_grammar();

}  // namespace quire::serve
