// The parts of a body that are more than one value.
#pragma once

#include "quire/status.h"
#include "serve/openai_body.h"

namespace quire::serve {

// --- of what is asked and how it may be answered (openai_chat.cc); the model's template has the
// last word, when the body is rendered ---
Status read_messages(const Json& value, Body& body);
Status read_tools(const Json& value, Body& body);
// none, auto, required, or {type: function, function: {name}}.
Status read_tool_choice(const Json& value, Body& body);
// text, json_object and json_schema; a grammar of its own is the field `grammar`.
Status read_response_format(const Json& value, Body& body);
// What else the template reads.
Status read_template_kwargs(const Json& value, Body& body);

// --- others ---
// A text, or the tokens of one.
Status read_prompt(const Json& value, Body& body);
Status read_stop(const Json& value, Body& body);
Status read_cache_salt(const Json& value, std::string& salt);
Status read_logit_bias(const Json& value, Body& body);
Status read_stream_options(const Json& value, Body& body);
// {mode, policy, keep, gate, first_token, on_overflow}; other keys are refused.
Status read_kv(const Json& value, Body& body);

}  // namespace quire::serve
