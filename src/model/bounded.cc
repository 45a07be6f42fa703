#ifdef QUIRE_LLAMA_CHAT

#include "model/bounded.h"

#include <llama-chat/jinja/limits.h>
#include <pthread.h>

#include <exception>
#include <new>

#include "model/json_text.h"

namespace quire::model {
namespace {

// A value takes some 200 bytes, and taking one apart some 300 of the stack: the values alive at
// once fit the stack as one chain.
constexpr std::int64_t kMaxValues = 200'000;
constexpr std::size_t kStackBytes = std::size_t{256} << 20;  // mapped, not used
constexpr std::size_t kCallBytes = std::size_t{64} << 20;    // of it, for calls
constexpr std::size_t kHereBytes = std::size_t{1} << 20;

// Errors of the template engine end in the reason; before it they quote the template.
std::string reason(std::string_view text) {
  for (const std::string_view mark : {"Jinja Exception: ", "Error: "}) {
    if (const std::size_t at = text.rfind(mark); at != std::string_view::npos) {
      return brief(text.substr(at + mark.size()));
    }
  }
  return brief(text);
}

Status attempt(const std::string& what, const Effort& effort, std::size_t stack_bytes,
               const std::function<void()>& work) {
  namespace limits = jinja::limits;
  limits::budget budget;
  budget.steps = effort.steps;
  budget.bytes = effort.bytes;
  budget.values = kMaxValues;
  budget.deadline = std::chrono::steady_clock::now() +
                    std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                        std::chrono::duration<double>(effort.seconds));
  budget.stack_floor = static_cast<const char*>(__builtin_frame_address(0)) - stack_bytes;
  struct Scope {
    explicit Scope(limits::budget* mine) : outer(limits::current) { limits::current = mine; }
    ~Scope() { limits::current = outer; }
    limits::budget* outer;
  } scope(&budget);
  Status status;
  try {
    work();
  } catch (const std::bad_alloc&) {
    status = Status(Code::kOutOfMemory, what + ": no memory");
  } catch (const std::exception& error) {
    status = Status(Code::kInvalidArgument, what + ": " + reason(error.what()));
  }
  // Some of the library's code swallows the exception: what came out of it is not complete.
  if (budget.broken != nullptr) {
    status = Status(Code::kInvalidArgument, what + ": " + budget.broken);
  }
  return status;
}

struct Call {
  const std::string& what;
  const Effort& effort;
  const std::function<void()>& work;
  Status status{};
};

void* run(void* argument) {
  Call& call = *static_cast<Call*>(argument);
  call.status = attempt(call.what, call.effort, kCallBytes, call.work);
  return nullptr;
}

}  // namespace

Status bounded(const std::string& what, const Effort& effort, const std::function<void()>& work) {
  Call call{what, effort, work};
  pthread_attr_t attributes;
  pthread_t thread;
  const bool made = pthread_attr_init(&attributes) == 0 &&
                    pthread_attr_setstacksize(&attributes, kStackBytes) == 0 &&
                    pthread_create(&thread, &attributes, run, &call) == 0;
  pthread_attr_destroy(&attributes);
  if (!made) return {Code::kOutOfMemory, what + ": no thread can be started"};
  pthread_join(thread, nullptr);
  return call.status;
}

Status bounded_here(const std::string& what, const Effort& effort,
                    const std::function<void()>& work) {
  return attempt(what, effort, kHereBytes, work);
}

}  // namespace quire::model

#endif  // QUIRE_LLAMA_CHAT
