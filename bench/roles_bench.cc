// Labelling text, one thread: bytes a second by format, and of texts made to be slow.  Every label
// is checked against what the text was made of before it is timed.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <string>

#include "roles/roles.h"

namespace quire::roles {
namespace {

constexpr std::size_t kBytes = 4 << 20;

struct Made {
  std::string text;
  std::size_t values = 0;  // bytes of them
};

std::string word(std::mt19937& random) {
  std::string made;
  for (std::size_t i = 4 + random() % 13; i > 0; --i) {
    made += "abcdefghijklmnopqrstuvwxyz0123456789"[random() % 36];
  }
  return made;
}

// Records of six members or fields, of words.
Made records(const char* begin, const char* between, const char* end, bool keys, bool quotes) {
  std::mt19937 random(1);
  Made made;
  while (made.text.size() < kBytes) {
    made.text += begin;
    for (int i = 0; i < 6; ++i) {
      if (keys) made.text += "\"word_" + std::to_string(10 + random() % 90) + "\": ";
      const std::string value = quotes ? '"' + word(random) + '"' : word(random);
      made.values += value.size();
      made.text += value + (i < 5 ? between : end);
    }
  }
  return made;
}

Made xml() {
  std::mt19937 random(1);
  Made made{.text = "<all>\n"};
  while (made.text.size() < kBytes) {
    const std::string name = "word_" + std::to_string(10 + random() % 90), value = word(random);
    made.text += "  <" + name + ">" + value + "</" + name + ">\n";
    made.values += value.size();
  }
  made.text += "</all>";
  return made;
}

Made prose() {
  std::mt19937 random(1);
  Made made;
  while (made.text.size() < kBytes) {
    made.text += word(random) + (random() % 9 == 0 ? ", " : random() % 12 == 0 ? ".\n" : " ");
  }
  return made;
}

Made repeated(std::string_view piece) {
  Made made;
  while (made.text.size() < kBytes) made.text += piece;
  return made;
}

void label(benchmark::State& state, const Made& made, bool check) {
  const std::vector<Role> roles = label_text(made.text);
  if (check && static_cast<std::size_t>(std::ranges::count(roles, Role::kValue)) != made.values) {
    return state.SkipWithError("the labels are wrong");
  }
  for (auto _ : state) benchmark::DoNotOptimize(label_text(made.text));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(made.text.size()));
}

#define QUIRE_LABEL(name, made, check) \
  void name(benchmark::State& state) { \
    static const Made text = made;     \
    label(state, text, check);         \
  }                                    \
  BENCHMARK(name)->Unit(benchmark::kMillisecond)

QUIRE_LABEL(JsonIndented, records("{\n  ", ",\n  ", "\n}\n", true, true), true);
QUIRE_LABEL(JsonCompact, records("{", ",", "}\n", true, true), true);
QUIRE_LABEL(JsonArrays, records("[", ",", "]\n", false, true), true);
QUIRE_LABEL(Xml, xml(), true);
QUIRE_LABEL(Table, ([] {
              Made made = records("| ", " | ", " |\n", false, false);
              made.text = "|a|b|c|d|e|f|\n|-|-|-|-|-|-|\n" + made.text;
              return made;
            }()),
            true);
QUIRE_LABEL(Rows, ([] {
              Made made = records("", ",", "\n", false, false);
              made.text = "a,b,c,d,e,f\n" + made.text;
              return made;
            }()),
            true);
QUIRE_LABEL(Prose, prose(), true);
// Made to be slow: what opens and never closes, breaks at once, or looks like the beginning of all.
QUIRE_LABEL(HostileBrackets, repeated("["), false);
QUIRE_LABEL(HostileBraces, repeated("{\""), false);
QUIRE_LABEL(HostileObjects, repeated("{}"), false);
QUIRE_LABEL(HostileNames, repeated("{\"a\":"), false);
QUIRE_LABEL(HostileTags, repeated("\n<a b=\""), false);
QUIRE_LABEL(HostileNested, repeated("<a>"), false);
QUIRE_LABEL(HostileBars, repeated("|\n"), false);
QUIRE_LABEL(HostileQuotes, repeated("\",\",\n"), false);
QUIRE_LABEL(HostileFences, repeated("```a\n~~~b\n"), false);
QUIRE_LABEL(HostileBlanks, repeated("{      \t     \n"), false);

}  // namespace
}  // namespace quire::roles

BENCHMARK_MAIN();
