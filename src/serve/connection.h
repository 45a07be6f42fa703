// One connection, one coroutine: request after request, each within its limits and times.
//
// Of the connections' thread alone; other threads reach it through its executor.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "serve/openai_answer.h"
#include "serve/question.h"
#include "serve/request_reader.h"
#include "serve/service.h"
#include "serve/wakeup.h"

namespace quire::serve {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  template <typename T>
  using Task = boost::asio::awaitable<T>;

  Connection(Socket socket, Service& service);
  ~Connection();
  void start();
  // Closes it unless it answers; one that does is closed behind its answer.
  void close_if_idle();
  // Ends its answers, as errors.
  void abort();

 private:
  enum class Got : std::uint8_t { kNothing, kRefused, kRequest };

  Task<void> run();
  Task<bool> exchange();  // one request; false: no other after it
  Task<Got> read_request();
  bool refused_head();
  bool over_rate();
  bool over_token_rate(const Question& question);
  bool judge(const RateLimiter::Verdict& verdict);
  void settle(const Question& question);
  Task<bool> more();
  bool take_bytes();
  Task<bool> write(const std::string& text);
  Task<void> respond(const Reply& reply);
  Task<void> linger();

  Task<void> answer(Route route);
  Task<void> answer_of_text(Route route);
  Task<void> answer_of_sessions(Route route);
  Task<void> complete(Endpoint endpoint);
  Task<void> collect(const Question& question, Endpoint endpoint);
  Task<void> stream(const Question& question, Endpoint endpoint);
  Task<bool> on_thread(WorkThread& thread, const std::function<void()>& work);
  std::shared_ptr<AnswerPipe> ask(Question& question);
  AnswerHead answer_head(const Question& question, Endpoint endpoint);
  void note(const AnswerEvents::Piece& piece);
  std::optional<Reply> fault_of(const AnswerPipe::Taken& taken, bool one) const;
  Framing framing() const;

  void arm(double seconds);
  void disarm();
  void watch();
  Task<void> stop_watching();
  bool lost() const { return gone_ || timed_out_; }

  Socket socket_;
  Service& service_;
  boost::asio::steady_timer deadline_;
  Wakeup wakeup_;
  std::string in_;          // bytes that came and belong to no request yet
  std::uint64_t turn_ = 0;  // of the deadline: an older one's end does not count
  bool gone_ = false;       // the client is
  bool timed_out_ = false;  // a deadline has passed
  bool closing_ = false;    // no request is read any more
  bool busy_ = false;       // from a request's last byte to its reply's
  bool answering_ = false, watching_ = false;

  // --- of the request at hand ---
  std::unique_ptr<RequestReader> reader_;
  Reply refusal_;
  bool keep_alive_ = true;
  std::size_t reserved_ = 0;  // bytes of its body
  std::size_t key_ = 0;       // for the rate limit, which set aside so many tokens
  std::uint64_t reserved_tokens_ = 0;
  std::string rate_fields_;  // of its reply
  LogEntry entry_;
  std::shared_ptr<AnswerPipe> pipe_;
};

}  // namespace quire::serve
