#include "serve/request_reader.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <utility>

namespace quire::serve {
namespace {

namespace http = boost::beast::http;
using boost::beast::iequals;

std::string text_of(boost::beast::string_view view) {
  return {view.data(), view.size()};
}

}  // namespace

struct RequestReader::Parser {
  http::request_parser<http::string_body> http;
};

RequestReader::RequestReader(const Limits& limits)
    : limits_(limits), parser_(std::make_unique<Parser>()) {
  parser_->http.header_limit(limits.header_bytes);
  parser_->http.body_limit(limits.body_bytes);
}

RequestReader::~RequestReader() = default;

std::size_t RequestReader::put(std::string_view bytes) {
  auto& parser = parser_->http;
  std::size_t used = 0;
  while (used < bytes.size() && stage_ != Stage::kWhole && stage_ != Stage::kRefused) {
    boost::system::error_code error;
    const std::string_view rest = bytes.substr(used);
    const std::size_t now = parser.put(boost::asio::buffer(rest.data(), rest.size()), error);
    used += now;
    if (error == http::error::need_more) break;
    if (error == http::error::body_limit) {
      refuse(413, "the body is over the limit of " + std::to_string(limits_.body_bytes) + " bytes");
    } else if (error == http::error::header_limit) {
      refuse(431,
             "the header is over the limit of " + std::to_string(limits_.header_bytes) + " bytes");
    } else if (error == http::error::bad_version) {
      refuse(505, "not HTTP/1.1");
    } else if (error) {
      refuse(400, "not HTTP: " + error.message());
    } else if (stage_ == Stage::kHeader && parser.is_header_done()) {
      read_head();
      if (stage_ == Stage::kRefused) break;
      stage_ = parser.is_done() ? Stage::kWhole : Stage::kBody;
      parser.eager(true);
      break;
    } else if (parser.is_done()) {
      stage_ = Stage::kWhole;
    } else if (now == 0) {
      break;
    }
  }
  return used;
}

void RequestReader::read_head() {
  const auto& message = parser_->http.get();
  head_.method = text_of(message.method_string());
  const std::string target = text_of(message.target());
  if (target.empty() || target[0] != '/') return refuse(400, "the target is no path");
  const std::size_t query = target.find('?');
  head_.path = target.substr(0, query);
  if (query != std::string::npos) head_.query = target.substr(query + 1);
  if (message.version() != 10 && message.version() != 11) return refuse(505, "not HTTP/1.1");
  head_.http_1_0 = message.version() == 10;
  head_.keep_alive = message.keep_alive();
  head_.expects_continue = iequals(message[http::field::expect], "100-continue");
  head_.has_body = !parser_->http.is_done();
  if (const auto length = parser_->http.content_length()) head_.body_bytes = *length;
  if (message.count(http::field::host) > 1) return refuse(400, "more than one Host header");
  const auto optional = [&](http::field name) {
    const auto found = message.find(name);
    return found == message.end() ? std::optional<std::string>()
                                  : std::optional(text_of(found->value()));
  };
  head_.host = optional(http::field::host);
  head_.origin = optional(http::field::origin);
  head_.authorization = text_of(message[http::field::authorization]);
  head_.api_key = text_of(message["x-api-key"]);
  head_.request_id = text_of(message["x-request-id"]);
}

void RequestReader::refuse(int status, const std::string& why) {
  stage_ = Stage::kRefused;
  refusal_ = error_reply(status, why, status == 413 ? "body_too_large" : "bad_http");
}

std::string RequestReader::take_body() {
  return std::move(parser_->http.get().body());
}

}  // namespace quire::serve
