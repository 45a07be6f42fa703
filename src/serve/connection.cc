// Reading requests, writing replies.

#include "serve/connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <chrono>
#include <exception>

#include "engine/steady_clock.h"

namespace quire::serve {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::size_t kReadBytes = 64 << 10;
constexpr std::size_t kSmallBody = 16 << 10;  // not counted
// Of a refused request: what is read and thrown away, so that the client gets to read why.
constexpr double kLingerSeconds = 2;
constexpr std::size_t kLingerBytes = 16 << 20;

// The bytes of one read; there is one thread.
char* scratch() {
  static thread_local char bytes[kReadBytes];
  return bytes;
}

}  // namespace

Connection::Connection(Socket socket, Service& service)
    : socket_(std::move(socket)),
      service_(service),
      deadline_(socket_.get_executor()),
      wakeup_(socket_.get_executor()) {
  ++service_.connections;
  error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  if (const int bytes = service_.limits().send_buffer_bytes; bytes > 0) {
    socket_.set_option(Socket::send_buffer_size(bytes), ignored);
  }
}

Connection::~Connection() {
  --service_.connections;
  if (busy_) --service_.busy;
  service_.release_body(reserved_);
}

void Connection::start() {
  asio::co_spawn(
      socket_.get_executor(), [self = shared_from_this()] { return self->run(); }, asio::detached);
}

void Connection::close_if_idle() {
  closing_ = true;
  if (busy_) return;
  error_code ignored;
  socket_.cancel(ignored);
}

void Connection::abort() {
  closing_ = true;
  if (pipe_) pipe_->cancel();
}

// --- times ---

void Connection::arm(double seconds) {
  const std::uint64_t turn = ++turn_;
  deadline_.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds)));
  deadline_.async_wait([weak = weak_from_this(), turn](const error_code& error) {
    const std::shared_ptr<Connection> self = weak.lock();
    if (error || self == nullptr || self->turn_ != turn) return;
    self->timed_out_ = true;
    error_code ignored;
    self->socket_.cancel(ignored);
    self->wakeup_.raise();
  });
}

void Connection::disarm() {
  ++turn_;
  deadline_.cancel();
}

// --- bytes ---

// Into the one buffer, so that a connection that is idle holds none.
bool Connection::take_bytes() {
  error_code error;
  const std::size_t count = socket_.read_some(asio::buffer(scratch(), kReadBytes), error);
  if (error == asio::error::would_block || error == asio::error::try_again) return true;
  gone_ = gone_ || error;
  in_.append(scratch(), count);
  return !error;
}

Connection::Task<bool> Connection::more() {
  error_code error;
  co_await socket_.async_wait(Socket::wait_read, asio::redirect_error(asio::use_awaitable, error));
  if (error || timed_out_) co_return false;
  co_return take_bytes();
}

Connection::Task<bool> Connection::write(const std::string& text) {
  for (std::size_t at = 0; at < text.size() && !lost();) {
    arm(service_.limits().write_seconds);
    error_code error;
    at += co_await socket_.async_write_some(asio::buffer(text.data() + at, text.size() - at),
                                            asio::redirect_error(asio::use_awaitable, error));
    disarm();
    if (error) gone_ = true;
  }
  co_return !lost();
}

// While a request is answered: a client that leaves is seen, what it sends already is kept.
void Connection::watch() {
  if (watching_ || in_.size() >= service_.limits().header_bytes) return;
  watching_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const error_code& error) {
    self->watching_ = false;
    if (!error && self->answering_ && self->take_bytes()) self->watch();
    if (self->gone_ || !self->answering_) self->wakeup_.raise();
  });
}

Connection::Task<void> Connection::stop_watching() {
  answering_ = false;
  error_code ignored;
  if (watching_) socket_.cancel(ignored);
  while (watching_) co_await wakeup_.wait(1);
}

// --- a request ---

Connection::Task<void> Connection::run() {
  try {
    bool open = true;
    while (open) open = co_await exchange();
  } catch (const std::exception&) {
    // Of memory, or of a library: this connection's end, nobody else's.
  }
  disarm();
  error_code ignored;
  socket_.shutdown(Socket::shutdown_both, ignored);
  socket_.close(ignored);
}

Connection::Task<bool> Connection::exchange() {
  reader_ = std::make_unique<RequestReader>(service_.limits());
  entry_ = {};
  refusal_ = {};
  rate_fields_.clear();
  const Got got = co_await read_request();
  if (got == Got::kNothing) co_return false;
  const double begin = engine::steady_seconds();
  busy_ = true;
  ++service_.busy;
  const Head& head = reader_->head();
  const bool whole = reader_->stage() == RequestReader::Stage::kWhole;
  keep_alive_ = whole && head.keep_alive && !service_.draining;
  entry_.request_id = request_id(head.request_id, service_.random());
  entry_.method = head.method;
  entry_.path = head.path;
  if (got == Got::kRefused || over_rate()) {
    co_await respond(refusal_);
  } else {
    const Route route = find_route(head.method, head.path).entry->route;
    co_await answer(route);
  }
  entry_.seconds = engine::steady_seconds() - begin;
  service_.metrics().replied(entry_.status);
  service_.log(entry_);
  service_.release_body(std::exchange(reserved_, 0));
  reader_.reset();
  busy_ = false;
  --service_.busy;
  const bool open = keep_alive_ && !closing_ && !lost();
  if (!open && !lost()) co_await linger();
  co_return open;
}

// Before its body is read: who may not ask, what is not there, what others' bodies leave no room
// for.
bool Connection::refused_head() {
  const Head& head = reader_->head();
  if (std::optional<Reply> reply = service_.refuse(head)) {
    refusal_ = *std::move(reply);
    return true;
  }
  if (!head.has_body) return false;
  const std::size_t bytes = head.body_bytes.value_or(service_.limits().body_bytes);
  if (bytes <= kSmallBody) return false;
  if (!service_.reserve_body(bytes)) {
    refusal_ = busy_reply("other requests' bodies take all the memory there is for them", "busy");
    return true;
  }
  reserved_ = bytes;
  return false;
}

Connection::Task<Connection::Got> Connection::read_request() {
  const Limits& limits = service_.limits();
  bool checked = false, begun = !in_.empty();
  arm(begun ? limits.header_seconds : limits.idle_seconds);
  while (true) {
    in_.erase(0, reader_->put(in_));
    const RequestReader::Stage stage = reader_->stage();
    if (stage == RequestReader::Stage::kRefused) {
      refusal_ = reader_->refusal();
      co_return Got::kRefused;
    }
    if (stage != RequestReader::Stage::kHeader && !checked) {
      checked = true;
      if (refused_head()) co_return Got::kRefused;
      if (stage == RequestReader::Stage::kBody && reader_->head().expects_continue) {
        const std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
        if (!co_await write(go_on)) co_return Got::kNothing;
      }
      arm(limits.body_seconds);
      if (stage == RequestReader::Stage::kBody && !in_.empty()) continue;
    }
    if (stage == RequestReader::Stage::kWhole) {
      disarm();
      co_return Got::kRequest;
    }
    if (in_.size() > limits.header_bytes) {  // a chunk's head, which has no other limit
      refusal_ = error_reply(431, "a chunk with a head of over the header's limit", "bad_http");
      co_return Got::kRefused;
    }
    const bool came = co_await more();
    if (closing_ && !busy_ && !checked) co_return Got::kNothing;
    if (!came && timed_out_ && begun) {
      timed_out_ = false;
      refusal_ = error_reply(408, "the request came too slowly", "timeout");
      co_return Got::kRefused;
    }
    if (!came) co_return Got::kNothing;
    if (!begun && !in_.empty()) {
      begun = true;
      arm(limits.header_seconds);
    }
  }
}

// --- the rate limit: of what is computed, by key ---

// True: refusal_ says so.
bool Connection::judge(const RateLimiter::Verdict& verdict) {
  rate_fields_ = rate_fields(verdict);
  if (verdict.over == nullptr) return false;
  refusal_ = over_rate_reply(verdict);
  return true;
}

bool Connection::over_rate() {
  const Head& head = reader_->head();
  if (service_.rates() == nullptr || head.method != "POST") return false;
  key_ = service_.key_index(head);
  return judge(service_.rates()->ask(key_, engine::steady_seconds()));
}

bool Connection::over_token_rate(const Question& question) {
  if (service_.rates() == nullptr) return false;
  reserved_tokens_ = question.prompt_tokens;
  for (const engine::Request& request : question.requests) {
    reserved_tokens_ += request.options.max_tokens;
  }
  return judge(service_.rates()->reserve(key_, reserved_tokens_, engine::steady_seconds()));
}

// What was set aside and not used is there again.
void Connection::settle(const Question& question) {
  if (service_.rates() == nullptr) return;
  std::uint64_t used = 0;
  if (pipe_ != nullptr) {
    used = question.prompt_tokens;
    for (const AnswerPipe::Progress& answer : pipe_->progress()) used += answer.completion_tokens;
  }
  service_.rates()->settle(key_, reserved_tokens_, used, engine::steady_seconds());
}

Framing Connection::framing() const {
  const Head& head = reader_->head();
  return {.http_1_0 = head.http_1_0,
          .keep_alive = keep_alive_,
          .head_only = head.method == "HEAD",
          .request_id = entry_.request_id,
          .more_fields = rate_fields_};
}

Connection::Task<void> Connection::respond(const Reply& reply) {
  entry_.status = reply.status;
  const std::string text = reply_text(reply, framing());
  co_await write(text);
}

// A close with bytes unread is a reset, which may overtake the reply.
Connection::Task<void> Connection::linger() {
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  arm(kLingerSeconds);
  std::size_t bytes = 0;
  bool came = true;
  while (came && bytes < kLingerBytes) {
    bytes += in_.size();
    in_.clear();
    came = co_await more();
  }
}

}  // namespace quire::serve
