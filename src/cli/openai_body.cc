// One table says which fields there are.

#include "cli/openai_body.h"

#include <cmath>
#include <limits>
#include <optional>

namespace quire::cli {
namespace {

using nlohmann::json;

constexpr std::uint32_t kDepthMost = 64;
constexpr std::size_t kStopsMost = 16, kMessagesMost = 100'000;
constexpr std::uint32_t kTokensMost = 1u << 24;

Status refuse(const std::string& field, const std::string& why) {
  return {Code::kInvalidArgument, field + ": " + why};
}

// A value for a message: short, whatever it is.
std::string shown(const json& value) {
  if (value.is_structured()) return value.is_array() ? "an array" : "an object";
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() > 40 ? text.substr(0, 37) + "..." : text;
}

Status read_number(const json& value, const char* field, double least, double most, float& out) {
  const double number = value.is_number() ? value.get<double>() : least - 1;
  if (!(number >= least && number <= most)) {
    return refuse(field, shown(value) + " is not a number from " + json(least).dump() + " to " +
                             json(most).dump());
  }
  out = static_cast<float>(number);
  return {};
}

Status read_whole(const json& value, const char* field, std::uint32_t least, std::uint32_t most,
                  std::uint32_t& out) {
  const bool whole = value.is_number_integer() || value.is_number_unsigned();
  const bool negative = whole && !value.is_number_unsigned() && value.get<std::int64_t>() < 0;
  const std::uint64_t number = whole && !negative ? value.get<std::uint64_t>() : 0;
  if (!whole || negative || number < least || number > most) {
    return refuse(field, shown(value) + " is not a whole number from " + std::to_string(least) +
                             " to " + std::to_string(most));
  }
  out = static_cast<std::uint32_t>(number);
  return {};
}

Status read_flag(const json& value, const char* field, bool& out) {
  if (!value.is_boolean()) return refuse(field, shown(value) + " is not true or false");
  out = value.get<bool>();
  return {};
}

Status read_text(const json& value, const std::string& field, std::string& out) {
  if (!value.is_string()) return refuse(field, shown(value) + " is not a string");
  out = value.get<std::string>();
  return {};
}

// --- messages ---

// A string, or an array of {"type": "text", "text": ...}.
Status read_content(const json& value, const std::string& field, std::string& out) {
  if (!value.is_array()) return read_text(value, field, out);
  for (std::size_t i = 0; i < value.size(); ++i) {
    const json& part = value[i];
    const std::string name = field + "[" + std::to_string(i) + "]";
    if (!part.is_object() || part.value("type", json()) != "text" || !part.contains("text")) {
      return refuse(name, "only {\"type\": \"text\", \"text\": ...} is supported");
    }
    std::string text;
    if (Status status = read_text(part["text"], name + ".text", text); !status.ok()) return status;
    out += text;
  }
  return {};
}

Status read_message(const json& value, const std::string& field, Body& body) {
  if (!value.is_object()) return refuse(field, shown(value) + " is not an object");
  for (const auto& [key, unused] : value.items()) {
    if (key == "role" || key == "content") continue;
    if (!unused.is_null()) return refuse(field + "." + key, "not supported");
  }
  std::string role, content;
  if (Status status = read_text(value.value("role", json()), field + ".role", role); !status.ok()) {
    return status;
  }
  if (role == "developer") role = "system";
  if (role != "system" && role != "user" && role != "assistant") {
    return refuse(field + ".role", shown(value["role"]) + " is none of system, user, assistant");
  }
  const json given = value.value("content", json());
  if (Status status = read_content(given, field + ".content", content); !status.ok()) return status;
  body.messages.emplace_back(std::move(role), std::move(content));
  return {};
}

Status read_messages(const json& value, Body& body) {
  if (!value.is_array() || value.empty()) {
    return refuse("messages", shown(value) + " is not an array of messages");
  }
  if (value.size() > kMessagesMost) return refuse("messages", "too many");
  for (std::size_t i = 0; i < value.size(); ++i) {
    Status status = read_message(value[i], "messages[" + std::to_string(i) + "]", body);
    if (!status.ok()) return status;
  }
  return {};
}

// --- prompt, stop, kv ---

Status read_prompt(const json& value, Body& body) {
  if (value.is_string()) return read_text(value, "prompt", body.prompt);
  if (value.is_array() && value.size() == 1 && value[0].is_string()) {
    return read_text(value[0], "prompt", body.prompt);
  }
  if (!value.is_array() || value.empty() || value[0].is_string() || value[0].is_array()) {
    return refuse("prompt", shown(value) + " is not one string, or one array of tokens");
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    std::uint32_t token = 0;
    const std::string field = "prompt[" + std::to_string(i) + "]";
    Status status = read_whole(value[i], field.c_str(), 0, 1u << 30, token);
    if (!status.ok()) return status;
    body.prompt_tokens.push_back(static_cast<model::Token>(token));
  }
  return {};
}

Status read_stop(const json& value, Body& body) {
  const json list = value.is_array() ? value : json::array({value});
  if (list.size() > kStopsMost) {
    return refuse("stop", "over " + std::to_string(kStopsMost) + " texts");
  }
  for (const json& stop : list) {
    if (!stop.is_string() || stop.get_ref<const std::string&>().empty()) {
      return refuse("stop", shown(stop) + " is not a text");
    }
    body.request.options.stop.push_back(stop.get<std::string>());
  }
  return {};
}

Status read_kv(const json& value, Body& body) {
  if (!value.is_object()) return refuse("kv", shown(value) + " is not an object");
  engine::GenerateOptions& options = body.request.options;
  for (const auto& [key, given] : value.items()) {
    const std::string field = "kv." + key;
    std::string text;
    if (key != "policy" && key != "keep" && key != "on_overflow") {
      return refuse(field, "not supported; policy, keep and on_overflow are");
    }
    if (Status status = read_text(given, field, text); !status.ok()) return status;
    if (key == "on_overflow") {
      if (text != "refuse" && text != "stream") {
        return refuse(field, shown(given) + " is none of refuse, stream");
      }
      body.request.on_overflow =
          text == "refuse" ? engine::Overflow::kRefuse : engine::Overflow::kStream;
    } else if (key == "keep") {
      const Result<engine::Keep> keep = engine::parse_keep(text);
      if (!keep.ok()) return refuse(field, keep.status().message());
      options.keep = *keep;
    } else if (text == "none") {
      options.policy.reset();
      if (!value.contains("keep")) options.keep = {};
    } else {
      Result<Policy> policy = make_policy(text);
      if (!policy.ok()) return refuse(field, policy.status().message());
      options.policy = *std::move(policy);
    }
  }
  if (!options.policy && options.keep.unit != engine::Keep::Unit::kPool) {
    return refuse("kv.keep", "without a policy nothing is dropped; name one in kv.policy");
  }
  return {};
}

// --- the table ---

struct Field {
  const char* name;
  std::optional<Endpoint> only;  // of one endpoint
  Status (*read)(const json& value, Body& body);
};

// A field that may only have the value that changes nothing.
template <int kNeutral>
Status only_neutral(const json& value, const char* field) {
  const bool neutral = value == kNeutral || (kNeutral == 0 && (value == false || value.empty()));
  return neutral ? Status() : refuse(field, shown(value) + " is not supported");
}

constexpr Field kFields[] = {
    {"model",
     {},
     [](const json& v, Body&) {
       std::string any;
       return read_text(v, "model", any);
     }},
    {"user",
     {},
     [](const json& v, Body&) {
       std::string any;
       return read_text(v, "user", any);
     }},
    {"messages", Endpoint::kChat, read_messages},
    {"prompt", Endpoint::kCompletions, read_prompt},
    {"max_tokens",
     {},
     [](const json& v, Body& b) {
       return read_whole(v, "max_tokens", 0, kTokensMost, b.request.options.max_tokens);
     }},
    {"max_completion_tokens", Endpoint::kChat,
     [](const json& v, Body& b) {
       return read_whole(v, "max_completion_tokens", 0, kTokensMost, b.request.options.max_tokens);
     }},
    {"min_tokens",
     {},
     [](const json& v, Body& b) {
       return read_whole(v, "min_tokens", 0, kTokensMost, b.request.options.min_tokens);
     }},
    {"temperature",
     {},
     [](const json& v, Body& b) {
       return read_number(v, "temperature", 0, 100, b.request.options.sampler.temperature);
     }},
    {"top_p",
     {},
     [](const json& v, Body& b) {
       return read_number(v, "top_p", 1e-6, 1, b.request.options.sampler.top_p);
     }},
    {"min_p",
     {},
     [](const json& v, Body& b) {
       return read_number(v, "min_p", 0, 1, b.request.options.sampler.min_p);
     }},
    {"top_k",
     {},
     [](const json& v, Body& b) {
       std::uint32_t k = 0;
       Status status = read_whole(v, "top_k", 0, kTokensMost, k);
       b.request.options.sampler.top_k = static_cast<std::int32_t>(k);
       return status;
     }},
    {"seed",
     {},
     [](const json& v, Body& b) {
       return read_whole(v, "seed", 0, std::numeric_limits<std::uint32_t>::max() - 1,
                         b.request.options.sampler.seed);
     }},
    {"stop", {}, read_stop},
    {"ignore_eos",
     {},
     [](const json& v, Body& b) {
       bool ignore = false;
       Status status = read_flag(v, "ignore_eos", ignore);
       b.request.options.stop_at_end = !ignore;
       return status;
     }},
    {"kv", {}, read_kv},
    {"n", {}, [](const json& v, Body&) { return only_neutral<1>(v, "n"); }},
    {"stream", {}, [](const json& v, Body&) { return only_neutral<0>(v, "stream"); }},
    {"logprobs", {}, [](const json& v, Body&) { return only_neutral<0>(v, "logprobs"); }},
    {"logit_bias", {}, [](const json& v, Body&) { return only_neutral<0>(v, "logit_bias"); }},
    {"frequency_penalty",
     {},
     [](const json& v, Body&) { return only_neutral<0>(v, "frequency_penalty"); }},
    {"presence_penalty",
     {},
     [](const json& v, Body&) { return only_neutral<0>(v, "presence_penalty"); }},
    {"echo", Endpoint::kCompletions,
     [](const json& v, Body&) { return only_neutral<0>(v, "echo"); }},
    {"best_of", Endpoint::kCompletions,
     [](const json& v, Body&) { return only_neutral<1>(v, "best_of"); }},
};

// Levels of brackets outside strings; a parser should not have to find out.
std::uint32_t depth_of(std::string_view text) {
  std::uint32_t depth = 0, most = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') ++i;
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '[' || c == '{') most = std::max(most, ++depth);
    if ((c == ']' || c == '}') && depth > 0) --depth;
  }
  return most;
}

}  // namespace

Result<json> parse_json(std::string_view text, std::size_t most_bytes) {
  if (text.size() > most_bytes) {
    return Status(
        Code::kInvalidArgument,
        std::to_string(text.size()) + " bytes, over the limit of " + std::to_string(most_bytes));
  }
  if (const std::uint32_t depth = depth_of(text); depth > kDepthMost) {
    return Status(Code::kInvalidArgument, "brackets " + std::to_string(depth) +
                                              " deep, over the limit of " +
                                              std::to_string(kDepthMost));
  }
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    return Status(Code::kInvalidArgument, "not JSON at byte " + std::to_string(error.byte));
  } catch (const json::exception&) {
    return Status(Code::kInvalidArgument, "a number is over what a double holds");
  }
}

Status read_body(const json& object, Body& body) {
  if (!object.is_object()) return refuse("body", shown(object) + " is not an object");
  for (const auto& [key, value] : object.items()) {
    const Field* found = nullptr;
    for (const Field& field : kFields) {
      if (key == field.name && (!field.only || *field.only == body.endpoint)) found = &field;
    }
    if (value.is_null()) continue;
    if (found == nullptr) return refuse(key.substr(0, 60), "not supported");
    if (Status status = found->read(value, body); !status.ok()) return status;
  }
  if (object.contains("max_tokens") && object.contains("max_completion_tokens")) {
    return refuse("max_completion_tokens", "and max_tokens: give one of them");
  }
  const bool chat = body.endpoint == Endpoint::kChat;
  const char* const asks = chat ? "messages" : "prompt";
  if (!object.contains(asks) || object[asks].is_null()) return refuse(asks, "missing");
  return {};
}

Status render(const model::Model& model, Body& body) {
  std::vector<model::Token>& tokens = body.request.prompt;
  if (body.endpoint == Endpoint::kChat) {
    const Result<std::string> text = model.chat(body.messages);
    if (!text.ok()) return refuse("messages", text.status().message());
    tokens = model.tokenize(*text, true, true);
  } else if (!body.prompt_tokens.empty()) {
    tokens = body.prompt_tokens;
  } else {
    tokens = model.tokenize(body.prompt, true, true);
  }
  return {};
}

std::string field_of(const Status& status) {
  const std::size_t end = status.message().find(':');
  return end == std::string::npos ? std::string() : status.message().substr(0, end);
}

}  // namespace quire::cli
