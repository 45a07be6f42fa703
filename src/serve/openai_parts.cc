#include "serve/openai_parts.h"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace quire::serve {
namespace {

using json = Json;

constexpr std::size_t kStopsMost = 16, kStopBytesMost = 1024;
constexpr std::size_t kBiasesMost = 4096, kSaltBytesMost = 256;
constexpr float kBiasMost = 100;  // OpenAI's

Status read_policy(const std::string& text, bool keep_given, engine::GenerateOptions& options) {
  if (text == "none") {
    options.policy.reset();
    if (!keep_given) options.keep = {};
    return {};
  }
  Result<Policy> policy = make_policy(text);
  if (!policy.ok()) return refuse_field("kv.policy", policy.status().message());
  options.policy = *std::move(policy);
  return {};
}

// What `auto` judges by is the server's.
Status read_gate(const json& value, const std::string& field, const std::string& text,
                 engine::GenerateOptions& options) {
  const std::optional<engine::GateRule> rule = engine::parse_gate_rule(text);
  if (!rule) return refuse_field(field, shown(value) + " is none of " + engine::kGateRules);
  options.gate.rule = *rule;
  return {};
}

// A key whose one value is what this build does.
Status only(const json& value, const std::string& field, const char* name, const char* why) {
  if (value == name) return {};
  return refuse_field(field, shown(value) + " is not supported: " + why);
}

Status read_kv_key(const std::string& key, const json& value, bool keep_given, Body& body) {
  const std::string field = "kv." + key.substr(0, 60);
  if (key == "first_token") return only(value, field, "full", "\"full\" is");
  const char* const read[] = {"mode", "policy", "keep", "gate", "on_overflow"};
  if (std::ranges::find(read, key) == std::end(read)) {
    return refuse_field(field,
                        "not supported; mode, policy, keep, gate, first_token and "
                        "on_overflow are");
  }
  std::string text;
  if (Status status = read_text(value, field, text); !status.ok()) return status;
  if (key == "mode") {
    if (text == "exact" || text == "lossy") return {};
    return refuse_field(field, shown(value) + " is none of exact, lossy");
  }
  if (key == "gate") return read_gate(value, field, text, body.request.options);
  if (key == "policy") return read_policy(text, keep_given, body.request.options);
  if (key == "keep") {
    const Result<engine::Keep> keep = engine::parse_keep(text);
    if (!keep.ok()) return refuse_field(field, keep.status().message());
    body.request.options.keep = *keep;
    return {};
  }
  if (text != "refuse" && text != "stream" && text != "streamed") {
    return refuse_field(field, shown(value) + " is none of refuse, stream");
  }
  body.request.on_overflow =
      text == "refuse" ? engine::Overflow::kRefuse : engine::Overflow::kStream;
  return {};
}

}  // namespace

Status read_prompt(const json& value, Body& body) {
  if (value.is_string()) return read_text(value, "prompt", body.prompt);
  if (value.is_array() && value.size() == 1 && value[0].is_string()) {
    return read_text(value[0], "prompt", body.prompt);
  }
  const bool nested = value.is_array() && value.size() == 1 && value[0].is_array();
  const json& tokens = nested ? value[0] : value;
  if (!tokens.is_array() || tokens.empty() || tokens[0].is_string() || tokens[0].is_array()) {
    return refuse_field("prompt", shown(value) + " is not one string, or one array of tokens");
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::uint32_t token = 0;
    const std::string field = "prompt[" + std::to_string(i) + "]";
    Status status = read_whole(tokens[i], field, 0u, 1u << 30, token);
    if (!status.ok()) return status;
    body.prompt_tokens.push_back(static_cast<model::Token>(token));
  }
  return {};
}

Status read_cache_salt(const json& value, std::string& salt) {
  if (Status status = read_text(value, "cache_salt", salt); !status.ok()) return status;
  if (!salt.empty() && salt.size() <= kSaltBytesMost) return {};
  return refuse_field("cache_salt",
                      "not a text of 1 to " + std::to_string(kSaltBytesMost) + " bytes");
}

Status read_stop(const json& value, Body& body) {
  const json list = value.is_array() ? value : json::array({value});
  if (list.size() > kStopsMost) {
    return refuse_field("stop", "over " + std::to_string(kStopsMost) + " texts");
  }
  for (const json& stop : list) {
    if (!stop.is_string() || stop.get_ref<const std::string&>().empty()) {
      return refuse_field("stop", shown(stop) + " is not a text");
    }
    if (stop.get_ref<const std::string&>().size() > kStopBytesMost) {
      return refuse_field("stop", "a text of over " + std::to_string(kStopBytesMost) + " bytes");
    }
    body.request.options.stop.push_back(stop.get<std::string>());
  }
  return {};
}

Status read_logit_bias(const json& value, Body& body) {
  if (!value.is_object()) return refuse_field("logit_bias", shown(value) + " is not an object");
  if (value.size() > kBiasesMost) {
    return refuse_field("logit_bias", "over " + std::to_string(kBiasesMost) + " tokens");
  }
  for (const auto& [key, given] : value.items()) {
    model::Token token = -1;
    const char* const end = key.data() + key.size();
    const auto [at, error] = std::from_chars(key.data(), end, token);
    if (error != std::errc() || at != end || token < 0) {
      return refuse_field("logit_bias", shown(json(key)) + " is not the number of a token");
    }
    float bias = 0;
    Status status = read_number(given, "logit_bias", -kBiasMost, kBiasMost, bias);
    if (!status.ok()) return status;
    body.request.options.sampler.logit_bias.emplace_back(token, bias);
  }
  return {};
}

Status read_stream_options(const json& value, Body& body) {
  if (!value.is_object()) return refuse_field("stream_options", shown(value) + " is not an object");
  for (const auto& [key, given] : value.items()) {
    if (key == "include_obfuscation" && given.is_boolean()) continue;  // OpenAI's padding
    // vLLM's; its load tools send it, and a usage at the end is what they read.
    if (key == "continuous_usage_stats" && given == false) continue;
    if (key != "include_usage") {
      return refuse_field("stream_options." + key.substr(0, 60), "not supported");
    }
    Status status = read_flag(given, "stream_options.include_usage", body.include_usage);
    if (!status.ok()) return status;
  }
  return {};
}

Status read_kv(const json& value, Body& body) {
  if (!value.is_object()) return refuse_field("kv", shown(value) + " is not an object");
  const json mode = value.value("mode", json());
  // What the server does by default may be lossy; "exact" alone undoes it.
  if (mode == "exact" && !value.contains("policy")) {
    body.request.options.policy.reset();
    body.request.options.keep = {};
  }
  for (const auto& [key, given] : value.items()) {
    if (Status status = read_kv_key(key, given, value.contains("keep"), body); !status.ok()) {
      return status;
    }
  }
  const engine::GenerateOptions& options = body.request.options;
  if (mode == "exact" && options.policy) {
    return refuse_field("kv.mode",
                        "\"exact\" drops nothing; the policy " + options.policy->name + " does");
  }
  if (mode == "lossy" && !options.policy) {
    return refuse_field("kv.mode", "\"lossy\" needs a policy; name one in kv.policy");
  }
  if (!options.policy && options.keep.unit != engine::Keep::Unit::kPool) {
    return refuse_field("kv.keep", "without a policy nothing is dropped; name one in kv.policy");
  }
  return {};
}

}  // namespace quire::serve
