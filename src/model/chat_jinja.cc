// Templates in Jinja, by llama.cpp's own engine, with what it derives from them: how the model
// writes tool calls, the grammar of an answer and how to read it.
#ifdef QUIRE_LLAMA_CHAT

#include <llama-chat/chat.h>
#include <llama-chat/json.h>

#include <algorithm>

#include "model/bounded.h"
#include "model/chat_forms.h"
#include "model/chat_tools.h"
#include "model/schema.h"
#include "model/text_limit.h"

namespace quire::model {
namespace {

class JinjaReader final : public AnswerReader {
 public:
  JinjaReader(const common_chat_params& params, bool split_reasoning) : params_(params) {
    params_.reasoning_format =
        split_reasoning ? COMMON_REASONING_FORMAT_DEEPSEEK : COMMON_REASONING_FORMAT_NONE;
    if (!params.parser.empty()) params_.parser.load(params.parser);
  }

  Result<ChatAnswer> read(std::string_view text, bool partial) const override {
    ChatAnswer answer;
    Status status = bounded_here("answer", Effort::for_input(text.size()), [&] {
      const common_chat_msg message = common_chat_parse(std::string(text), partial, params_);
      answer.content = message.content;
      for (const auto& part : message.content_parts) answer.content += part.text;
      answer.reasoning = message.reasoning_content;
      for (const auto& call : message.tool_calls) {
        answer.tool_calls.push_back({call.id, call.name, call.arguments});
      }
    });
    if (!status.ok()) return status;
    return answer;
  }

 private:
  common_chat_parser_params params_;
};

// Where every text would be read as content and nothing else.
class PlainReader final : public AnswerReader {
 public:
  Result<ChatAnswer> read(std::string_view text, bool) const override {
    return ChatAnswer{.content = std::string(text)};
  }
  bool plain() const override { return true; }
};

common_chat_tool_choice choice_of(ToolChoice choice) {
  switch (choice) {
    case ToolChoice::kNone:
      return COMMON_CHAT_TOOL_CHOICE_NONE;
    case ToolChoice::kRequired:
      return COMMON_CHAT_TOOL_CHOICE_REQUIRED;
    case ToolChoice::kAuto:
      break;
  }
  return COMMON_CHAT_TOOL_CHOICE_AUTO;
}

// Checked and parsed before anything of it is rendered.
struct Inputs {
  Json messages, variables;
  ChatTools tools;
  std::string schema, grammar;  // of the answer, in the converter's words
  std::size_t bytes = 0;
};

class JinjaForm final : public ChatTemplate {
 public:
  JinjaForm(const GgufModel& model, std::string source)
      : model_(model), source_(std::move(source)) {}
  ~JinjaForm() override {
    // Taken apart by recursion, as it was built.
    (void)bounded("template", {}, [this] { forms_.reset(); });
  }

  Status open();
  Result<ChatPrompt> apply(const ChatRequest& request) const override;
  const std::string& source() const override { return source_; }
  bool takes_tools() const override { return takes_tools_; }

 private:
  Result<Inputs> check(const ChatRequest& request) const;
  common_chat_templates_inputs inputs_of(const ChatRequest& request, const Inputs& inputs,
                                         const Json& tools) const;
  void finish(const ChatRequest& request, const Inputs& inputs, common_chat_params params,
              ChatPrompt& prompt) const;
  void bind_to_calls(common_chat_templates_inputs inputs, ChatPrompt& prompt) const;
  Status probe();

  const GgufModel& model_;
  const std::string source_;
  common_chat_templates_ptr forms_;
  bool takes_tools_ = false, splits_ = true;
  bool plain_ = false;  // no form of answers could be derived: rendered, and nothing else
};

Status JinjaForm::open() {
  Status status = bounded("chat template", {}, [&] {
    forms_ = common_chat_templates_init(model_.text().model(), source_);
    const auto caps = common_chat_templates_get_caps(forms_.get());
    const auto tools = caps.find("supports_tools");
    takes_tools_ = tools != caps.end() && tools->second;
  });
  if (!status.ok()) return {Code::kUnsupported, status.message()};
  if (probe().ok()) return {};
  plain_ = true;
  takes_tools_ = false;
  if (status = probe(); !status.ok()) {
    return {Code::kUnsupported, "chat template: " + status.message()};
  }
  return {};
}

// A first use: the template is analysed once, here, and what it does to an ordinary answer is seen.
Status JinjaForm::probe() {
  const std::pair<std::string, std::string> hello[] = {{"user", "hello"}};
  ChatRequest request{.messages = chat_messages(hello)};
  const Result<ChatPrompt> plain = apply(request);
  if (!plain.ok()) return plain.status();
  splits_ = false;
  for (const std::string text : {" one\n\ntwo ", "<think>\na\n</think>\n\nb", "{\"a\": 1}"}) {
    for (const bool partial : {false, true}) {
      const Result<ChatAnswer> answer = plain->reader->read(text, partial);
      splits_ |= !answer.ok() || answer->content != text || !answer->reasoning.empty();
    }
  }
  if (!takes_tools_) return {};
  request.tools =
      R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])";
  takes_tools_ = apply(request).ok();
  return {};
}

Result<Inputs> JinjaForm::check(const ChatRequest& request) const {
  Inputs inputs;
  inputs.bytes = request.messages.size() + request.tools.size() + request.variables.size() +
                 request.json_schema.size();
  Result<Json> messages = read_messages(request);
  if (!messages.ok()) return messages.status();
  inputs.messages = *std::move(messages);

  Result<ChatTools> tools = read_tools(request);
  if (!tools.ok()) return tools.status();
  inputs.tools = *std::move(tools);
  if (!inputs.tools.shown.empty() && !takes_tools_) {
    return Status(Code::kUnsupported, "tools: the model's chat template shows it none");
  }

  inputs.variables = Json::object();
  if (!request.variables.empty()) {
    Result<Json> variables = read_json(request.variables, "chat_template_kwargs", kMaxRequestBytes);
    if (!variables.ok()) return variables.status();
    if (!variables->is_object()) {
      return Status(Code::kInvalidArgument, "chat_template_kwargs: must be an object");
    }
    for (const char* const name :
         {"messages", "tools", "bos_token", "eos_token", "add_generation_prompt"}) {
      if (!variables->contains(name)) continue;
      return Status(Code::kInvalidArgument,
                    std::string("chat_template_kwargs.") + name + ": is the request's own");
    }
    inputs.variables = *std::move(variables);
  }

  if (!request.json_object && request.json_schema.empty()) return inputs;
  if (!inputs.tools.called.empty()) {
    return Status(Code::kUnsupported,
                  "response_format: not together with tools that may be called");
  }
  const std::string schema =
      request.json_schema.empty() ? R"({"type": "object"})" : request.json_schema;
  const Result<std::string> grammar = grammar_of_schema(schema);
  if (!grammar.ok()) {
    return Status(grammar.status().code(), "response_format: " + grammar.status().message());
  }
  inputs.grammar = *grammar;
  inputs.schema = plain_schema(Json::parse(schema), "")->dump();
  return inputs;
}

common_chat_templates_inputs JinjaForm::inputs_of(const ChatRequest& request, const Inputs& inputs,
                                                  const Json& tools) const {
  common_chat_templates_inputs out;
  out.messages = common_chat_msgs_parse_oaicompat(common_json::parse(inputs.messages.dump()));
  if (!tools.empty()) {
    out.tools = common_chat_tools_parse_oaicompat(common_json::parse(tools.dump()));
  }
  out.json_schema = inputs.schema;
  out.force_pure_content = plain_;
  out.add_generation_prompt = request.add_generation_prompt;
  out.tool_choice = choice_of(request.tool_choice);
  out.parallel_tool_calls = request.parallel_tool_calls;
  out.reasoning_format =
      request.split_reasoning ? COMMON_REASONING_FORMAT_DEEPSEEK : COMMON_REASONING_FORMAT_NONE;
  for (const auto& [name, value] : inputs.variables.items()) {
    out.chat_template_kwargs[name] = value.dump();
    if (name == "enable_thinking" && value.is_boolean()) out.enable_thinking = value.get<bool>();
  }
  return out;
}

Result<ChatPrompt> JinjaForm::apply(const ChatRequest& request) const {
  Result<Inputs> inputs = check(request);
  if (!inputs.ok()) return inputs.status();
  const ChatTools& tools = inputs->tools;
  const bool may_call = !tools.called.empty();
  ChatPrompt prompt;
  Status status = bounded("messages", Effort::for_input(inputs->bytes), [&] {
    // The model is shown the tools as the request has them; its calls are bound to what a grammar
    // can enforce of those it may call.
    common_chat_templates_inputs shown = inputs_of(request, *inputs, tools.shown);
    const bool twice = may_call && !tools.same();
    if (twice || !may_call) shown.tool_choice = COMMON_CHAT_TOOL_CHOICE_NONE;
    common_chat_params params = common_chat_templates_apply(forms_.get(), shown);
    if (twice) {
      const std::string text = params.prompt;
      params = common_chat_templates_apply(forms_.get(), inputs_of(request, *inputs, tools.called));
      params.prompt = text;
    }
    finish(request, *inputs, std::move(params), prompt);
    if (may_call && request.tool_choice == ToolChoice::kRequired && !splits_) {
      bind_to_calls(inputs_of(request, *inputs, tools.called), prompt);
    }
  });
  if (!status.ok()) return status;
  prompt.tokens = prompt_tokens(model_, prompt.text);
  const bool short_enough = prompt.text.size() <= text_bytes_most(model_);
  if (prompt.tokens.empty() && !prompt.text.empty() && short_enough) {
    return Status(Code::kInvalidArgument, "messages: text that the tokenizer cannot split");
  }
  return prompt;
}

void JinjaForm::finish(const ChatRequest& request, const Inputs& inputs, common_chat_params params,
                       ChatPrompt& prompt) const {
  const bool bound = !inputs.tools.called.empty() || !inputs.schema.empty();
  prompt.text = std::move(params.prompt);
  prompt.grammar = plain_ ? inputs.grammar : params.grammar;
  prompt.grammar_start.lazy = params.grammar_lazy;
  if (!plain_ && !params.grammar.empty() && !params.grammar_lazy) {
    prompt.grammar_start.prefix = params.generation_prompt;
  }
  for (const common_grammar_trigger& trigger : params.grammar_triggers) {
    std::string text = trigger.value;
    switch (trigger.type) {
      case COMMON_GRAMMAR_TRIGGER_TYPE_TOKEN:
      case COMMON_GRAMMAR_TRIGGER_TYPE_WORD:
        prompt.grammar_start.words.push_back(text);
        break;
      case COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN_FULL:
        if (text.empty() || text.front() != '^') text = "^" + text;
        if (text.back() != '$') text += "$";
        [[fallthrough]];
      case COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN:
        prompt.grammar_start.patterns.push_back(text);
    }
  }
  if (bound && prompt.grammar.empty()) {
    throw std::invalid_argument("this chat template has no form that a grammar could bind");
  }
  prompt.stops = params.additional_stops;
  for (const std::string& text : params.preserved_tokens) {
    const std::vector<Token> tokens = model_.tokenize(text, false, true);
    if (tokens.size() == 1 && model_.piece(tokens[0], false).empty()) {
      prompt.shown.push_back(tokens[0]);
    }
  }
  if (!plain_ && (bound || splits_)) {
    prompt.reader = std::make_shared<JinjaReader>(params, request.split_reasoning);
  } else {
    prompt.reader = std::make_shared<PlainReader>();
  }
}

// Of a grammar's rules, the one it begins with; begin: npos where there is none.
struct Root {
  std::size_t begin = 0, size = 0;
  explicit Root(const std::string& grammar) {
    const std::string name = "root ::= ";
    begin = grammar.starts_with(name) ? 0 : grammar.find("\n" + name);
    if (begin == std::string::npos) return;
    begin = grammar.find(name, begin) + name.size();
    size = std::min(grammar.find('\n', begin), grammar.size()) - begin;
  }
};

// llama.cpp's grammar of a required call lets any text come before it, which a weak model may never
// end.  Where a model does not think before it speaks, it may as well begin with the rule that its
// grammar of an unforced call begins with: a choice where calls stand in brackets of theirs.
void JinjaForm::bind_to_calls(common_chat_templates_inputs inputs, ChatPrompt& prompt) const {
  inputs.tool_choice = COMMON_CHAT_TOOL_CHOICE_AUTO;
  const common_chat_params params = common_chat_templates_apply(forms_.get(), inputs);
  const Root root(prompt.grammar), unforced(params.grammar);
  if (!params.grammar_lazy || root.begin == std::string::npos ||
      unforced.begin == std::string::npos) {
    return;
  }
  std::string rule = params.grammar.substr(unforced.begin, unforced.size);
  if (rule.find("tool-calls") != std::string::npos) rule = "tool-calls";
  if (prompt.grammar.find("\n" + rule + " ::= ") == std::string::npos) return;
  prompt.grammar.replace(root.begin, root.size, rule);
  prompt.grammar_start = {};
}

}  // namespace

Result<std::unique_ptr<ChatTemplate>> open_jinja_form(const GgufModel& model,
                                                      const std::string& text) {
  auto form = std::make_unique<JinjaForm>(model, text);
  if (Status status = form->open(); !status.ok()) return status;
  std::unique_ptr<ChatTemplate> opened = std::move(form);
  return opened;
}

}  // namespace quire::model

#else

#include "model/chat_forms.h"

namespace quire::model {

Result<std::unique_ptr<ChatTemplate>> open_jinja_form(const GgufModel&, const std::string&) {
  return Status(Code::kUnsupported, "this build renders no Jinja");
}

}  // namespace quire::model

#endif  // QUIRE_LLAMA_CHAT
