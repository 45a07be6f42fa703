// Chat templates render whole conversations; a sequence needs what was added.

#include "cli/conversation.h"

#include <utility>

namespace quire::cli {
namespace {

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

}  // namespace

Result<Conversation::Turn> Conversation::ask(const std::string& message) {
  const bool first = messages_.empty() || restart_;
  if (raw_) {
    messages_.emplace_back("user", message);
    return Turn{model_.tokenize(message, first, true), restart_};
  }
  const std::string answer = messages_.empty() ? std::string() : messages_.back().second;
  messages_.emplace_back("user", message);
  Result<std::string> whole = model_.chat(messages_);
  if (!whole.ok()) {
    messages_.pop_back();
    return whole.status();
  }
  // Templates may trim what the assistant said.
  std::string added;
  bool continues = false;
  if (!first) {
    for (const std::string& said : {rendered_ + answer, rendered_ + trimmed(answer)}) {
      if (continues || !whole->starts_with(said)) continue;
      added = whole->substr(said.size());
      continues = true;
    }
  }
  rendered_before_ = std::exchange(rendered_, *whole);
  if (continues) return Turn{model_.tokenize(added, false, true), false};
  return Turn{model_.tokenize(*whole, true, true), messages_.size() > 1 || restart_};
}

void Conversation::answered(const engine::Answer& answer) {
  restart_ = answer.completion_tokens == 0 && answer.finish != engine::Finish::kStop;
  if (restart_) {
    messages_.pop_back();
  } else {
    messages_.emplace_back("assistant", answer.text);
  }
}

void Conversation::refused() {
  messages_.pop_back();
  rendered_ = rendered_before_;
}

void Conversation::clear() {
  messages_.clear();
  rendered_.clear();
  restart_ = false;
}

}  // namespace quire::cli
