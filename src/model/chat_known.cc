// Templates by libllama's own list: what renders where llama-chat is not there, and what a name
// means.

#include <exception>

#include "llama.h"
#include "model/chat_forms.h"

namespace quire::model {
namespace {

bool is_known_name(const std::string& name) {
  const std::int32_t count = llama_chat_builtin_templates(nullptr, 0);
  std::vector<const char*> names(static_cast<std::size_t>(count));
  (void)llama_chat_builtin_templates(names.data(), names.size());
  for (const char* known : names) {
    if (name == known) return true;
  }
  return false;
}

// The answer as it is.
class PlainReader final : public AnswerReader {
 public:
  Result<ChatAnswer> read(std::string_view text, bool) const override {
    return ChatAnswer{.content = std::string(text)};
  }
  bool plain() const override { return true; }
};

class KnownForm final : public ChatTemplate {
 public:
  KnownForm(const GgufModel& model, std::string source)
      : model_(model), source_(std::move(source)), reader_(std::make_shared<PlainReader>()) {}

  Result<ChatPrompt> apply(const ChatRequest& request) const override;
  const std::string& source() const override { return source_; }
  bool takes_tools() const override { return false; }

 private:
  Result<std::string> render(const Json& messages, bool add_generation_prompt) const;

  const GgufModel& model_;
  const std::string source_;
  const std::shared_ptr<const AnswerReader> reader_;
};

Status refuse_extras(const ChatRequest& request) {
  const auto unsupported = [](const char* field) {
    return Status(Code::kUnsupported, std::string(field) +
                                          ": this chat template is one of libllama's known ones, "
                                          "which have no form for it");
  };
  const auto given = [](const std::string& text) {
    return !text.empty() && text != "null" && text != "[]" && text != "{}";
  };
  if (given(request.tools)) return unsupported("tools");
  if (given(request.variables)) return unsupported("chat_template_kwargs");
  return {};
}

Result<ChatPrompt> KnownForm::apply(const ChatRequest& request) const {
  if (Status status = refuse_extras(request); !status.ok()) return status;
  const Result<Json> messages = read_messages(request);
  if (!messages.ok()) return messages.status();
  ChatPrompt prompt;
  if (request.json_object || !request.json_schema.empty()) {
    Result<std::string> grammar = grammar_of_schema(
        request.json_schema.empty() ? R"({"type": "object"})" : request.json_schema);
    if (!grammar.ok()) {
      return Status(grammar.status().code(), "response_format: " + grammar.status().message());
    }
    prompt.grammar = *std::move(grammar);
  }
  Result<std::string> text = render(*messages, request.add_generation_prompt);
  if (!text.ok()) return text.status();
  prompt.text = *std::move(text);
  prompt.tokens = prompt_tokens(model_, prompt.text);
  prompt.reader = reader_;
  return prompt;
}

Result<std::string> KnownForm::render(const Json& messages, bool add_generation_prompt) const {
  std::vector<std::pair<std::string, std::string>> texts;
  for (const Json& message : messages) {
    if (message.contains("tool_calls") || message["role"] == "tool") {
      return Status(Code::kUnsupported, "messages: this chat template has no form for tools");
    }
    const std::string role = message["role"].get<std::string>();
    texts.emplace_back(role == "developer" ? "system" : role, content_text(message));
  }
  std::vector<llama_chat_message> turns;
  std::size_t bytes = 1024;
  for (const auto& [role, text] : texts) {
    turns.push_back({role.c_str(), text.c_str()});
    bytes += 2 * (role.size() + text.size());
  }
  std::string out(bytes, '\0');
  std::int32_t size = -1;
  try {
    const auto run = [&] {
      return llama_chat_apply_template(source_.c_str(), turns.data(), turns.size(),
                                       add_generation_prompt, out.data(),
                                       static_cast<std::int32_t>(out.size()));
    };
    size = run();
    if (size > static_cast<std::int32_t>(out.size())) {
      out.resize(static_cast<std::size_t>(size));
      size = run();
    }
  } catch (const std::exception& error) {
    return Status(Code::kInvalidArgument, "messages: " + brief(error.what()));
  }
  if (size < 0) {
    return Status(Code::kUnsupported, "libllama does not know the form of this chat template");
  }
  out.resize(static_cast<std::size_t>(size));
  return out;
}

}  // namespace

Result<std::unique_ptr<ChatTemplate>> open_known_form(const GgufModel& model,
                                                      const std::string& name) {
  const bool jinja = name.find("{{") != std::string::npos || name.find("{%") != std::string::npos;
  if (!jinja && !is_known_name(name)) {
    return Status(Code::kInvalidArgument,
                  "chat template '" + brief(name) + "' is neither Jinja text nor a known name");
  }
  std::unique_ptr<ChatTemplate> form = std::make_unique<KnownForm>(model, name);
  // Whether libllama recognises the text shows when it is used.
  const std::pair<std::string, std::string> hello[] = {{"user", "hello"}};
  const Result<ChatPrompt> prompt = form->apply({.messages = chat_messages(hello)});
  if (!prompt.ok()) return Status(Code::kUnsupported, prompt.status().message());
  return form;
}

}  // namespace quire::model
