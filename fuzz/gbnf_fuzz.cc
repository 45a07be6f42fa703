// Reads arbitrary bytes as a grammar: a refusal, or one that libllama takes or refuses at once;
// never a crash, a hang or a flood.  Random bytes seldom are GBNF, so each is first a step of a
// small language that builds grammars; an input that begins with 'r' is taken as it is.
//
//   build/fuzz/fuzz/quire_gbnf_fuzz -max_len=1024 -max_total_time=60

#include <cstdint>
#include <string>

#include "llama-cpp.h"
#include "llama.h"
#include "model/gbnf.h"
#include "model/text.h"

namespace {

// Rules from the bytes in front: a to h, each of which may name all.
class Builder {
 public:
  Builder(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  std::string grammar() {
    std::string text = "root ::= " + alternatives(3);
    for (char rule = 'a'; rule <= 'h'; ++rule) {
      text += std::string("\n") + rule + " ::= " + alternatives(3);
    }
    return text;
  }

 private:
  std::uint8_t next() { return at_ < size_ ? data_[at_++] : 0; }
  std::string alternatives(int depth) {
    std::string text = sequence(depth);
    for (int more = next() % 3; more > 0; --more) text += " | " + sequence(depth);
    return text;
  }
  std::string sequence(int depth) {
    std::string text;
    for (int more = next() % 4; more > 0; --more) text += " " + part(depth) + times();
    return text;
  }
  std::string part(int depth) {
    switch (const std::uint8_t choice = next(); choice % 6) {
      case 0:
        return "\"x\"";
      case 1:
        return "[a-z]";
      case 2:
        return depth > 0 ? "(" + alternatives(depth - 1) + ")" : "\"y\"";
      default:
        return std::string(1, static_cast<char>('a' + choice / 6 % 8));
    }
  }
  std::string times() {
    static const char* const kTimes[] = {"", "", "", "", "?", "*", "+", "{2}", "{0,3}", "{1,}"};
    return kTimes[next() % 10];
  }

  const std::uint8_t* data_;
  std::size_t size_, at_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = size > 0 && data[0] == 'r'
                               ? std::string(reinterpret_cast<const char*>(data), size)
                               : Builder(data, size).grammar();
  const auto no_token = [](std::string_view) { return false; };
  if (!quire::model::check_gbnf(text, {}, no_token).ok()) return 0;
  quire::model::silence_libraries();
  const llama_sampler_ptr taken(llama_sampler_init_grammar(nullptr, text.c_str(), "root"));
  return 0;
}
