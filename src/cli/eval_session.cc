#include "cli/eval_session.h"

#include "cli/cli.h"
#include "cli/terminal.h"

namespace quire::cli {

Result<Engine> open_eval_engine(EngineFlags flags) {
  flags.deterministic = true;
  flags.budget = "64MiB";
  return open_engine(flags);
}

int eval_failed(const Status& status, bool json, const std::string& advice) {
  const std::string message = status.message() + advice;
  complain(message);
  if (json) std::puts(dump(error_json({status.code(), message})).c_str());
  return status.code() == Code::kCancelled ? kExitInterrupted : kExitFailed;
}

}  // namespace quire::cli
