// Goal: a wrong command line fails with status 2 and names what is wrong; information is printed
// without a model.
// Method: the built program, one case per way to be wrong.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "quire/policy.h"

namespace quire {
namespace {

using test::contains;
using test::quire;
using test::Ran;

TEST(Usage, HelpVersionAndLicensesAreDone) {
  const Ran help = quire({"--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* command : {"run", "serve", "inspect", "policies", "roles", "matrix", "demo",
                              "bench", "tune", "train", "eval"}) {
    EXPECT_TRUE(contains(help.out, command)) << command;
    EXPECT_EQ(quire({command, "--help"}).status, 0) << command;
  }
  EXPECT_EQ(quire({"--version"}).out.substr(0, 6), "quire ");
  const Ran licenses = quire({"--licenses"});
  EXPECT_EQ(licenses.status, 0);
  EXPECT_TRUE(contains(licenses.out, "Apache License"));
  EXPECT_TRUE(contains(licenses.out, "llama.cpp"));
}

TEST(Usage, NothingToDoIsAUsageErrorWithHelp) {
  const Ran ran = quire({});
  EXPECT_EQ(ran.status, 2);
  EXPECT_TRUE(contains(ran.err, "Subcommands"));
  EXPECT_EQ(ran.out, "");
}

TEST(Usage, EveryWrongFlagAndValueIsNamed) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"walk"}, "walk"},
      {{"run"}, "--model is required"},
      {{"run", "-m", "x", "--colour"}, "--colour"},
      {{"run", "-m", "x", "-n", "-1"}, "--max-tokens: \"-1\" is not a number from 0 to"},
      {{"run", "-m", "x", "-n", "ten"}, "--max-tokens: \"ten\""},
      {{"run", "-m", "x", "--chunk", "0"}, "--chunk: \"0\" is not a number from 1 to 4096"},
      {{"run", "-m", "x", "--threads", "1e9"}, "--threads: \"1e9\""},
      {{"run", "-m", "x", "--ctx", "-5"}, "--ctx: \"-5\""},
      {{"run", "-m", "x", "--block-tokens", "12"}, "--block-tokens: \"12\" is none of 8, 16"},
      {{"run", "-m", "x", "--kv-type", "int8"}, "--kv-type: \"int8\" is none of f16, bf16, f32"},
      {{"run", "-m", "x", "--budget", "64MB"}, "--budget: \"64MB\" is not a size"},
      {{"run", "-m", "x", "--policy", "best"}, "--policy: no policy \"best\"; there are"},
      {{"run", "-m", "x", "--policy", "h2o:a=1"}, "--policy: policy \"h2o\": no option \"a\""},
      {{"run", "-m", "x", "--policy", "h2o", "--keep", "1024"}, "--keep: \"1024\""},
      {{"serve", "-m", "x", "--queue", "fifo"}, "--queue: \"fifo\" is none of fcfs, cache-aware"},
      {{"serve", "-m", "x", "--prefix-cache", "maybe"}, "--prefix-cache: \"maybe\" is none of"},
      {{"batch", "-m", "x", "-i", "a", "-o", "b", "--step-ms", "x"}, "--step-ms: \"x\""},
      {{"run", "-m", "x", "--keep", "25%"}, "--keep: without --policy"},
      {{"run", "-m", "x", "--explain", "-p", "a"}, "--explain: without --policy"},
      {{"run", "-m", "x", "--explain=first", "-p", "a"}, "--explain: \"first\""},
      {{"run", "-m", "x", "--temp", "nan"}, "--temp: \"nan\" is not a number from 0 to 100"},
      {{"run", "-m", "x", "--top-p", "1.5"}, "--top-p: \"1.5\""},
      {{"run", "-m", "x", "--min-p", "-0.1"}, "--min-p: \"-0.1\""},
      {{"run", "-m", "x", "--top-k", "-1"}, "--top-k: \"-1\""},
      {{"run", "-m", "x", "--repeat-penalty", "0"}, "--repeat-penalty: \"0\""},
      {{"run", "-m", "x", "--seed", "4294967296"}, "--seed: \"4294967296\""},
      {{"run", "-m", "x", "--chat", "--json"}, "--json"},
      {{"run", "-m", "x", "--chat", "-p", "a"}, "--chat"},
      {{"run", "-m", "x", "-p", "-", "-f", "-"}, "-p, -f"},
      {{"inspect", "-m", "x", "--budget", "0"}, "--budget: \"0\""},
      {{"policies", "--long"}, "--long"},
      {{"serve"}, "--model is required"},
      {{"serve", "-m", "x", "--port", "65536"},
       "--port: \"65536\" is not a number from 0 to 65535"},
      {{"serve", "-m", "x", "--host", "0.0.0.0"},
       "host: others can reach 0.0.0.0, and there is no key"},
      {{"serve", "-m", "x", "--host", "here"}, "host: \"here\" is no numeric address"},
      {{"serve", "-m", "x", "--metrics-alias", "tgi"}, "--metrics-alias: \"tgi\" is not vllm"},
      {{"serve", "-m", "x", "--max-body", "8MB"}, "--max-body: \"8MB\" is not a size"},
      {{"serve", "-m", "x", "--session-space", "8GB"}, "--session-space: \"8GB\" is not a size"},
      {{"serve", "-m", "x", "--keep", "25%"}, "--keep: without --policy"},
      {{"bench"}, "--model is required"},
      {{"run", "-m", "x", "--reclaim", "soon"}, "--reclaim: \"soon\" is none of never, whole"},
      {{"bench", "-m", "x", "--tests", "pp512,tg0"}, "--tests: \"tg0\" is not a test such as"},
      {{"bench", "-m", "x", "--tests", "pp512,"}, "--tests: \"\" is not a test"},
      {{"bench", "-m", "x", "--tests", "pp8", "-p", "8"}, "--tests: names every row"},
      {{"bench", "-m", "x", "-p", "512,all"}, "--n-prompt: \"all\" is not a number from 0 to"},
      {{"bench", "-m", "x", "-n", "-1"}, "--n-gen: \"-1\" is not a number"},
      {{"bench", "-m", "x", "-p", "0", "-n", "0"}, "-p, -n: 0 of both"},
      {{"bench", "-m", "x", "-d", "1048577"}, "--n-depth: \"1048577\" is not a number from 0 to"},
      {{"bench", "-m", "x", "--parallel", "0"}, "--parallel: \"0\" is not a number from 1 to"},
      {{"bench", "-m", "x", "--quick", "-p", "8"}, "--quick: is a list of its own"},
      {{"bench", "-m", "x", "--vs", "vllm"}, "--vs: \"vllm\" is not llama"},
      {{"bench", "-m", "x", "--pairs", "1001"}, "--pairs: \"1001\""},
      {{"bench", "-m", "x", "--chunk", "513"}, "--chunk: \"513\" is not a number from 1 to 512"},
      {{"bench", "-m", "x", "--kv-type", "q8"}, "--kv-type"},
      {{"bench", "-m", "x", "--policy", "none"}, "--policy: no policy \"none\""},
      {{"roles"}, "--file is required"},
      {{"roles", "-f", "x", "--probe", "p"}, "--probe requires --model"},
      {{"roles", "-f", "x", "-m", "p"}, "--model requires --probe"},
      {{"run", "-m", "x", "--roles", "probe"},
       "--roles: \"probe\" is none of parser, none, probe:"},
      {{"train"}, "subcommand is required"},
      {{"train", "roles"}, "--model is required"},
      {{"train", "roles", "-m", "x", "--prompts", "4"}, "--prompts: \"4\" is not a number from 5"},
      {{"train", "roles", "-m", "x", "--hidden", "2"},
       "--hidden: \"2\" is not a number from 0 to 1"},
      {{"serve", "-m", "x", "--rate-limit", "often"}, "--rate-limit: \"often\" is not a rate"},
      {{"serve", "-m", "x", "--token-rate-limit", "0"}, "--token-rate-limit: \"0\" is not a rate"},
      {{"matrix", "--json", "--markdown"}, "excludes"},
      {{"eval"}, "subcommand is required"},
      {{"eval", "policies"}, "--model is required"},
      {{"eval", "policies", "-m", "x", "--policies", "h2o,best"}, "--policies: no policy \"best\""},
      {{"eval", "policies", "-m", "x", "--keep", "50%,64tok"}, "--keep: \"64tok\" is not a share"},
      {{"eval", "policies", "-m", "x", "--keep", "100%"}, "--keep: \"100%\" is not a share"},
      {{"eval", "policies", "-m", "x", "--tasks", "prose,poems"}, "--tasks: \"poems\" is none of"},
      {{"eval", "policies", "-m", "x", "--block", "16,12"}, "--block: \"12\" is none of 8, 16"},
      {{"eval", "policies", "-m", "x", "--seeds", "0"}, "--seeds: \"0\" is not a number from 1"},
      {{"eval", "tasks"}, "--model is required"},
      {{"eval", "tasks", "-m", "x", "--tasks", "json,data"}, "--tasks: \"data\" is none of prose"},
      {{"eval", "tasks", "-m", "x", "--policies", "best"}, "--policies: no policy \"best\""},
      {{"eval", "tasks", "-m", "x", "--keep", "64tok"}, "--keep: \"64tok\" is not a share"},
      {{"eval", "tasks", "-m", "x", "--gates", "open,page"}, "--gates: \"page\" is none of"},
      {{"eval", "tasks", "-m", "x", "--gates", "random:200%"}, "\"random:200%\" is none of"},
      {{"eval", "tasks", "-m", "x", "--kv-type", "f64"}, "--kv-type: f64 not in"},
      {{"eval", "tasks", "-m", "x", "--questions", "0"}, "--questions: \"0\" is not a number"},
      {{"eval", "roles"}, "--model is required"},
      {{"eval", "roles", "-m", "x", "--keep", "100%"}, "--keep: \"100%\" is not a share"},
      {{"eval", "roles", "-m", "x", "--quick", "--full"}, "--quick, --full: one of them"},
      {{"eval", "paged-eviction"}, "--model is required"},
      {{"eval", "paged-eviction", "-m", "x", "--quick", "--full"}, "--quick, --full: one of them"},
      {{"eval", "paged-eviction", "-m", "x", "--seeds", "0"}, "--seeds: \"0\" is not a number"},
      {{"eval", "vtoken"}, "--model is required"},
      {{"eval", "vtoken", "-m", "x", "--vs", "vllm"}, "--vs: vllm not in {llama}"},
      {{"eval", "vtoken", "-m", "x", "--quick", "--full"}, "--quick, --full: one of them"},
      {{"bench", "-m", "x", "--keep", "64"}, "--keep: \"64\" is not a keep target"},
      {{"bench", "-m", "x", "--keep", "1MiB"}, "--keep: \"1MiB\": a benchmark keeps tokens"},
  };
  for (const auto& [arguments, message] : cases) {
    const Ran ran = quire(arguments);
    EXPECT_EQ(ran.status, 2) << message << "\n" << ran.err;
    EXPECT_TRUE(contains(ran.err, message)) << message << "\n" << ran.err;
    EXPECT_EQ(ran.out, "") << message;
  }
}

TEST(Policies, AreListedAsTextAndAsJson) {
  const Ran text = quire({"policies"});
  const Ran json = quire({"policies", "--json"});
  EXPECT_EQ(text.status, 0);
  const auto object = nlohmann::json::parse(json.out);
  EXPECT_EQ(object.at("quire_json"), 1);
  const std::vector<PolicyInfo> known = list_policies();
  ASSERT_EQ(object.at("policies").size(), known.size());
  for (std::size_t i = 0; i < known.size(); ++i) {
    EXPECT_TRUE(contains(text.out, known[i].name));
    EXPECT_EQ(object["policies"][i].at("name"), known[i].name);
    EXPECT_EQ(object["policies"][i].at("options"), known[i].options);
    EXPECT_EQ(object["policies"][i].at("lines"), known[i].lines);
    for (const char* field : {"needs", "scope", "when", "when_not", "cost", "source"}) {
      EXPECT_FALSE(object["policies"][i].at(field).get<std::string>().empty()) << field;
    }
  }
}

TEST(Roles, OfATextAsMarksAndAsJson) {
  const std::string file = test::folder().write("roles.txt", "See {\"a\": [1, 2]}.");
  const Ran text = quire({"roles", "-f", file});
  EXPECT_EQ(text.status, 0);
  EXPECT_TRUE(contains(text.out, "See {d {}{k \"a\"}{d :} {d [}{v 1}{d ,} {v 2}{d ]}}."))
      << text.out;
  const auto object = nlohmann::json::parse(quire({"roles", "-f", file, "--json"}).out);
  EXPECT_EQ(object.at("quire_json"), 1);
  EXPECT_EQ(object.at("bytes"), 18);
  EXPECT_EQ(object.at("roles").at("value").at("parts"), 2);
  EXPECT_EQ(object.at("roles").at("key").at("bytes"), 3);
  EXPECT_EQ(object.at("roles").at("prose").at("bytes"), 5);
  const Ran missing = quire({"roles", "-f", "no-such-file"});
  EXPECT_EQ(missing.status, 1);
  EXPECT_TRUE(contains(missing.err, "cannot read no-such-file"));
}

TEST(Policies, ThePageIsWhatTheProgramWrites) {
  std::ifstream page("docs/POLICIES.md");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  EXPECT_EQ(quire({"policies", "--markdown"}).out, text)
      << "build/quire policies --markdown > docs/POLICIES.md";
  EXPECT_EQ(quire({"policies", "--markdown", "--json"}).status, 2);
}

}  // namespace
}  // namespace quire
