// The two ways to render a conversation; ChatTemplate::open() chooses.
#pragma once

#include "model/chat.h"
#include "model/json_text.h"
#include "model/model_impl.h"

namespace quire::model {

// Of `name`, one of libllama's known templates, or Jinja text that it recognises.  No tools, no
// schemas.  kInvalidArgument, kUnsupported as ChatTemplate::open().
Result<std::unique_ptr<ChatTemplate>> open_known_form(const GgufModel& model,
                                                      const std::string& name);

// Jinja text; kUnsupported without llama-chat.
Result<std::unique_ptr<ChatTemplate>> open_jinja_form(const GgufModel& model,
                                                      const std::string& text);

// Tokens of a rendered prompt: begin-of-text once, and no end-of-text that the tokenizer would add.
// None of a text that is too long for the context whatever its tokens are.
std::vector<Token> prompt_tokens(const GgufModel& model, const std::string& text);

// What ChatRequest::messages says, checked: an array of objects whose fields have the kinds that
// OpenAI's have.  kInvalidArgument: "messages[i].field: why".
Result<Json> read_messages(const ChatRequest& request);

// The text of a message's content.
std::string content_text(const Json& message);

}  // namespace quire::model
