#include "serve/http.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "serve/json_in.h"
#include "serve/json_out.h"
#include "serve/openai_answer.h"

namespace quire::serve {
namespace {

using json = nlohmann::ordered_json;

constexpr const char* kRetryAfter = "2";  // seconds

const char* reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    case 507:
      return "Insufficient Storage";
    default:
      return "Error";
  }
}

std::string head_text(const Reply& reply, const Framing& framing) {
  std::string text = framing.http_1_0 ? "HTTP/1.0 " : "HTTP/1.1 ";
  text += std::to_string(reply.status) + " " + reason(reply.status) + "\r\n";
  text += "Content-Type: " + reply.type + "\r\n";
  text += "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n";
  if (!framing.request_id.empty()) text += "x-request-id: " + framing.request_id + "\r\n";
  text += framing.more_fields;
  for (const auto& [name, value] : reply.fields) text += name + ": " + value + "\r\n";
  // HTTP/1.1 keeps connections unless told, HTTP/1.0 closes them.
  if (!framing.keep_alive) text += "Connection: close\r\n";
  if (framing.keep_alive && framing.http_1_0) text += "Connection: keep-alive\r\n";
  return text;
}

const char* type_of(int status) {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

}  // namespace

Reply error_reply(int status, const std::string& message, const std::string& code,
                  const std::string& param) {
  const auto or_null = [](const std::string& text) { return text.empty() ? json() : json(text); };
  return {.status = status,
          .body = dump({{"error",
                         {{"message", message},
                          {"type", type_of(status)},
                          {"code", or_null(code)},
                          {"param", or_null(param)}}}})};
}

Reply refusal_reply(const Status& status) {
  return {.status = http_status(status), .body = dump(refusal_json(status, field_of(status)))};
}

Reply busy_reply(const std::string& message, const std::string& code) {
  Reply reply = error_reply(503, message, code);
  reply.fields.emplace_back("Retry-After", kRetryAfter);
  return reply;
}

std::string reply_text(const Reply& reply, const Framing& framing) {
  std::string text = head_text(reply, framing);
  text += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n\r\n";
  return framing.head_only ? text : text + reply.body;
}

std::string stream_head_text(const Reply& reply, const Framing& framing) {
  std::string text = head_text(reply, framing);
  if (!framing.http_1_0) text += "Transfer-Encoding: chunked\r\n";
  return text + "\r\n";
}

std::string chunk_text(std::string_view body, const Framing& framing) {
  if (body.empty()) return {};  // it would be the last
  if (framing.http_1_0) return std::string(body);
  char size[24];
  std::snprintf(size, sizeof(size), "%zx\r\n", body.size());
  return size + std::string(body) + "\r\n";
}

std::string last_chunk_text(const Framing& framing) {
  return framing.http_1_0 ? "" : "0\r\n\r\n";
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    unsigned value = 0;
    const char* const code = text.data() + at + 1;
    if (text[at] == '%' && at + 2 < text.size() &&
        std::from_chars(code, code + 2, value, 16).ptr == code + 2) {
      out += static_cast<char>(value);
      at += 2;
    } else {
      out += text[at];
    }
  }
  return out;
}

std::string request_id(std::string_view given, std::uint64_t random) {
  const bool usable =
      !given.empty() && given.size() <= 128 && std::ranges::all_of(given, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '.' || c == '_' || c == '-';
      });
  if (usable) return std::string(given);
  char text[32];
  std::snprintf(text, sizeof(text), "req_%016llx", static_cast<unsigned long long>(random));
  return text;
}

}  // namespace quire::serve
