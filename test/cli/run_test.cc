// Goal: `quire run` and `quire inspect` answer, report and refuse as documented.
// Method: the built program on a small random model written by the test; JSON is checked key by
// key against its schema.

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace quire {
namespace {

using nlohmann::json;
using test::contains;
using test::Program;
using test::quire;
using test::Ran;
using test::tiny_model;

// The arguments of a greedy run that never stops by itself.
std::vector<std::string> greedy(std::vector<std::string> more,
                                const std::string& model = tiny_model()) {
  std::vector<std::string> all = {"run",       "-m", model,   "--temp", "0", "--ignore-eos",
                                  "--threads", "1",  "--raw", "-n",     "24"};
  for (auto& argument : more) {
    if (argument == "-n") all.resize(all.size() - 2);
  }
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::string letters(std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += static_cast<char>('a' + (i * i + i / 7) % 26);
  return text;
}

json parsed(const Ran& ran) {
  EXPECT_EQ(ran.out.find('\n'), ran.out.size() - 1) << "one line";
  json object = json::parse(ran.out, nullptr, false);
  EXPECT_FALSE(object.is_discarded()) << ran.out << ran.err;
  return object;
}

// Every key of `schema` is there with its kind, and no other key.
void expect_schema(const json& object, const std::vector<std::pair<const char*, char>>& schema) {
  for (const auto& [key, kind] : schema) {
    ASSERT_TRUE(object.contains(key)) << key;
    const json& value = object.at(key);
    const bool fits = kind == 's'   ? value.is_string()
                      : kind == 'i' ? value.is_number_integer() && value >= 0
                      : kind == 'f' ? value.is_number() && value >= 0
                      : kind == 'b' ? value.is_boolean()
                      : kind == 'o' ? value.is_object()
                                    : value.is_null();
    EXPECT_TRUE(fits) << key << " = " << value;
  }
  EXPECT_EQ(object.size(), schema.size()) << object.dump();
}

TEST(RunJson, HasTheDocumentedSchema) {
  const Ran ran = quire(greedy({"--json", "-p", letters(200), "--policy", "h2o", "--keep", "50%"}));
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json object = parsed(ran);
  expect_schema(object, {{"quire_json", 'i'},
                         {"text", 's'},
                         {"finish_reason", 's'},
                         {"prompt_tokens", 'i'},
                         {"completion_tokens", 'i'},
                         {"prefill_tok_s", 'f'},
                         {"decode_tok_s", 'f'},
                         {"ttft_ms", 'f'},
                         {"rss_peak_bytes", 'i'},
                         {"weights_bytes", 'i'},
                         {"copies_bytes", 'i'},
                         {"kv", 'o'}});
  expect_schema(object["kv"], {{"mode", 's'},
                               {"lossy", 'b'},
                               {"policy", 's'},
                               {"type", 's'},
                               {"prefill", 's'},
                               {"pool_bytes", 'i'},
                               {"keep", 's'},
                               {"bytes_now", 'i'},
                               {"bytes_peak", 'i'},
                               {"bytes_shared", 'i'},
                               {"tokens_seen", 'i'},
                               {"tokens_kept_mean", 'f'},
                               {"tokens_kept_min", 'i'},
                               {"entries_dropped", 'i'},
                               {"entries_quantized", 'i'},
                               {"gate", 'o'},
                               {"cached_tokens", 'i'},
                               {"cache_miss_reason", 'n'},
                               {"preemptions", 'i'},
                               {"restarted", 'b'},
                               {"truncated_tokens", 'i'}});
  expect_schema(object["kv"]["gate"], {{"decision", 's'},
                                       {"reason", 's'},
                                       {"statistic", 'n'},
                                       {"mode", 'n'},
                                       {"threshold", 'n'},
                                       {"value", 'n'},
                                       {"score", 'n'},
                                       {"seconds", 'f'}});
  EXPECT_EQ(object["quire_json"], 1);
  EXPECT_EQ(object["finish_reason"], "length");
  EXPECT_EQ(object["completion_tokens"], 24);
  EXPECT_EQ(object["kv"]["mode"], "lossy");
  EXPECT_EQ(object["kv"]["lossy"], true);
  EXPECT_EQ(object["kv"]["policy"], "h2o");
  EXPECT_EQ(object["kv"]["keep"], "50%");
  EXPECT_LE(object["kv"]["bytes_peak"], object["kv"]["pool_bytes"]);
  EXPECT_LT(object["kv"]["tokens_kept_mean"], object["kv"]["tokens_seen"]);
  EXPECT_GT(object["rss_peak_bytes"], object["weights_bytes"]);
}

TEST(RunJson, AnExactRunSaysSo) {
  const json kv = parsed(quire(greedy({"--json", "-p", letters(50)})))["kv"];
  EXPECT_EQ(kv["mode"], "exact");
  EXPECT_EQ(kv["lossy"], false);
  EXPECT_EQ(kv["policy"], "none");
  EXPECT_EQ(kv["prefill"], "whole");
  EXPECT_EQ(kv["tokens_kept_mean"], kv["tokens_seen"]);
  EXPECT_EQ(kv["entries_dropped"], 0);
}

TEST(RunJson, ARefusalIsAnErrorObject) {
  const Ran ran = quire(greedy({"--json", "-p", "abc"}, test::folder().file("absent.gguf")));
  EXPECT_EQ(ran.status, 1);
  const json object = parsed(ran);
  EXPECT_EQ(object.at("quire_json"), 1);
  expect_schema(object.at("error"),
                {{"message", 's'}, {"type", 's'}, {"code", 's'}, {"param", 'n'}});
  EXPECT_TRUE(contains(object["error"]["message"], "absent.gguf"));
  EXPECT_TRUE(contains(ran.err, "absent.gguf"));
}

TEST(Run, StreamsTheTextThatJsonReports) {
  const Ran text = quire(greedy({"-p", letters(60)}));
  const json object = parsed(quire(greedy({"-p", letters(60), "--json"})));
  EXPECT_EQ(text.status, 0);
  std::string expected = object["text"];
  if (expected.empty() || expected.back() != '\n') expected += '\n';
  EXPECT_EQ(text.out, expected);
  EXPECT_TRUE(contains(text.err, "tok/s"));
  EXPECT_TRUE(contains(text.err, "budget"));
  EXPECT_EQ(quire(greedy({"-p", letters(60), "-q"})).err, "");
}

TEST(Run, TheAnswerDependsNeitherOnChunksNorOnTheInstructionSet) {
  const auto run = [](std::vector<std::string> more, std::vector<std::string> environment = {}) {
    std::vector<std::string> all = greedy({"-p", letters(150), "--deterministic", "-q"});
    all.insert(all.end(), more.begin(), more.end());
    return quire(all, {}, std::move(environment)).out;
  };
  const std::string expected = run({});
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(run({"--chunk", "7"}), expected);
  EXPECT_EQ(run({}, {"QUIRE_ISA=scalar"}), expected);
}

TEST(Run, PromptsComeFromFlagsFilesAndStdin) {
  const std::string file = test::folder().write("prompt.txt", "abc\n");
  const auto tokens = [](const std::vector<std::string>& more, const std::string& input = {}) {
    std::vector<std::string> all = greedy({"--json"});
    all.insert(all.end(), more.begin(), more.end());
    return parsed(quire(all, input))["prompt_tokens"].get<int>();
  };
  const int three = tokens({"-p", "abc"});
  EXPECT_GT(three, 0);
  EXPECT_EQ(tokens({"-f", file}), three);  // without its last newline
  EXPECT_EQ(tokens({"-p", "-"}, "abc"), three);
  EXPECT_EQ(tokens({"-f", "-"}, "abc\n"), three);
  EXPECT_EQ(tokens({}, "abc"), three);
  EXPECT_EQ(tokens({"-f", file, "-p", "abc"}), tokens({"-p", "abc\n\nabc"}));
}

TEST(Run, ASeedRepeatsASample) {
  const auto run = [](const char* seed) {
    return quire({"run", "-m", tiny_model(), "-p", "abc", "--raw", "-n", "24", "--ignore-eos", "-q",
                  "--threads", "1", "--temp", "1.5", "--seed", seed})
        .out;
  };
  EXPECT_EQ(run("5"), run("5"));
  EXPECT_NE(run("5"), run("6"));
}

TEST(Run, AGrammarBindsTheAnswer) {
  const std::string file = test::folder().write("ab.gbnf", "root ::= \"ab\"\n");
  const Ran ran = quire({"run", "-m", tiny_model(), "-p", "xyz", "--raw", "-q", "--threads", "1",
                         "--grammar-file", file});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, "ab\n");
  const std::string wrong = test::folder().write("wrong.gbnf", "root = nothing");
  const Ran refused = quire(greedy({"-p", "xyz", "--grammar-file", wrong}));
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(contains(refused.err, "grammar")) << refused.err;
}

TEST(Run, RefusalsNameWhatIsWrongAndWhatWouldDo) {
  const std::string absent = test::folder().file("absent.txt");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"-p", ""}, "prompt: no tokens"},
      {{"-f", absent}, "cannot read " + absent},
      {{"-f", "/"}, "cannot read /"},
      {{"-p", letters(100), "-n", "1000"}, "are over the context of 1024"},
      {{"-p", letters(100), "--ctx", "100"}, "are over the context of 100"},
      {{"-p", letters(10), "--ctx", "2000"}, "context 2000 is over the model's 1024"},
      {{"-p", letters(900), "--budget", "512KiB"}, "; a budget of "},
      {{"-p", letters(9), "--budget", "70KiB", "--policy", "h2o"}, "4 sinks + 64 recent entries"},
      {{"-p", letters(9), "--budget", "1KiB"}, "budget"},
      {{"-p", letters(9), "--policy", "h2o", "--keep", "20tok"}, "keep 69tok or more"},
      {{"-p", letters(99), "--policy", "h2o", "--explain=2"}, "layer 2"},
  };
  for (const auto& [arguments, message] : cases) {
    const Ran ran = quire(greedy(arguments));
    EXPECT_EQ(ran.status, 1) << message << "\n" << ran.err;
    EXPECT_TRUE(contains(ran.err, message)) << message << "\n" << ran.err;
  }
}

TEST(Run, InstructionSetsAreForcedByNameOrRefused) {
  const std::vector<std::string> arguments = greedy({"-p", "abc", "-q"});
  const Ran unknown = quire(arguments, {}, {"QUIRE_ISA=sse9"});
  EXPECT_EQ(unknown.status, 1);
  EXPECT_TRUE(contains(unknown.err, "QUIRE_ISA=sse9 is none of scalar, avx2, avxvnni, avx512"));
  const Ran inspect = quire({"inspect", "-m", tiny_model(), "--json"}, {}, {"QUIRE_ISA=scalar"});
  EXPECT_EQ(parsed(inspect)["kernels"]["attention"], "scalar");
}

TEST(Run, ChatGoesOnOverTurnsAndForgetsWhenTold) {
  const std::vector<std::string> arguments = greedy({"--chat"});
  const Ran ran = quire(arguments, "abc\n\ndef\n/reset\nabc\n/quit\nxyz\n");
  EXPECT_EQ(ran.status, 0) << ran.err;
  std::vector<std::string> prompts;
  for (std::size_t at = 0; (at = ran.err.find("tokens kept", at)) != std::string::npos; ++at) {
    const std::size_t all = ran.err.rfind("all ", at);
    prompts.push_back(ran.err.substr(all, at - all));
  }
  ASSERT_EQ(prompts.size(), 3u) << ran.err;
  EXPECT_NE(prompts[0], prompts[1]);
  EXPECT_EQ(prompts[0], prompts[2]);
}

TEST(Run, ExplainMarksWhatSurvives) {
  const Ran ran = quire(greedy({"-p", letters(300), "--policy", "sink-recency:recent=20", "--keep",
                                "50tok", "--explain", "-n", "1"}));
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_TRUE(contains(ran.out, "share of lanes that keep a token"));
  const std::string shown = ran.out.substr(ran.out.find("= more") + 6);
  EXPECT_TRUE(contains(shown, "{4 <s>")) << shown;
  EXPECT_TRUE(contains(shown, letters(300).substr(290) + "}")) << shown;
  EXPECT_EQ(std::ranges::count(shown, '{'), 2) << "the sinks and the newest: " << shown;
  EXPECT_TRUE(contains(ran.out, " 50 survive in some lane, 50 in most")) << ran.out;
}

TEST(Run, InterruptEndsTheAnswerAndStillReports) {
  Program program(greedy({"-p", "abc", "-n", "150000"}, tiny_model(200'000)));
  program.wait_for_output();
  program.interrupt();
  const Ran& ran = program.finish();
  EXPECT_EQ(ran.status, 130);
  EXPECT_TRUE(contains(ran.err, "cancelled")) << ran.err;
  EXPECT_FALSE(ran.out.empty());
}

// Its stdout is full, so it cannot notice the first ctrl-C before the second comes.
TEST(Run, ASecondInterruptEndsTheProgramAtOnce) {
  Program program(greedy({"-p", "abc", "-n", "150000"}, tiny_model(200'000)));
  program.wait_for_output();
  program.wait_until_blocked();
  program.interrupt();
  program.interrupt();
  const Ran& ran = program.finish();
  EXPECT_EQ(ran.status, 130);
  EXPECT_EQ(ran.err, "\n") << "no report: it did not come to its end";
}

TEST(Run, InAChatAnInterruptEndsTheAnswerAlone) {
  Program program({"run", "-m", tiny_model(200'000), "--chat", "--raw", "-n", "150000", "--temp",
                   "0", "--ignore-eos", "--threads", "1"},
                  "abc\n/quit\n");
  program.wait_for_output();
  program.interrupt();
  const Ran& ran = program.finish();
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_TRUE(contains(ran.err, "cancelled")) << ran.err;
}

TEST(Inspect, SaysWhatABudgetHolds) {
  const Ran text = quire({"inspect", "-m", tiny_model(), "--budget", "1MiB"});
  ASSERT_EQ(text.status, 0) << text.err;
  for (const char* part : {"2 layers see all positions", "1,024 bytes a token", "1.0 MiB holds",
                           "kernels", "block_tokens", "linear"}) {
    EXPECT_TRUE(contains(text.out, part)) << part << "\n" << text.out;
  }
  const json object = parsed(quire({"inspect", "-m", tiny_model(), "--budget", "1MiB", "--json"}));
  EXPECT_EQ(object.at("model").at("layers"), 2);
  EXPECT_EQ(object.at("cache").at("bytes_per_token"), 1024);
  EXPECT_EQ(object.at("cache").at("budget_bytes"), 1 << 20);
  EXPECT_GT(object.at("cache").at("tokens_that_fit"), 900);
  EXPECT_LE(object.at("cache").at("tokens_that_fit"), 1024);
  EXPECT_EQ(object.at("cache").at("groups").size(), 1u);
  EXPECT_EQ(object.at("defaults").at("temp"), 0.8);
}

TEST(Inspect, ListsLayersByWhatTheySee) {
  const std::string file = test::folder().file("gemma3.gguf");
  ASSERT_TRUE(test::write_tiny_model(
      {.architecture = "gemma3", .layers = 6, .kv_heads = 1, .window = 32}, file));
  const Ran text = quire({"inspect", "-m", file, "--budget", "1MiB"});
  ASSERT_EQ(text.status, 0) << text.err;
  for (const char* part : {"5 layers see a window of 32", "1,280 bytes a token",
                           "1 layers see all positions", "256 past the windows"}) {
    EXPECT_TRUE(contains(text.out, part)) << part << "\n" << text.out;
  }
  const json cache =
      parsed(quire({"inspect", "-m", file, "--budget", "1MiB", "--json"})).at("cache");
  ASSERT_EQ(cache.at("groups").size(), 2u);
  EXPECT_EQ(cache.at("groups")[0].at("window"), 32);
  EXPECT_EQ(cache.at("groups")[1].at("window"), 0);
  EXPECT_EQ(cache.at("bytes_per_token_past_windows"), 256);
  EXPECT_GT(cache.at("tokens_that_fit"), 1024);
}

}  // namespace
}  // namespace quire
