// Reports of an answer.

#include "cli/report.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>

#include "cli/terminal.h"

namespace quire::cli {
namespace {

using json = nlohmann::ordered_json;

const char* finish_reason(engine::Finish finish) {
  switch (finish) {
    case engine::Finish::kStop:
      return "stop";
    case engine::Finish::kLength:
      return "length";
    case engine::Finish::kCancelled:
      return "cancelled";
    case engine::Finish::kError:
      return "error";
  }
  return "";
}

}  // namespace

json answer_json(const engine::Answer& answer, const model::ModelInfo& info) {
  json object = {{"quire_json", 1},
                 {"text", answer.text},
                 {"finish_reason", finish_reason(answer.finish)},
                 {"prompt_tokens", answer.prompt_tokens},
                 {"completion_tokens", answer.completion_tokens},
                 {"prefill_tok_s", prefill_tokens_per_second(answer)},
                 {"decode_tok_s", decode_tokens_per_second(answer)},
                 {"ttft_ms", answer.first_token_seconds * 1000},
                 {"rss_peak_bytes", peak_rss_bytes()},
                 {"weights_bytes", info.weights_bytes},
                 {"copies_bytes", info.copies_bytes},
                 {"kv", kv_json(answer.kv)}};
  if (answer.finish == engine::Finish::kError) object["error"] = serve::error_object(answer.error);
  return object;
}

double prefill_tokens_per_second(const engine::Answer& answer) {
  return answer.prefill_seconds > 0 ? answer.prompt_tokens / answer.prefill_seconds : 0;
}

// The first token comes with the prompt's last row; the others are what decoding took.
double decode_tokens_per_second(const engine::Answer& answer) {
  if (answer.completion_tokens < 2 || answer.decode_seconds <= 0) return 0;
  return (answer.completion_tokens - 1) / answer.decode_seconds;
}

std::size_t peak_rss_bytes() {
  std::ifstream file("/proc/self/status");
  for (std::string key; file >> key;) {
    std::size_t kibibytes = 0;
    if (key == "VmHWM:" && file >> kibibytes) return kibibytes * 1024;
    file.ignore(256, '\n');
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

std::string summary(const engine::Answer& answer) {
  const engine::KvReport& kv = answer.kv;
  std::string text = "prompt " + grouped(answer.prompt_tokens) + " tokens, " +
                     number(prefill_tokens_per_second(answer), 1) + " tok/s | answer " +
                     grouped(answer.completion_tokens) + " tokens, " +
                     number(decode_tokens_per_second(answer), 1) + " tok/s | first token " +
                     number(answer.first_token_seconds, 2) + " s | " +
                     finish_reason(answer.finish) + "\n";
  text += "KV " + kv.type + ": now " + readable_bytes(static_cast<double>(kv.bytes_now)) +
          ", peak " + readable_bytes(static_cast<double>(kv.bytes_peak)) + ", budget " +
          readable_bytes(static_cast<double>(kv.pool_bytes));
  if (kv.policy == "none") {
    text += " | exact: all " + grouped(kv.tokens_seen) + " tokens kept, 0 dropped";
  } else {
    const double kept = kv.tokens_kept_mean;
    text += " | " + kv.policy + ", keep " + kv.keep + ": " + number(kept, 1) + " of " +
            grouped(kv.tokens_seen) + " tokens kept, " + number(kv.tokens_seen - kept, 1) +
            " dropped (mean over lanes)";
    if (kv.prefill == engine::Prefill::kStreamed) text += ", prompt streamed";
    const engine::GateReport& gate = kv.gate;
    if (gate.reason != engine::kNoGate) {
      text += std::string(", gate ") + name_of(gate.decision) + " (" + gate.reason;
      if (gate.judged) {
        const bool z = gate.judged->mode == engine::GateMode::kZ;
        text += ": " + gate.judged->by + (z ? " z " : " ") + number(gate.judged->score, 3) +
                ", threshold " + number(gate.judged->threshold, 3);
      }
      text += ")";
    }
  }
  return text + "\n";
}

}  // namespace quire::cli
