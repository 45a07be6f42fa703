#include "serve/access.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdint>

namespace quire::serve {
namespace {

constexpr std::size_t kKeyLettersLeast = 8;

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

bool is_address(const std::string& name) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, name.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, name.c_str(), bytes) == 1;
}

bool is_this_machine(const std::string& name) {
  return name == "localhost" || name == "::1" || (is_address(name) && name.starts_with("127."));
}

bool host_passes(const Access& access, const std::string& name) {
  if (name.empty()) return false;
  if (is_this_machine(name) || (access.remote && is_address(name))) return true;
  return std::ranges::any_of(access.hosts, [&](const std::string& allowed) {
    return allowed == "*" || lower(allowed) == name;
  });
}

// "http://name:port" -> name:port
std::string_view origin_host(std::string_view origin) {
  const std::size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ? std::string_view() : origin.substr(scheme + 3);
}

std::string_view bearer(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (lower(authorization.substr(0, kScheme.size())) != kScheme) return {};
  authorization.remove_prefix(kScheme.size());
  while (authorization.starts_with(' ')) authorization.remove_prefix(1);
  return authorization;
}

// All keys are compared, whichever fits.
bool key_passes(const Access& access, std::string_view key) {
  bool found = false;
  for (const std::string& known : access.keys) found |= equal_in_constant_time(known, key);
  return found;
}

}  // namespace

Result<std::vector<std::string>> parse_keys(std::string_view text) {
  std::vector<std::string> keys;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    const auto refuse = [&](const char* why) {
      return Status(Code::kInvalidArgument, "line " + std::to_string(number + 1) + ": " + why);
    };
    if (line.size() < kKeyLettersLeast) return refuse("a key of under 8 letters");
    const bool plain = std::ranges::all_of(line, [](char c) { return c > ' ' && c < 0x7F; });
    if (!plain) return refuse("a key with letters that no header can carry");
    keys.emplace_back(line);
  }
  if (keys.empty()) return Status(Code::kInvalidArgument, "no key in it");
  return keys;
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  volatile std::uint8_t different = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const char other = b.empty() ? '\0' : b[i % b.size()];
    different = static_cast<std::uint8_t>(different | static_cast<std::uint8_t>(a[i] ^ other));
  }
  return different == 0;
}

std::string_view key_of(const Head& head) {
  return head.authorization.empty() ? std::string_view(head.api_key) : bearer(head.authorization);
}

std::string host_name(std::string_view host) {
  std::string_view name = host;
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    if (end == std::string_view::npos) return {};
    name = host.substr(1, end - 1);
    host.remove_prefix(end + 1);
  } else {
    name = host.substr(0, host.find(':'));
    host.remove_prefix(name.size());
  }
  // What is left is nothing, or a port.
  const bool port =
      host.empty() ||
      (host.front() == ':' && host.size() <= 6 &&
       std::ranges::all_of(host.substr(1), [](char c) { return c >= '0' && c <= '9'; }));
  return port ? lower(name) : std::string();
}

std::size_t key_index(const Access& access, const Head& head) {
  std::size_t index = 0;
  for (std::size_t i = 0; i < access.keys.size(); ++i) {
    if (equal_in_constant_time(access.keys[i], key_of(head))) index = i;
  }
  return index;
}

std::optional<Reply> refuse_access(const Access& access, const Head& head, bool open) {
  if (!head.host && !head.http_1_0) return error_reply(400, "no Host header", "missing_host");
  if (head.host && !host_passes(access, host_name(*head.host))) {
    return error_reply(403, "this Host is not one of this server's (--allowed-host)",
                       "host_not_allowed");
  }
  // A page of another site; there is no CORS, so it could not read the answer anyway.
  if (head.origin && !host_passes(access, host_name(origin_host(*head.origin)))) {
    return error_reply(403, "requests from pages of other sites are not answered",
                       "origin_not_allowed");
  }
  if (open || access.keys.empty()) return {};
  const std::string_view given = key_of(head);
  if (!given.empty() && key_passes(access, given)) return {};
  Reply reply = error_reply(
      401,
      given.empty() ? "no API key: send Authorization: Bearer KEY" : "this API key is not known",
      "invalid_api_key");
  reply.fields.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

}  // namespace quire::serve
