// Goal: with real models the program stays within its budget and its memory bound, and the
// demonstration shows what it claims.
// Method: the built program on SmolLM2 and Qwen with a prompt of eight times the budget; the
// process's own peak of memory from its JSON.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "engine/generate.h"
#include "model/real_model.h"

namespace quire {
namespace {

using nlohmann::json;
using test::contains;
using test::Ran;

// A text of at least `tokens` tokens, which have 4.1 (SmolLM2) to 4.7 bytes (Qwen) here.
std::string long_text(std::size_t tokens) {
  const std::string once = test::read_file("examples/the-time-machine.txt");
  EXPECT_FALSE(once.empty());
  std::string text;
  while (text.size() < tokens * 5) text += once;
  return test::folder().write("long.txt", text.substr(0, tokens * 5));
}

void expect_memory_bound(const std::string& model, const char* policy, const char* budget_text,
                         std::size_t bytes_per_token) {
  const std::size_t budget = *engine::parse_bytes(budget_text);
  const std::size_t chunk = 256;
  const std::size_t tokens = 8 * budget / bytes_per_token;
  const Ran ran = test::quire({"run", "-m", model, "-f", long_text(tokens), "-n", "16", "--temp",
                               "0", "--budget", budget_text, "--policy", policy, "--chunk",
                               std::to_string(chunk), "--json", "--raw"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json object = json::parse(ran.out);
  ASSERT_GE(object["prompt_tokens"], tokens) << "the text is too short";
  EXPECT_EQ(object["kv"]["prefill"], "streamed");
  EXPECT_LE(object["kv"]["bytes_peak"], budget);
  const std::size_t most = object["weights_bytes"].get<std::size_t>() +
                           object["copies_bytes"].get<std::size_t>() + budget +
                           (std::size_t{128} << 20) + (std::size_t{64} << 10) * chunk;
  EXPECT_LE(object["rss_peak_bytes"], most) << object.dump(2);
  testing::Test::RecordProperty("rss_peak_bytes", object["rss_peak_bytes"].dump());
  testing::Test::RecordProperty("bound_bytes", std::to_string(most));
}

TEST(RealModel, SmolLm2StaysWithinItsMemoryBound) {
  const std::string model = test::real_model(test::kSmolLm);
  QUIRE_NEED(model);
  expect_memory_bound(model, "snapkv-ahead", "12MiB", 23'040);
}

TEST(RealModel, QwenStaysWithinItsMemoryBound) {
  const std::string model = test::real_model(test::kQwenCoder);
  QUIRE_NEED(model);
  expect_memory_bound(model, "sink-recency", "4MiB", 12'288);
}

TEST(RealModel, TheDemonstrationFindsTheSentenceInAQuarter) {
  const std::string model = test::real_model(test::kSmolLm);
  QUIRE_NEED(model);
  const Ran ran = test::quire({"demo", "-m", model});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto row = [&](const std::string& name) {
    const std::size_t begin = ran.out.find("\n" + name) + 1;
    return ran.out.substr(begin, ran.out.find('\n', begin) - begin);
  };
  EXPECT_TRUE(contains(row("full cache"), "right")) << ran.out;
  EXPECT_TRUE(contains(row("snapkv-ahead"), "right")) << ran.out;
  EXPECT_TRUE(contains(row("sink-recency"), "wrong")) << ran.out;
}

}  // namespace
}  // namespace quire
