#include "cli/gate_file.h"

#include <cmath>

#include "cli/run_flags.h"
#include "eval/log.h"

namespace quire::cli {
namespace {

using json = nlohmann::ordered_json;

// The fields of one file; the first fault is kept.
class Fields {
 public:
  Fields(const json& object, std::string source) : object_(object), source_(std::move(source)) {}

  void fault(const std::string& text) {
    if (status_.ok()) status_ = {Code::kInvalidArgument, source_ + ": " + text};
  }
  const json* find(const char* name) {
    const auto found = object_.find(name);
    if (found != object_.end()) return &*found;
    fault(std::string(name) + " is missing");
    return nullptr;
  }
  std::string text(const char* name) {
    const json* value = find(name);
    if (value == nullptr) return {};
    if (value->is_string()) return value->get<std::string>();
    fault(std::string(name) + " is " + value->dump() + ", no text");
    return {};
  }
  double number(const char* name) {
    const json* value = find(name);
    if (value == nullptr) return 0;
    if (value->is_number() && std::isfinite(value->get<double>())) return value->get<double>();
    fault(std::string(name) + " is " + value->dump() + ", no number");
    return 0;
  }
  // One of the names that `parse` knows.
  template <typename Parse, typename Value>
  void named(const char* name, Parse parse, Value& value) {
    const std::string given = text(name);
    const std::optional<Value> known = parse(given);
    if (known) value = *known;
    if (!known) fault(std::string(name) + " is \"" + given.substr(0, 60) + "\", which is unknown");
  }
  const Status& status() const { return status_; }

 private:
  const json& object_;
  const std::string source_;
  Status status_;
};

}  // namespace

json gate_file_json(const GateFile& file) {
  const engine::GateCalibration& by = file.calibration;
  return {{"quire_json", 1},
          {"file", "gate"},
          {"model", file.model},
          {"fingerprint", file.fingerprint},
          {"statistic", info_of(by.statistic).name},
          {"rows", kGateRows},
          {"mode", name_of(by.mode)},
          {"threshold", by.threshold},
          {"mean", by.mean},
          {"deviation", by.deviation},
          {"prompts", file.prompts},
          {"texts", file.texts},
          {"texts_sha256", file.texts_sha256}};
}

Result<GateFile> parse_gate_file(std::string_view text, const std::string& source) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) {
    return Status(Code::kInvalidArgument, source + ": is not an object of quire train gate");
  }
  Fields fields(object, source);
  if (fields.number("quire_json") != 1) fields.fault("quire_json: this version reads 1");
  if (fields.text("file") != "gate") fields.fault("file is not \"gate\"");
  if (fields.number("rows") != kGateRows) {
    fields.fault("rows: this version judges by " + std::to_string(kGateRows));
  }
  GateFile file{.model = fields.text("model"), .fingerprint = fields.text("fingerprint")};
  engine::GateCalibration& by = file.calibration;
  fields.named("statistic", parse_statistic, by.statistic);
  fields.named("mode", engine::parse_gate_mode, by.mode);
  by.threshold = fields.number("threshold");
  by.mean = fields.number("mean");
  by.deviation = fields.number("deviation");
  if (by.mode == engine::GateMode::kZ && !(by.deviation > 0))
    fields.fault("deviation: not above 0");
  if (by.mode == engine::GateMode::kSigned && by.deviation == 0) fields.fault("deviation: is 0");
  const double prompts = fields.number("prompts");
  if (!(prompts >= 0 && prompts <= 1e9)) fields.fault("prompts: not from 0 to 1e9");
  if (!fields.status().ok()) return fields.status();
  file.prompts = static_cast<std::uint32_t>(prompts);
  file.texts = object.value("texts", "");
  file.texts_sha256 = object.value("texts_sha256", "");
  return file;
}

Result<GateFile> read_gate_file(const std::string& path, const std::string& model_path) {
  const Result<std::string> text = read_text(path);
  if (!text.ok()) return text.status();
  Result<GateFile> file = parse_gate_file(*text, path);
  if (!file.ok()) return file;
  const Result<std::string> fingerprint = eval::file_fingerprint(model_path);
  if (!fingerprint.ok()) return fingerprint.status();
  if (*fingerprint == file->fingerprint) return file;
  return Status(Code::kInvalidArgument, path + ": was made for the model " + file->model +
                                            " (fingerprint " + file->fingerprint +
                                            "), this one's is " + *fingerprint +
                                            "; `quire train gate` makes one for it");
}

}  // namespace quire::cli
