#include "serve/message.h"

#include <utility>

namespace quire::serve {
namespace {

// A reader begins anew at every read.  It reads when the text has grown by this part of it, so that
// a long answer costs what 400 reads of it cost, and a short one still comes token by token.
constexpr std::size_t kReadParts = 400;

void name_calls(const std::string& call_id, model::ChatAnswer& answer) {
  for (std::size_t i = 0; i < answer.tool_calls.size(); ++i) {
    std::string& id = answer.tool_calls[i].id;
    if (id.empty()) id = call_id + std::to_string(i);
  }
}

// Whether what was said is the beginning of what is said now.
bool extends(const model::ChatAnswer& now, const model::ChatAnswer& said) {
  if (!now.content.starts_with(said.content) || !now.reasoning.starts_with(said.reasoning) ||
      now.tool_calls.size() < said.tool_calls.size()) {
    return false;
  }
  for (std::size_t i = 0; i < said.tool_calls.size(); ++i) {
    const model::ToolCall &call = now.tool_calls[i], &before = said.tool_calls[i];
    if (call.name != before.name || !call.arguments.starts_with(before.arguments)) return false;
  }
  return true;
}

// What `said` lacks of `now`, and then has.
std::string catch_up(const std::string& now, std::string& said) {
  std::string rest = now.substr(said.size());
  said = now;
  return rest;
}

}  // namespace

Message read_message(const model::AnswerReader* reader, const std::string& text, bool stopped,
                     const std::string& call_id) {
  Message message{.whole = stopped};
  if (reader == nullptr) {
    message.said.content = text;
    return message;
  }
  Result<model::ChatAnswer> read = reader->read(text, false);
  if (!read.ok()) {  // a limit or a stop text has cut it
    message.whole = false;
    read = reader->read(text, true);
  }
  message.said = read.ok() ? *std::move(read) : model::ChatAnswer{.content = text};
  name_calls(call_id, message.said);
  // Clients parse what stands here.
  for (model::ToolCall& call : message.said.tool_calls) {
    if (message.whole && call.arguments.empty()) call.arguments = "{}";
  }
  return message;
}

MessageStream::Delta MessageStream::push(std::string_view text) {
  if (reader_ == nullptr) return {.content = std::string(text)};
  text_ += text;
  if ((text_.size() - read_) * kReadParts <= text_.size()) return {};
  read_ = text_.size();
  Result<model::ChatAnswer> now = reader_->read(text_, true);
  if (!now.ok()) return {};
  name_calls(call_id_, *now);
  return extends(*now, said_) ? difference(*now, false) : Delta{};
}

Result<MessageStream::Delta> MessageStream::finish(bool stopped) {
  if (reader_ == nullptr) return Delta{};
  const Message message = read_message(reader_.get(), text_, stopped, call_id_);
  if (!extends(message.said, said_)) {
    return Status(Code::kCorrupt, "answer: its end shows that its beginning was something else");
  }
  calls_ = message.calls();
  return difference(message.said, true);
}

MessageStream::Delta MessageStream::difference(const model::ChatAnswer& now, bool ended) {
  Delta delta{.content = catch_up(now.content, said_.content),
              .reasoning = catch_up(now.reasoning, said_.reasoning)};
  for (std::size_t i = 0; i < now.tool_calls.size(); ++i) {
    const model::ToolCall& call = now.tool_calls[i];
    if (i == said_.tool_calls.size()) {
      // Of the last one the name may still grow.
      const bool named = ended || i + 1 < now.tool_calls.size() || !call.arguments.empty();
      if (!named || call.name.empty()) break;
      said_.tool_calls.push_back({.id = call.id, .name = call.name});
      delta.calls.push_back({.index = i, .id = call.id, .name = call.name});
    }
    std::string rest = catch_up(call.arguments, said_.tool_calls[i].arguments);
    if (!rest.empty()) delta.calls.push_back({.index = i, .arguments = std::move(rest)});
  }
  return delta;
}

}  // namespace quire::serve
