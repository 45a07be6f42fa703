#include "quire/check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace quire {
namespace {

// The only line the library ever prints: the process ends with it, so nobody else can report it.
void print_and_abort(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: QUIRE_CHECK failed: %s\n", file, line, condition);
  std::abort();
}

std::atomic<CheckHook> hook{&print_and_abort};

}  // namespace

void set_check_hook(CheckHook replacement) {
  hook.store(replacement == nullptr ? &print_and_abort : replacement);
}

void check_failed(const char* condition, const char* file, int line) {
  hook.load()(condition, file, line);
  std::abort();  // a hook must not return; one that does ends the process all the same
}

}  // namespace quire
