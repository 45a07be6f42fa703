// Calls into llama-chat that cannot take the process with them.
#pragma once

#ifdef QUIRE_LLAMA_CHAT

#include <cstdint>
#include <functional>
#include <string>

#include "quire/status.h"

namespace quire::model {

// See limits.h in tools/llama_chat/limits.patch.
struct Effort {
  std::uint64_t steps = 3'000'000;  // about 0.5 s; a real template opens in 10 ms
  std::uint64_t bytes = 1u << 30;
  double seconds = 10;
  static Effort for_input(std::size_t bytes) {
    return {1'000'000 + 100 * bytes, (std::size_t{64} << 20) + 200 * bytes, 10};
  }
};

// Runs the work on a thread with a large stack: what it builds may be nested deeply, and is taken
// apart by recursion.  kInvalidArgument: "WHAT: why" of a limit or an exception; kOutOfMemory.
Status bounded(const std::string& what, const Effort& effort, const std::function<void()>& work);

// Likewise on the caller's stack, 1 MiB of it at most: for work that leaves nothing nested behind.
Status bounded_here(const std::string& what, const Effort& effort,
                    const std::function<void()>& work);

}  // namespace quire::model

#endif  // QUIRE_LLAMA_CHAT
