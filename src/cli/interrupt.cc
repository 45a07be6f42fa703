// The signal handler touches lock-free atomics, write() and _exit() alone: all that is allowed.

#include "cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include "cli/cli.h"

namespace quire::cli {
namespace {

std::atomic<bool> g_cancel{false};
std::atomic<bool> g_answering{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_interrupt(int) {
  if (g_answering.load() && !g_cancel.exchange(true)) return;
  constexpr char kNewLine = '\n';
  static_cast<void>(write(STDERR_FILENO, &kNewLine, 1) == 1);
  _exit(kExitInterrupted);
}

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

Answering::Answering() {
  g_cancel = false;
  g_answering = true;
}

Answering::~Answering() {
  g_answering = false;
}

const std::atomic<bool>* Answering::cancel() const {
  return &g_cancel;
}

}  // namespace quire::cli
