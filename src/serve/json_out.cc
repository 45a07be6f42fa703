#include "serve/json_out.h"

#include <algorithm>

namespace quire::serve {

using json = nlohmann::ordered_json;

namespace {

json text_or_null(const std::string& text) {
  return text.empty() ? json(nullptr) : json(text);
}

json gate_json(const engine::GateReport& gate) {
  json object = {{"decision", name_of(gate.decision)},
                 {"reason", gate.reason},
                 {"statistic", nullptr},
                 {"mode", nullptr},
                 {"threshold", nullptr},
                 {"value", nullptr},
                 {"score", nullptr},
                 {"seconds", gate.seconds}};
  if (!gate.judged) return object;
  object["statistic"] = gate.judged->by;
  object["mode"] = name_of(gate.judged->mode);
  object["threshold"] = gate.judged->threshold;
  object["value"] = gate.judged->value;
  object["score"] = gate.judged->score;
  return object;
}

}  // namespace

json kv_json(const engine::KvReport& kv) {
  return {{"mode", kv.policy == "none" ? "exact" : "lossy"},
          {"lossy", kv.lossy},
          {"policy", kv.policy},
          {"type", kv.type},
          {"prefill", kv.prefill == engine::Prefill::kWhole ? "whole" : "streamed"},
          {"pool_bytes", kv.pool_bytes},
          {"keep", kv.keep},
          {"bytes_now", kv.bytes_now},
          {"bytes_peak", kv.bytes_peak},
          {"bytes_shared", kv.bytes_shared},
          {"tokens_seen", kv.tokens_seen},
          {"tokens_kept_mean", kv.tokens_kept_mean},
          {"tokens_kept_min", kv.tokens_kept_min},
          {"entries_dropped", kv.entries_dropped},
          {"entries_quantized", 0},
          {"gate", gate_json(kv.gate)},
          {"cached_tokens", kv.cached_tokens},
          {"cache_miss_reason", text_or_null(kv.cache_miss_reason)},
          {"preemptions", kv.preemptions},
          {"restarted", kv.restarted},
          {"truncated_tokens", 0}};
}

json error_object(const Status& status, const std::string& param) {
  std::string code = name_of(status.code());
  std::ranges::replace(code, ' ', '_');
  return {{"message", status.message()},
          {"type", status.code() == Code::kInvalidArgument ? "invalid_request_error" : "error"},
          {"code", code},
          {"param", text_or_null(param)}};
}

json error_json(const Status& status) {
  return {{"quire_json", 1}, {"error", error_object(status)}};
}

std::string dump(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace quire::serve
