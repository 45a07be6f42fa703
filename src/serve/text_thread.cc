#include "serve/text_thread.h"

namespace quire::serve {

TextThread::TextThread(std::size_t most) : works_(most), thread_([this] { loop(); }) {}

TextThread::~TextThread() {
  works_.close();
  thread_.join();
}

void TextThread::loop() {
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
