// What an answer says about itself: as JSON, and as two lines for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/generate.h"
#include "model/model.h"
#include "serve/json_out.h"

namespace quire::cli {

using serve::dump;
using serve::error_json;
using serve::kv_json;

// `run --json`: {quire_json: 1, text, prompt_tokens, ...}.
nlohmann::ordered_json answer_json(const engine::Answer& answer, const model::ModelInfo& info);

// Speed; then bytes and tokens of the cache.
std::string summary(const engine::Answer& answer);

double prefill_tokens_per_second(const engine::Answer& answer);
double decode_tokens_per_second(const engine::Answer& answer);
// The most memory the process ever held, as the kernel counts it.
std::size_t peak_rss_bytes();

}  // namespace quire::cli
