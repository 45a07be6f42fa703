// A bug is a QUIRE_CHECK: on in release, through a replaceable hook.  An expected refusal is a
// Status (quire/status.h).  If a test can provoke it through the public interface, it is a Status.
#pragma once

namespace quire {

// Called with the text of the failed condition; must not return.  The default prints one line to
// stderr and aborts.
using CheckHook = void (*)(const char* condition, const char* file, int line);

void set_check_hook(CheckHook hook);

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace quire

#define QUIRE_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::quire::check_failed(#condition, __FILE__, __LINE__))
