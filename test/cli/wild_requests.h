// What strangers send: values that no field was made for, and bodies that cost far more than they
// weigh.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "serve/openai_body.h"

namespace quire::test {

struct WildRequest {
  std::string path, body;
};

inline std::string repeated(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

// JSON, or nearly.
inline const std::vector<std::string>& wild_values() {
  static const std::vector<std::string> values = {"-1",
                                                  "0",
                                                  "1",
                                                  "0.5",
                                                  "-1e308",
                                                  "1e308",
                                                  "1e-320",
                                                  "1e999",
                                                  "65535",
                                                  "2147483647",
                                                  "2147483648",
                                                  "4294967295",
                                                  "-9223372036854775808",
                                                  "18446744073709551615",
                                                  "99999999999999999999999",
                                                  "NaN",
                                                  "-Infinity",
                                                  "\"NaN\"",
                                                  "\"\"",
                                                  "\"0x10\"",
                                                  "\"\\u0000\\ud83d\\ude00\"",
                                                  "\"\\ud800\"",
                                                  "\"" + std::string(3000, 'x') + "\"",
                                                  "null",
                                                  "true",
                                                  "false",
                                                  "[]",
                                                  "{}",
                                                  "[null]",
                                                  "[-1]",
                                                  "[[[]]]",
                                                  "{\"\": {}}",
                                                  "[1e308, \"x\"]"};
  return values;
}

// Where a value can stand: a field, and what is around it (@) in the field.
inline std::vector<std::pair<std::string, std::string>> places_of_values() {
  std::vector<std::pair<std::string, std::string>> places;
  for (const char* field : serve::body_fields()) places.emplace_back(field, "@");
  const std::string schema =
                        R"({"type": "json_schema", "json_schema": {"name": "n", "schema": @}})",
                    tool = R"([{"type": "function", "function": {"name": "f", "parameters": @}}])";
  places.insert(places.end(),
                {{"kv", R"({"policy": @})"},
                 {"kv", R"({"policy": "h2o", "keep": @})"},
                 {"kv", R"({"mode": @, "on_overflow": @})"},
                 {"kv", R"({"wish": @})"},
                 {"stream_options", R"({"include_usage": @})"},
                 {"logit_bias", R"({"1": @})"},
                 {"stop", "[@]"},
                 {"prompt", "[@]"},
                 {"messages", "[@]"},
                 {"messages", R"([{"role": @, "content": "x"}])"},
                 {"messages", R"([{"role": "user", "content": @}])"},
                 {"messages", R"([{"role": "user", "content": [{"type": "text", "text": @}]}])"},
                 {"messages", R"([{"role": "assistant", "tool_calls": [@]}])"},
                 {"response_format", R"({"type": @})"},
                 {"response_format", schema},
                 {"tools", "[@]"},
                 {"tools", tool},
                 {"tool_choice", R"({"type": "function", "function": {"name": @}})"},
                 {"chat_template_kwargs", R"({"enable_thinking": @})"}});
  return places;
}

inline std::string with_value(std::string form, const std::string& value) {
  for (std::size_t at = 0; (at = form.find('@', at)) != std::string::npos; at += value.size()) {
    form.replace(at, 1, value);
  }
  return form;
}

// Every value in every place, on every path that reads a body.
inline std::vector<WildRequest> wild_requests() {
  std::vector<WildRequest> all;
  for (const auto& [field, form] : places_of_values()) {
    for (const std::string& value : wild_values()) {
      const std::string wild = "\"" + field + "\": " + with_value(form, value);
      const std::string prompt = field == "prompt" ? "" : R"(, "prompt": "Hi")";
      const std::string messages =
          field == "messages" ? "" : R"(, "messages": [{"role": "user", "content": "Hi"}])";
      all.push_back({"/v1/completions", "{" + wild + prompt + "}"});
      all.push_back({"/v1/chat/completions", "{" + wild + messages + "}"});
    }
  }
  for (const std::string& value : wild_values()) {
    all.push_back({"/tokenize", "{\"content\": " + value + ", \"with_pieces\": true}"});
    all.push_back({"/detokenize", "{\"tokens\": " + value + "}"});
    all.push_back({"/detokenize", "{\"tokens\": [" + value + "]}"});
    all.push_back({"/apply-template", "{\"messages\": " + value + "}"});
  }
  return all;
}

// --- bombs: each is to be refused ---

// A rule twice in the one before it, so many times over.
inline std::string doubling_grammar(int rules, const std::string& last) {
  std::string text = "root ::= a0\n";
  for (int i = 0; i < rules; ++i) {
    const std::string next = "a" + std::to_string(i + 1);
    text += "a" + std::to_string(i) + " ::= " + next + " | " + next + "\n";
  }
  return text + "a" + std::to_string(rules) + " ::= " + last + "\n";
}

inline std::vector<WildRequest> json_bombs() {
  std::string members = "{\"prompt\": \"x\"";
  for (int i = 0; i < 200'000; ++i) members += ",\"m" + std::to_string(i) + "\":0";
  const std::string chat = R"({"messages": [{"role": "user", "content": )";
  std::vector<WildRequest> bombs;
  for (const std::string& body :
       {repeated("[", 100'000), repeated("{\"a\":", 100'000), members + "}",
        "{\"prompt\": " + repeated("[", 80) + repeated("]", 80) + "}",
        "{\"prompt\": [0" + repeated(",0", 2'000'000) + "]}",
        "{\"prompt\": [[]" + repeated(",[]", 2'000'000) + "]}",
        "{\"prompt\": \"" + repeated("x", 8'000'000) + "\"}",
        "{\"prompt\": \"" + repeated("\\u0000", 1'000'000) + "\"}",
        "{\"prompt\": \"" + repeated("a b\\n", 1'000'000) + "\"}",
        "{\"" + repeated("k", 4'000'000) + "\": 0}",
        "{\"seed\": " + repeated("9", 1'000'000) + ", \"prompt\": \"x\"}",
        "{\"prompt\": \"" + repeated("x", 4'000'000), repeated(" ", 8'400'000)}) {
    bombs.push_back({"/v1/completions", body});
  }
  bombs.push_back({"/v1/chat/completions", chat + "\"" + repeated("y", 8'000'000) + "\"}]}"});
  bombs.push_back({"/v1/chat/completions", R"({"messages": [0)" + repeated(",0", 300'000) + "]}"});
  bombs.push_back({"/detokenize", "{\"tokens\": [" + repeated("1e1,", 1'000'000) + "1]}"});
  return bombs;
}

inline std::vector<WildRequest> form_bombs() {
  std::vector<WildRequest> bombs;
  // Every letter of a text can be read in eight ways: some answers are begun before that shows.
  std::string ways = R"(root ::= s\ns ::= \"0\")";
  for (char end = 'a'; end <= 'h'; ++end) ways += std::string(R"( | [^n] s \")") + end + R"(\")";
  bombs.push_back(
      {"/v1/completions", R"({"prompt": "x", "max_tokens": 40, "grammar": ")" + ways + "\"}"});
  for (const std::string& grammar :
       {doubling_grammar(40, "\\\"x\\\""), doubling_grammar(40, "\\\"\\\""),
        "root ::= " + repeated("(", 60'000),
        "root ::= " + repeated("(", 60) + "\\\"a\\\"" + repeated("{0,9})", 60),
        std::string("root ::= root \\\"a\\\""), std::string("root ::= [a-z]{1,999999999}"),
        std::string("root ::= \\\"\\\\xFF")}) {
    std::string text;
    for (const char c : grammar) text += c == '\n' ? std::string("\\n") : std::string(1, c);
    bombs.push_back({"/v1/completions", "{\"prompt\": \"x\", \"grammar\": \"" + text + "\"}"});
  }
  std::string doubling = R"({"$ref": "#/$defs/d0", "$defs": {)";
  for (int i = 0; i < 25; ++i) {
    const std::string next = R"({"$ref": "#/$defs/d)" + std::to_string(i + 1) + "\"}";
    doubling += "\"d" + std::to_string(i) + R"(": {"anyOf": [)" + next + "," + next + "]},";
  }
  const std::string deep = R"({"items": )";
  for (const std::string& schema :
       {doubling + R"("d25": {"type": "null"}}})", repeated(deep, 40) + "{}" + repeated("}", 40),
        repeated(deep, 5'000) + "{}" + repeated("}", 5'000),
        R"({"enum": [0)" + repeated(",0", 100'000) + "]}",
        std::string(R"({"type": "string", "pattern": "^(a{0,1000}){0,1000}$"})"),
        R"({"type": "string", "pattern": "^)" + repeated("(", 200) + "a" + repeated(")*", 200) +
            "$\"}",
        std::string(R"({"type": "string", "maxLength": 4294967297})"),
        std::string(R"({"$ref": "#"})"),
        std::string(R"({"allOf": [{"$ref": "#"}, {"$ref": "#"}]})")}) {
    bombs.push_back({"/v1/chat/completions",
                     R"({"messages": [{"role": "user", "content": "x"}], "response_format":
                        {"type": "json_schema", "json_schema": {"name": "n", "schema": )" +
                         schema + "}}}"});
  }
  bombs.push_back(
      {"/v1/chat/completions", R"({"messages": [{"role": "user", "content": "x"}], "tools": [0)" +
                                   repeated(",0", 500'000) + "]}"});
  bombs.push_back(
      {"/v1/completions", R"({"prompt": "x", "stop": ["s")" + repeated(",\"s\"", 500'000) + "]}"});
  return bombs;
}

}  // namespace quire::test
