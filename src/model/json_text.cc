#include "model/json_text.h"

#include <algorithm>
#include <array>

namespace quire::model {
namespace {

constexpr std::size_t kBriefBytes = 300;

}  // namespace

JsonEffort json_effort(std::string_view text) {
  JsonEffort effort;
  std::size_t depth = 0;
  std::array<std::size_t, kMaxJsonDepth + 1> members{};  // [depth]
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      effort.depth = std::max(effort.depth, ++depth);
      if (depth < members.size()) members[depth] = 0;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    } else if (c == ':' && depth < members.size()) {
      effort.looks += members[depth]++;
    }
  }
  return effort;
}

Result<Json> read_json(std::string_view text, const std::string& field, std::size_t most_bytes) {
  const auto refuse = [&](const std::string& why) {
    return Status(Code::kInvalidArgument, field + ": " + why);
  };
  if (text.size() > most_bytes) {
    return refuse(std::to_string(text.size()) + " bytes; at most " + std::to_string(most_bytes));
  }
  const JsonEffort effort = json_effort(text);
  if (effort.depth > kMaxJsonDepth) {
    return refuse("nested more than " + std::to_string(kMaxJsonDepth) + " deep");
  }
  if (effort.looks > kMaxJsonLooks) return refuse("objects of too many members");
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return refuse("not JSON");
  return json;
}

std::string brief(std::string_view text) {
  std::string line(text.substr(0, kBriefBytes));
  std::size_t cut = line.size();
  if (text.size() > line.size()) {  // not inside a letter
    while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
    line.resize(cut);
  }
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  const std::size_t first = line.find_first_not_of(' ');
  if (first == std::string::npos) return {};
  line = line.substr(first, line.find_last_not_of(' ') - first + 1);
  return text.size() > kBriefBytes ? line + " ..." : line;
}

}  // namespace quire::model
