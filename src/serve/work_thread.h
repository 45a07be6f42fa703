// A thread for work that takes long, so that it holds up no connection: one for texts (JSON,
// templates, tokens), one for the files of sessions.
#pragma once

#include <functional>
#include <thread>

#include "serve/mailbox.h"

namespace quire::serve {

class WorkThread {
 public:
  explicit WorkThread(std::size_t most);
  ~WorkThread();  // what waits is not done any more
  // In order, one at a time.  False: too many wait.
  bool run(std::function<void()> work) { return works_.push(std::move(work)); }

 private:
  void loop();

  Mailbox<std::function<void()>> works_;
  std::thread thread_;
};

}  // namespace quire::serve
