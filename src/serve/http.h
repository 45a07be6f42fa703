// What goes over a connection, as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quire/status.h"

namespace quire::serve {

// The part of a request before its body, as far as anybody asks.
struct Head {
  std::string method, path, query;
  bool http_1_0 = false;
  bool keep_alive = false;
  bool expects_continue = false;
  bool has_body = false;
  std::optional<std::uint64_t> body_bytes{};  // unset: not said
  std::optional<std::string> host{}, origin{};
  std::string authorization{}, api_key{}, request_id{};
};

struct Reply {
  int status = 200;
  std::string body{};
  std::string type = "application/json";
  std::vector<std::pair<std::string, std::string>> fields{};
};

// An error as OpenAI's clients read it.  `code` and `param` may be empty.
Reply error_reply(int status, const std::string& message, const std::string& code = {},
                  const std::string& param = {});
// Of a refusal: its HTTP status, and the field that its message names.
Reply refusal_reply(const Status& status);
// 503: come again.
Reply busy_reply(const std::string& message, const std::string& code);

struct Framing {
  bool http_1_0 = false;
  bool keep_alive = true;
  bool head_only = false;  // of HEAD
  std::string request_id{};
  std::string_view more_fields{};  // of every reply: "name: value\r\n" each
};

// The whole reply.
std::string reply_text(const Reply& reply, const Framing& framing);
// The head of a reply whose body follows piece by piece: in chunks, or of HTTP/1.0 until the end of
// the connection.
std::string stream_head_text(const Reply& reply, const Framing& framing);
std::string chunk_text(std::string_view body, const Framing& framing);
std::string last_chunk_text(const Framing& framing);

// "a%20b" -> "a b"; what is no such code stays.
std::string percent_decoded(std::string_view text);

// The client's id if it is 1 to 128 letters, digits, and ._-; else a new one from `random`.
std::string request_id(std::string_view given, std::uint64_t random);

}  // namespace quire::serve
