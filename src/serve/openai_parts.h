// The parts of a body that are more than one value.
#pragma once

#include <nlohmann/json.hpp>

#include "quire/status.h"
#include "serve/openai_body.h"

namespace quire::serve {

Status read_messages(const nlohmann::json& value, Body& body);
// A text, or the tokens of one.
Status read_prompt(const nlohmann::json& value, Body& body);
Status read_stop(const nlohmann::json& value, Body& body);
Status read_logit_bias(const nlohmann::json& value, Body& body);
// text and json_object; a grammar of its own is the field `grammar`.
Status read_response_format(const nlohmann::json& value, Body& body);
Status read_stream_options(const nlohmann::json& value, Body& body);
// {mode, policy, keep, gate, first_token, on_overflow}; other keys are refused.
Status read_kv(const nlohmann::json& value, Body& body);

}  // namespace quire::serve
