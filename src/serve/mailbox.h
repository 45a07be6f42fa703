// A bounded queue from several threads to one.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

namespace quire::serve {

template <typename T>
class Mailbox {
 public:
  explicit Mailbox(std::size_t most) : most_(most) {}

  // False: it is full, or closed.
  bool push(T item) {
    {
      const std::scoped_lock lock(mutex_);
      if (closed_ || items_.size() >= most_) return false;
      items_.push_back(std::move(item));
    }
    came_.notify_one();
    return true;
  }

  // All there is, in order; with `wait`, not before there is something or it is closed.
  std::vector<T> take(bool wait) {
    std::unique_lock lock(mutex_);
    if (wait) came_.wait(lock, [this] { return closed_ || !items_.empty(); });
    std::vector<T> all(std::make_move_iterator(items_.begin()),
                       std::make_move_iterator(items_.end()));
    items_.clear();
    return all;
  }

  void close() {
    {
      const std::scoped_lock lock(mutex_);
      closed_ = true;
    }
    came_.notify_all();
  }

  bool closed() const {
    const std::scoped_lock lock(mutex_);
    return closed_;
  }

 private:
  const std::size_t most_;
  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::deque<T> items_;
  bool closed_ = false;
};

}  // namespace quire::serve
