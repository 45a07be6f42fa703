// Conversations as prompts, and answers as messages: the chat template of a model's file, with
// tools and answers bound to a schema.
//
// Full Jinja where the build found target llama-chat (tools/llama_chat); otherwise libllama's list
// of known templates, without tools and schemas.  Templates, messages, schemas and answers may be
// hostile: each call is bounded in steps, time, depth and size, and ends in a Status.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/model.h"
#include "quire/status.h"

namespace quire::model {

// kRequired: calls and nothing else, but for what the model thinks first.
enum class ToolChoice : std::uint8_t { kAuto, kNone, kRequired };

// Fields are JSON text as OpenAI's chat completions have them; at most kMaxRequestBytes in all.
struct ChatRequest {
  std::string messages;  // an array; content is text or an array of text parts
  std::string tools{};   // an array of functions; empty or [] or null: none
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string tool_name{};  // with kRequired: this function and no other
  bool parallel_tool_calls = true;
  bool json_object = false;  // the answer is any JSON object
  std::string
      json_schema{};        // the answer is JSON of this schema (an object); see grammar_of_schema
  std::string variables{};  // an object: what else the template reads (chat_template_kwargs)
  bool add_generation_prompt = true;
  bool split_reasoning = true;  // what the model thinks comes apart from its answer
};

constexpr std::size_t kMaxRequestBytes = 16u << 20;
constexpr std::size_t kMaxSchemaBytes = 256u << 10;
constexpr std::size_t kMaxTemplateBytes = 128u << 10;
constexpr std::size_t kMaxTools = 128;

struct ToolCall {
  std::string id;  // empty where the model's format has none
  std::string name;
  std::string arguments;  // JSON text; of an unfinished answer, its beginning
};

struct ChatAnswer {
  std::string content, reasoning;
  std::vector<ToolCall> tool_calls;
};

// Reads what a model said to one prompt.  Threads may share it.
class AnswerReader {
 public:
  virtual ~AnswerReader() = default;
  // All text of the answer so far (with ChatPrompt::shown tokens in it).  `partial`: more may come;
  // successive results then only grow, but for a tool call's name and arguments, which may be held
  // back.  kInvalidArgument: the text is not of the form the prompt asked for.
  virtual Result<ChatAnswer> read(std::string_view text, bool partial) const = 0;
  // Whether any text is content, all of it.
  virtual bool plain() const { return false; }
};

struct ChatPrompt {
  std::string text;  // as rendered, without a begin-of-text the tokenizer adds
  // Of the text; begin-of-text once, where the model wants it.  Empty: the text is longer than any
  // that the context can hold (model/text_limit.h).
  std::vector<Token> tokens;
  std::string grammar;  // for SamplerOptions::grammar and grammar_start
  GrammarStart grammar_start;
  std::vector<std::string> stops;  // ends of the answer besides the request's own
  std::vector<Token> shown;        // control tokens that belong to the answer's text
  std::shared_ptr<const AnswerReader> reader;
};

struct ChatOptions {
  // Instead of ModelOptions::chat_template and the file's: Jinja text, or the name of one that
  // libllama knows ("chatml", "llama3" ...).
  std::string form{};
};

class ChatTemplate {
 public:
  // kNotFound: the file has no template; kUnsupported: one this build cannot render (say another
  // with ChatOptions::form); kInvalidArgument: a name nobody knows.  The model must outlive it.
  static Result<std::unique_ptr<ChatTemplate>> open(const Model& model, const ChatOptions& options);
  virtual ~ChatTemplate() = default;

  // kInvalidArgument: "FIELD: why" with the field of OpenAI's request ("messages[2].content",
  // "tools[0].function.parameters", "response_format"), also when the template itself refuses the
  // messages; kUnsupported: tools or a schema that this template or build has no form for.
  // Threads may call it at once.
  virtual Result<ChatPrompt> apply(const ChatRequest& request) const = 0;

  virtual const std::string& source() const = 0;  // Jinja text, or the known name
  virtual bool takes_tools() const = 0;           // its form shows tools to the model
};

// The template of the model's file, or ModelOptions::chat_template: opened at the first call, and
// as long as the model lives.  As ChatTemplate::open(); any thread.
Result<const ChatTemplate*> chat_template_of(const Model& model);

// (role, text) pairs as ChatRequest::messages; bytes that are no UTF-8 become U+FFFD.
std::string chat_messages(std::span<const std::pair<std::string, std::string>> messages);

// The grammar of all JSON texts that a schema allows.  kInvalidArgument: "PATH: why" for what is no
// schema, what is too large, and every keyword that the grammar could not enforce: nothing is let
// through silently.  Enforced: type, properties, required, additionalProperties, items,
// prefixItems, minItems, maxItems, minLength, maxLength, pattern (anchored, of one line), format of
// dates, times and uuids, enum, const, anyOf, oneOf (as anyOf), allOf of objects, $ref within the
// schema, bounds of integers.  kUnsupported in a build without llama-chat.
Result<std::string> grammar_of_schema(std::string_view schema);

// Whether this build has llama-chat.
bool has_full_templates();

}  // namespace quire::model
