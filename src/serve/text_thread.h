// A thread for work on texts (JSON, templates, tokens), so that no long prompt holds up the
// connections of others.
#pragma once

#include <functional>
#include <thread>

#include "serve/mailbox.h"

namespace quire::serve {

class TextThread {
 public:
  explicit TextThread(std::size_t most);
  ~TextThread();  // what waits is not done any more
  // In order, one at a time.  False: too many wait.
  bool run(std::function<void()> work) { return works_.push(std::move(work)); }

 private:
  void loop();

  Mailbox<std::function<void()>> works_;
  std::thread thread_;
};

}  // namespace quire::serve
