// The routes that answer at once, or from texts alone.
#pragma once

#include <string_view>
#include <vector>

#include "model/model.h"
#include "serve/answer_pipe.h"
#include "serve/engine_thread.h"
#include "serve/facts.h"
#include "serve/http.h"

namespace quire::serve {

Reply models_reply(const Facts& facts);
// GET /v1/models/NAME; 404 for another name.
Reply model_reply(const Facts& facts, std::string_view name);
Reply version_reply(const Facts& facts);
Reply props_reply(const Facts& facts);
Reply health_reply();
// 503 while it may not be sent requests.
Reply ready_reply(bool draining, bool stalled);

// An answer on its way.
struct Slot {
  std::uint64_t id = 0;
  std::uint32_t prompt_tokens = 0;
  AnswerPipe::Progress progress{};
};
Reply slots_reply(const Facts& facts, const std::vector<Slot>& slots);

// {content, add_special, parse_special, with_pieces} as llama.cpp's, {prompt, add_special_tokens}
// or {messages, tools, chat_template_kwargs} as vLLM's.
Reply tokenize_reply(const Facts& facts, const model::Model& model, std::string_view body);
Reply detokenize_reply(const Facts& facts, const model::Model& model, std::string_view body);
// {messages, tools, chat_template_kwargs} -> {prompt}
Reply template_reply(const Facts& facts, const model::Model& model, std::string_view body);

}  // namespace quire::serve
