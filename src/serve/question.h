// The body of a completion request as work for the engine.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "serve/facts.h"
#include "serve/http.h"
#include "serve/openai_body.h"

namespace quire::serve {

struct Question {
  std::vector<engine::Request> requests{};  // one for each answer
  std::uint32_t prompt_tokens = 0;
  bool stream = false, include_usage = false, logprobs = false;
  std::uint32_t top_logprobs = 0;
  std::shared_ptr<const model::AnswerReader> reader{};  // as Body's
};

// `tenant`: whose requests share prefixes with each other alone; all tenants' are as long as each
// other, or empty.  Takes long for long texts and grammars, which are compiled here.  The refusal
// has the status 400, and in `error` what to change.
struct Understood {
  std::optional<Question> question{};
  Reply refusal{};  // without a question
};
Understood understand(const Facts& facts, const model::Model& model, Endpoint endpoint,
                      std::string_view body, const std::string& tenant = {});

}  // namespace quire::serve
