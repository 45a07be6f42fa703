#include "model/chat.h"

#include <algorithm>

#include "llama.h"
#include "model/chat_forms.h"
#include "model/text_limit.h"

namespace quire::model {
namespace {

Status refuse(std::size_t i, const std::string& field, const std::string& why) {
  return {Code::kInvalidArgument, "messages[" + std::to_string(i) + "]" + field + ": " + why};
}

Status check_content(const Json& message, std::size_t i) {
  const bool may_lack = message.contains("tool_calls");
  if (!message.contains("content") || message["content"].is_null()) {
    return may_lack ? Status() : refuse(i, ".content", "missing");
  }
  const Json& content = message["content"];
  if (content.is_string()) return {};
  if (!content.is_array()) return refuse(i, ".content", "must be text or a list of parts");
  for (std::size_t part = 0; part < content.size(); ++part) {
    const std::string field = ".content[" + std::to_string(part) + "]";
    const Json& one = content[part];
    if (!one.is_object() || !one.contains("type")) return refuse(i, field, "no part with a type");
    if (one["type"] != "text") return refuse(i, field + ".type", "only text is supported");
    if (!one.contains("text") || !one["text"].is_string()) {
      return refuse(i, field + ".text", "must be text");
    }
  }
  return {};
}

Status check_calls(const Json& calls, std::size_t i) {
  if (!calls.is_array()) return refuse(i, ".tool_calls", "must be a list");
  for (std::size_t call = 0; call < calls.size(); ++call) {
    const std::string field = ".tool_calls[" + std::to_string(call) + "]";
    const Json& one = calls[call];
    if (!one.is_object() || !one.contains("type") || one["type"] != "function") {
      return refuse(i, field + ".type", "must be \"function\"");
    }
    if (one.contains("id") && !one["id"].is_string()) return refuse(i, field + ".id", "no text");
    if (!one.contains("function") || !one["function"].is_object()) {
      return refuse(i, field + ".function", "must be an object");
    }
    const Json& function = one["function"];
    for (const char* const key : {"name", "arguments"}) {
      if (!function.contains(key) || !function[key].is_string()) {
        return refuse(i, field + ".function." + key, "must be text");
      }
    }
  }
  return {};
}

Status check_message(const Json& message, std::size_t i) {
  static constexpr const char* kRoles[] = {"system", "developer", "user", "assistant", "tool"};
  if (!message.is_object()) return refuse(i, "", "must be an object");
  if (!message.contains("role") || !message["role"].is_string()) {
    return refuse(i, ".role", "must be text");
  }
  bool known = false;
  for (const char* const role : kRoles) known |= message["role"] == role;
  if (!known) {
    return refuse(i, ".role", "must be system, developer, user, assistant or tool");
  }
  for (const char* const key : {"name", "tool_call_id", "reasoning_content"}) {
    if (message.contains(key) && !message[key].is_string() && !message[key].is_null()) {
      return refuse(i, std::string(".") + key, "must be text");
    }
  }
  if (message.contains("tool_calls")) {
    if (Status status = check_calls(message["tool_calls"], i); !status.ok()) return status;
  }
  return check_content(message, i);
}

}  // namespace

Result<Json> read_messages(const ChatRequest& request) {
  Result<Json> messages = read_json(request.messages, "messages", kMaxRequestBytes);
  if (!messages.ok()) return messages;
  if (!messages->is_array() || messages->empty()) {
    return Status(Code::kInvalidArgument, "messages: must be a list that is not empty");
  }
  for (std::size_t i = 0; i < messages->size(); ++i) {
    Json& message = (*messages)[i];
    // Clients send null for what is not there.
    if (message.is_object()) {
      for (const char* const key : {"tool_calls", "name", "tool_call_id", "reasoning_content"}) {
        if (message.contains(key) && message[key].is_null()) message.erase(key);
      }
      if (message.contains("tool_calls") && message["tool_calls"].empty()) {
        message.erase("tool_calls");
      }
    }
    if (Status status = check_message(message, i); !status.ok()) return status;
  }
  return messages;
}

std::string content_text(const Json& message) {
  const Json content = message.value("content", Json());
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  for (const Json& part : content) {
    text += (text.empty() ? "" : "\n") + part["text"].get<std::string>();
  }
  return text;
}

std::size_t text_bytes_most(const Model& model) {
  const auto* loaded = dynamic_cast<const GgufModel*>(&model);
  if (loaded == nullptr) return 0;
  return std::max(std::size_t{1} << 20, loaded->text().longest_piece() * model.info().context);
}

std::vector<Token> prompt_tokens(const GgufModel& model, const std::string& text) {
  if (text.size() > text_bytes_most(model)) return {};
  std::vector<Token> tokens = model.tokenize(text, true, true);
  const llama_vocab* vocab = model.vocab();
  const Token begin = llama_vocab_bos(vocab);
  if (llama_vocab_get_add_bos(vocab) && tokens.size() > 1 && tokens[0] == begin &&
      tokens[1] == begin) {
    tokens.erase(tokens.begin());
  }
  if (llama_vocab_get_add_eos(vocab) && !tokens.empty() &&
      tokens.back() == llama_vocab_eos(vocab)) {
    tokens.pop_back();
  }
  return tokens;
}

std::string chat_messages(std::span<const std::pair<std::string, std::string>> messages) {
  Json list = Json::array();
  for (const auto& [role, text] : messages) {
    list.push_back({{"role", role}, {"content", text}});
  }
  return list.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::open(const Model& model,
                                                         const ChatOptions& options) {
  const auto* loaded = dynamic_cast<const GgufModel*>(&model);
  if (loaded == nullptr) {
    return Status(Code::kInvalidArgument, "model: not one that Model::load() made");
  }
  std::string form = options.form.empty() ? loaded->text().chat_template() : options.form;
  const bool given = !form.empty();
  if (!given) {
    const char* text = llama_model_chat_template(loaded->text().model(), nullptr);
    if (text == nullptr) {
      return Status(Code::kNotFound, "the file has no key 'tokenizer.chat_template'");
    }
    form = text;
  }
  if (form.size() > kMaxTemplateBytes) {
    return Status(Code::kUnsupported, "a chat template of more than 128 KiB");
  }
  const bool jinja =
      !given || form.find("{{") != std::string::npos || form.find("{%") != std::string::npos;
  if (jinja && has_full_templates()) return open_jinja_form(*loaded, form);
  return open_known_form(*loaded, form);
}

Result<const ChatTemplate*> GgufModel::chat_template() const {
  std::call_once(chat_once_, [this] { chat_.emplace(ChatTemplate::open(*this, {})); });
  if (!chat_->ok()) return chat_->status();
  const ChatTemplate* form = (**chat_).get();
  return form;
}

Result<const ChatTemplate*> chat_template_of(const Model& model) {
  const auto* loaded = dynamic_cast<const GgufModel*>(&model);
  if (loaded == nullptr) {
    return Status(Code::kNotFound, "the model has no file, and so no chat template");
  }
  return loaded->chat_template();
}

Result<std::string> GgufModel::chat(
    std::span<const std::pair<std::string, std::string>> messages) const {
  const Result<const ChatTemplate*> form = chat_template();
  if (!form.ok()) return form.status();
  Result<ChatPrompt> prompt =
      (*form)->apply({.messages = chat_messages(messages), .split_reasoning = false});
  if (!prompt.ok()) return prompt.status();
  return std::move(prompt->text);
}

}  // namespace quire::model
