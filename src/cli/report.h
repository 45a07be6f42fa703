// What an answer says about itself: as JSON, and as two lines for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/generate.h"
#include "model/model.h"

namespace quire::cli {

// The kv object, one schema for run, batch and server.
nlohmann::ordered_json kv_json(const engine::KvReport& kv);
// `run --json`: {quire_json: 1, text, prompt_tokens, ...}.
nlohmann::ordered_json answer_json(const engine::Answer& answer, const model::ModelInfo& info);
// {quire_json: 1, error: {message, type, code, param}}
nlohmann::ordered_json error_json(const Status& status);
// One line of valid UTF-8, whatever bytes the strings hold.
std::string dump(const nlohmann::ordered_json& json);

// Speed; then bytes and tokens of the cache.
std::string summary(const engine::Answer& answer);

double prefill_tokens_per_second(const engine::Answer& answer);
double decode_tokens_per_second(const engine::Answer& answer);
// The most memory the process ever held, as the kernel counts it.
std::size_t peak_rss_bytes();

}  // namespace quire::cli
