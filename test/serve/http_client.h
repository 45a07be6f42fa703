// A client of plain sockets: exactly these bytes out, whatever comes back in.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace quire::test {

struct HttpReply {
  int status = 0;
  std::map<std::string, std::string> fields;  // names in small letters
  std::string body;
  nlohmann::json json() const { return nlohmann::json::parse(body, nullptr, false); }
  std::string field(const std::string& name) const {
    const auto found = fields.find(name);
    return found == fields.end() ? std::string() : found->second;
  }
};

// "data: " lines of a body, [DONE] left out; `done`: it was there, and last.
struct Events {
  std::vector<nlohmann::json> chunks;
  bool done = false;
  explicit Events(const std::string& body) {
    for (std::size_t at = 0; at < body.size();) {
      const std::size_t end = std::min(body.find("\n\n", at), body.size());
      const std::string line = body.substr(at, end - at);
      at = end + 2;
      EXPECT_FALSE(done) << "after [DONE]: " << line;
      if (line == "data: [DONE]") {
        done = true;
      } else if (line.starts_with("data: ")) {
        chunks.push_back(nlohmann::json::parse(line.substr(6), nullptr, false));
        EXPECT_FALSE(chunks.back().is_discarded()) << line;
      } else {
        EXPECT_TRUE(line.starts_with(":")) << line;
      }
    }
  }
  // What one choice said, all together.
  std::string text(std::size_t choice = 0) const {
    std::string all;
    for (const nlohmann::json& chunk : chunks) {
      for (const nlohmann::json& one : chunk["choices"]) {
        if (one["index"] != choice) continue;
        if (one.contains("text")) all += one["text"].get<std::string>();
        if (one.contains("delta") && one["delta"].contains("content") &&
            one["delta"]["content"].is_string()) {
          all += one["delta"]["content"].get<std::string>();
        }
      }
    }
    return all;
  }
  // The calls of one choice as a whole message has them, put together as clients do.
  nlohmann::json calls(std::size_t choice = 0) const {
    nlohmann::json all = nlohmann::json::array();
    for (const nlohmann::json& chunk : chunks) {
      for (const nlohmann::json& one : chunk["choices"]) {
        if (one["index"] != choice || !one.contains("delta")) continue;
        if (!one["delta"].contains("tool_calls")) continue;
        for (nlohmann::json call : one["delta"]["tool_calls"]) {
          const std::size_t index = call["index"];
          call.erase("index");
          if (index == all.size()) {
            EXPECT_TRUE(call.contains("id") && call["function"].contains("name")) << call.dump();
            all.push_back(call);
            continue;
          }
          EXPECT_FALSE(call.contains("id")) << call.dump();
          std::string& said = all.at(index)["function"]["arguments"].get_ref<std::string&>();
          said += call["function"]["arguments"].get<std::string>();
        }
      }
    }
    return all;
  }
  std::string finish(std::size_t choice = 0) const {
    for (const nlohmann::json& chunk : chunks) {
      for (const nlohmann::json& one : chunk["choices"]) {
        if (one["index"] == choice && one["finish_reason"].is_string()) {
          return one["finish_reason"];
        }
      }
    }
    return {};
  }
};

class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port, int receive_buffer = 0)
      : file_(socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) {
      setsockopt(file_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
      const int segment = 536;  // else the sender's buffer becomes one of many times 64 KiB
      setsockopt(file_, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof(segment));
    }
    const timeval patience{.tv_sec = 120, .tv_usec = 0};  // then a test fails instead of hanging
    setsockopt(file_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (port != 0) connect_to(port);
  }
  ~HttpClient() { leave(); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void connect_to(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(file_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  void leave() {
    if (file_ >= 0) close(file_);
    file_ = -1;
  }
  void send_bytes(const std::string& bytes) {
    for (std::size_t at = 0; at < bytes.size();) {
      const ssize_t count = send(file_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (count <= 0) return;  // the reply says why
      at += static_cast<std::size_t>(count);
    }
  }
  static std::string request(const std::string& method, const std::string& path,
                             const std::string& body = {},
                             const std::vector<std::string>& fields = {}) {
    std::string text = method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n";
    for (const std::string& field : fields) text += field + "\r\n";
    if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    return text + "\r\n" + body;
  }
  HttpReply ask(const std::string& method, const std::string& path, const std::string& body = {},
                const std::vector<std::string>& fields = {}) {
    send_bytes(request(method, path, body, fields));
    return receive(method == "HEAD");
  }
  HttpReply post(const std::string& path, const nlohmann::json& body,
                 const std::vector<std::string>& fields = {}) {
    return ask("POST", path, body.dump(), fields);
  }
  HttpReply get(const std::string& path) { return ask("GET", path); }

  // One reply; status 0: the connection ended before its head was whole.
  HttpReply receive(bool head_only = false) {
    HttpReply reply = receive_head();
    if (reply.status == 0 || head_only) return reply;
    if (reply.field("transfer-encoding") == "chunked") {
      while (true) {
        const std::string size = take_line();
        const std::size_t bytes = size.empty() ? 0 : std::stoul(size, nullptr, 16);
        reply.body += take(bytes);
        take_line();
        if (bytes == 0) return reply;
      }
    }
    const std::string length = reply.field("content-length");
    if (!length.empty()) {
      reply.body = take(std::stoul(length));
    } else {
      while (more()) {
      }
      reply.body = std::exchange(in_, {});
    }
    return reply;
  }
  HttpReply receive_head() {
    HttpReply reply;
    const std::string first = take_line();
    if (first.size() < 12) return reply;
    reply.status = std::stoi(first.substr(9, 3));
    for (std::string line = take_line(); !line.empty(); line = take_line()) {
      const std::size_t colon = line.find(": ");
      std::string name = line.substr(0, colon);
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
      reply.fields[name] = colon == std::string::npos ? std::string() : line.substr(colon + 2);
    }
    return reply;
  }
  // What there is, at least a byte; "": the connection has ended.
  std::string read_some() {
    if (in_.empty()) more();
    return std::exchange(in_, {});
  }
  // Whether the server has closed the connection, and sent nothing before.
  bool ended() { return in_.empty() && !more(); }

 private:
  bool more() {
    char buffer[4096];
    const ssize_t count = recv(file_, buffer, sizeof(buffer), 0);
    if (count > 0) in_.append(buffer, static_cast<std::size_t>(count));
    return count > 0;
  }
  std::string take(std::size_t bytes) {
    while (in_.size() < bytes && more()) {
    }
    const std::string taken = in_.substr(0, bytes);
    in_.erase(0, taken.size());
    return taken;
  }
  std::string take_line() {
    std::size_t end = in_.find("\r\n");
    while (end == std::string::npos && more()) end = in_.find("\r\n");
    if (end == std::string::npos) return {};
    const std::string line = in_.substr(0, end);
    in_.erase(0, end + 2);
    return line;
  }

  int file_;
  std::string in_;
};

// The value of a sample in Prometheus' text; -1: it is not there.
inline double sample(const std::string& text, const std::string& name) {
  const std::size_t at = ("\n" + text).find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 1));
}

}  // namespace quire::test
