// What every program's JSON says alike: the kv object and errors.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/generate.h"
#include "quire/status.h"

namespace quire::serve {

// The kv object, one schema for run, batch and server.
nlohmann::ordered_json kv_json(const engine::KvReport& kv);
// {message, type, code, param}; `param`: the field that the refusal names, "" for none.
nlohmann::ordered_json error_object(const Status& status, const std::string& param = {});
// {quire_json: 1, error: {message, type, code, param}}
nlohmann::ordered_json error_json(const Status& status);
// One line of valid UTF-8, whatever bytes the strings hold.
std::string dump(const nlohmann::ordered_json& json);

}  // namespace quire::serve
