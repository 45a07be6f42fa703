// Wakes a coroutine that waits.  Of one thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <utility>

namespace quire::serve {

class Wakeup {
 public:
  explicit Wakeup(const boost::asio::any_io_executor& executor) : timer_(executor) {}

  void raise() {
    raised_ = true;
    timer_.cancel();
  }

  // False: nobody raised it for so many seconds.
  boost::asio::awaitable<bool> wait(double seconds) {
    if (!raised_) {
      timer_.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
          std::chrono::duration<double>(seconds)));
      boost::system::error_code ignored;
      co_await timer_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, ignored));
    }
    co_return std::exchange(raised_, false);
  }

 private:
  boost::asio::steady_timer timer_;
  bool raised_ = false;
};

}  // namespace quire::serve
