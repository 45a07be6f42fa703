// Reads arbitrary bytes as a JSON schema: a grammar or a refusal, never a crash, a hang or more
// than the limits.  Random bytes seldom are JSON, so each is first a step of a small language that
// builds schemas; an input that begins with '{' is taken as it is.
//
//   build/fuzz/fuzz/quire_schema_fuzz -max_len=1024 -max_total_time=60

#include <cstdint>
#include <cstdlib>
#include <string>

#include "model/chat.h"

namespace {

// A schema from the bytes in front, at most so deep.
class Builder {
 public:
  Builder(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  std::string schema(int depth) {
    const std::uint8_t choice = depth > 0 ? next() : 0;
    switch (choice % 12) {
      case 1:
        return R"({"type": "object", "properties": {"a": )" + schema(depth - 1) + R"(, "b": )" +
               schema(depth - 1) + R"(}, "required": ["a"]})";
      case 2:
        return R"({"type": "array", "items": )" + schema(depth - 1) + R"(, "minItems": )" +
               number() + R"(, "maxItems": )" + number() + "}";
      case 3:
        return R"({"anyOf": [)" + schema(depth - 1) + "," + schema(depth - 1) + "]}";
      case 4:
        return R"({"$ref": "#/$defs/)" + std::string(1, letter()) + "\"}";
      case 5:
        return R"({"type": "string", "pattern": "^)" + pattern() + "$\"}";
      case 6:
        return R"({"type": "integer", "minimum": )" + number() + R"(, "maximum": )" + number() +
               "}";
      case 7:
        return R"({"allOf": [)" + schema(depth - 1) + "," + schema(depth - 1) + "]}";
      case 8:
        return R"({"enum": ["a", )" + number() + ", null]}";
      case 9:
        return R"({"type": "object", "additionalProperties": )" + schema(depth - 1) + "}";
      case 10:
        return R"({"type": ["string", "null"], "maxLength": )" + number() + "}";
      case 11:
        return R"({"type": "object", "properties": {"x": {}}, "$defs": {"a": )" +
               schema(depth - 1) + R"(, "b": )" + schema(depth - 1) + "}}";
      default:
        return R"({"type": "boolean"})";
    }
  }

 private:
  std::uint8_t next() { return at_ < size_ ? data_[at_++] : 0; }
  char letter() { return static_cast<char>('a' + next() % 3); }
  std::string number() { return std::to_string(static_cast<int>(next()) * (next() % 9 - 1)); }
  std::string pattern() {
    static constexpr char kSigns[] = "abc.*+?|()[]{}0123,-\\\\d^$";
    std::string text;
    for (int i = next() % 24; i > 0; --i) {
      const char c = kSigns[next() % (sizeof(kSigns) - 1)];
      text += c == '\\' ? "\\\\" : std::string(1, c);
    }
    return text;
  }

  const std::uint8_t* data_;
  std::size_t size_, at_ = 0;
};

void read(const std::string& schema) {
  const quire::Result<std::string> grammar = quire::model::grammar_of_schema(schema);
  if (!grammar.ok() && grammar.status().message().size() > 600) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 0 && data[0] == '{') {
    read(std::string(reinterpret_cast<const char*>(data), size));
  } else {
    read(R"({"$defs": {"a": {"type": "null"}, "b": {"$ref": "#/$defs/a"}}, "anyOf": [)" +
         Builder(data, size).schema(8) + "]}");
  }
  return 0;
}
