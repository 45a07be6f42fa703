// The file that `quire train gate` writes: how a gate judges prompts of one model.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "engine/gate.h"

namespace quire::cli {

struct GateFile {
  engine::GateCalibration calibration{};
  std::string model, fingerprint;  // its name; of the bytes of its file
  std::uint32_t prompts = 0;
  std::string texts, texts_sha256;  // what they were made of
};

nlohmann::ordered_json gate_file_json(const GateFile& file);
// kInvalidArgument names `source` and the field.
Result<GateFile> parse_gate_file(std::string_view text, const std::string& source);
// Of the model at `model_path`: another's is kInvalidArgument.
Result<GateFile> read_gate_file(const std::string& path, const std::string& model_path);

}  // namespace quire::cli
