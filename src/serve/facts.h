// What a server is, for all that answer about it.
#pragma once

#include <cstdint>
#include <string>

#include "engine/generate.h"
#include "serve/limits.h"

namespace quire::serve {

struct Facts {
  std::string model;         // as clients see it
  std::string version;       // of quire
  std::int64_t started = 0;  // seconds since 1970
  std::uint32_t vocabulary = 0;
  std::uint32_t model_context = 0;  // positions the model was trained for
  std::uint32_t context = 0;        // tokens of a prompt and its answer, at most
  std::uint32_t tokens_fit = 0;     // of one exact sequence that has the pool for itself
  std::size_t budget_bytes = 0;
  std::uint32_t running = 0, answers = 0;  // that are computed; and that run or wait, at most
  bool chat = true;                        // the model has a template
  bool prefix_cache = false;               // what prompts have in common is computed once
  bool sessions = false;                   // and may be saved
  // Of a request that leaves them out.  max_tokens 0: what fits, of completions 16.
  engine::GenerateOptions defaults{.max_tokens = 0};
  Limits limits{};
};

}  // namespace quire::serve
