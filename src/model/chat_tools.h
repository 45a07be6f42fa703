// The tools of a request, checked: what the model is shown, and what its calls are bound to.
#pragma once

#include "model/chat.h"
#include "model/json_text.h"

namespace quire::model {

struct ChatTools {
  Json shown = Json::array();   // as the request has them
  Json called = Json::array();  // those that may be called, with parameters the grammar enforces
  bool same() const { return shown == called; }
};

// A function with "strict": true is refused with what its parameters have and no grammar enforces;
// of another one the arguments are then bound to be an object and no more.  kInvalidArgument:
// "tools[i].field: why".
Result<ChatTools> read_tools(const ChatRequest& request);

}  // namespace quire::model
