// Answers in OpenAI's shapes, with the cache's numbers beside them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/openai_body.h"
#include "engine/engine.h"

namespace quire::cli {

// A chat.completion or text_completion object.  `created`: seconds since 1970.
nlohmann::ordered_json completion_json(Endpoint endpoint, const std::string& id,
                                       const std::string& model, std::int64_t created,
                                       const engine::Answer& answer);

// {"error": {message, type, code, param}}; `param` is the field that the refusal names, if any.
nlohmann::ordered_json refusal_json(const Status& status, const std::string& param);
// The HTTP status of a refusal: 400 for what the request asks, 500 for what went wrong here.
int http_status(const Status& status);

}  // namespace quire::cli
