// Messages of chats out of the text that a model said: content, reasoning, calls of tools.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/chat.h"

namespace quire::serve {

struct Message {
  model::ChatAnswer said{};  // each call has an id
  bool whole = false;        // the text is of the form the prompt asked for, to its end
  bool calls() const { return whole && !said.tool_calls.empty(); }
};

// Of a whole answer; `stopped`: it came to an end, rather than to a limit.  Text of no known form
// is content.  Without a reader all is.  Ids that the model's form does not have begin with
// `call_id`.
Message read_message(const model::AnswerReader* reader, const std::string& text, bool stopped,
                     const std::string& call_id);

// Likewise as the text comes in: what is new of the message.  Nothing is taken back.
class MessageStream {
 public:
  // A call begins with its id and name, and goes on with pieces of its arguments.
  struct CallDelta {
    std::size_t index = 0;
    std::string id{}, name{};  // of its first delta alone
    std::string arguments{};
  };
  struct Delta {
    std::string content{}, reasoning{};
    std::vector<CallDelta> calls{};
    bool empty() const { return content.empty() && reasoning.empty() && calls.empty(); }
  };

  MessageStream(std::shared_ptr<const model::AnswerReader> reader, std::string call_id)
      : reader_(std::move(reader)), call_id_(std::move(call_id)) {}

  Delta push(std::string_view text);
  // The end.  kCorrupt: the end shows that what was said before was something else.
  Result<Delta> finish(bool stopped);
  // After finish().
  bool calls() const { return calls_; }

 private:
  Delta difference(const model::ChatAnswer& now, bool ended);

  const std::shared_ptr<const model::AnswerReader> reader_;
  const std::string call_id_;
  std::string text_;
  std::size_t read_ = 0;    // bytes of it
  model::ChatAnswer said_;  // told already
  bool calls_ = false;
};

}  // namespace quire::serve
