// Lines are found first and read when their turn comes, so that a large file is not held in memory.

#include "cli/batch_input.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_map>

namespace quire::cli {
namespace {

using json = serve::Json;

constexpr std::size_t kLineMost = std::size_t{16} << 20;
constexpr std::size_t kIdMost = 512;

Status refuse(std::size_t number, const std::string& why) {
  return {Code::kInvalidArgument, "line " + std::to_string(number) + ": " + why};
}

Status cannot_read(const std::string& path) {
  return {Code::kIo, "cannot read " + path + ": " + std::strerror(errno)};
}

// Why the object is no custom_id; empty: it is one.
std::string fault_of_id(const json& object) {
  if (!object.is_object()) return "not an object";
  const auto id = object.find("custom_id");
  if (id == object.end()) return "custom_id: missing";
  if (!id->is_string()) return "custom_id: not a string";
  const std::string& text = id->get_ref<const std::string&>();
  if (text.empty()) return "custom_id: empty";
  return text.size() > kIdMost ? "custom_id: over " + std::to_string(kIdMost) + " bytes"
                               : std::string();
}

}  // namespace

Result<BatchInput> BatchInput::open(const std::string& path) {
  BatchInput input;
  input.path_ = path;
  input.file_.open(path, std::ios::binary);
  if (!input.file_.is_open()) return cannot_read(path);
  std::vector<Line> found;
  std::streamoff at = 0;
  std::size_t bytes = 0, number = 1;
  bool blank = true;
  const auto end_line = [&](std::size_t terminator) {
    if (!blank) found.push_back({number, at, bytes, {}});
    at += static_cast<std::streamoff>(bytes + terminator);
    bytes = 0;
    ++number;
    blank = true;
  };
  std::vector<char> buffer(std::size_t{1} << 16);
  while (input.file_) {
    input.file_.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    for (std::streamsize i = 0; i < input.file_.gcount(); ++i) {
      const char c = buffer[static_cast<std::size_t>(i)];
      if (c == '\n') {
        end_line(1);
        continue;
      }
      ++bytes;
      blank = blank && (c == ' ' || c == '\t' || c == '\r');
    }
  }
  if (input.file_.bad()) return cannot_read(path);
  end_line(0);

  std::unordered_map<std::string, std::size_t> seen;
  for (Line& line : found) {
    const Result<json> object = input.parse(line);
    if (!object.ok() && object.status().code() == Code::kIo) return object.status();
    if (!object.ok() || !fault_of_id(*object).empty()) continue;
    line.custom_id = (*object)["custom_id"].get<std::string>();
    const auto [first, fresh] = seen.emplace(line.custom_id, line.number);
    if (fresh) continue;
    return Status(Code::kInvalidArgument, path + ": custom_id " + json(line.custom_id).dump() +
                                              " is in line " + std::to_string(first->second) +
                                              " and in line " + std::to_string(line.number));
  }
  input.lines_ = std::move(found);
  return input;
}

Result<json> BatchInput::parse(const Line& line) {
  if (line.bytes > kLineMost) {
    return refuse(line.number, std::to_string(line.bytes) + " bytes, over the limit of " +
                                   std::to_string(kLineMost));
  }
  std::string text(line.bytes, ' ');
  file_.clear();
  file_.seekg(line.begin);
  file_.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file_.gcount() != static_cast<std::streamsize>(text.size())) return cannot_read(path_);
  Result<json> object = serve::parse_json(text, kLineMost);
  if (!object.ok()) return refuse(line.number, object.status().message());
  return object;
}

Result<BatchLine> BatchInput::read(std::size_t i) {
  const Line& line = lines_[i];
  Result<json> parsed = parse(line);
  if (!parsed.ok()) return parsed.status();
  json& object = *parsed;
  if (const std::string fault = fault_of_id(object); !fault.empty()) {
    return refuse(line.number, fault);
  }
  for (const auto& [key, unused] : object.items()) {
    const char* const known[] = {"custom_id", "method", "url", "body"};
    if (std::ranges::find(known, key) == std::end(known)) {
      return refuse(line.number, key.substr(0, 60) + ": not supported");
    }
  }
  if (object.value("method", json()) != "POST") return refuse(line.number, "method: not \"POST\"");
  BatchLine request{.custom_id = object["custom_id"].get<std::string>()};
  const json url = object.value("url", json());
  if (url == "/v1/completions") {
    request.endpoint = serve::Endpoint::kCompletions;
  } else if (url != "/v1/chat/completions") {
    return refuse(line.number, "url: neither /v1/chat/completions nor /v1/completions");
  }
  if (!object.contains("body")) return refuse(line.number, "body: missing");
  request.body = std::move(object["body"]);
  return request;
}

}  // namespace quire::cli
