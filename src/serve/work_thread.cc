#include "serve/work_thread.h"

namespace quire::serve {

WorkThread::WorkThread(std::size_t most) : works_(most), thread_([this] { loop(); }) {}

WorkThread::~WorkThread() {
  works_.close();
  thread_.join();
}

void WorkThread::loop() {
  while (true) {
    for (std::function<void()>& work : works_.take(true)) {
      if (works_.closed()) return;
      work();
      work = nullptr;  // and what it holds, before the next
    }
    if (works_.closed()) return;
  }
}

}  // namespace quire::serve
