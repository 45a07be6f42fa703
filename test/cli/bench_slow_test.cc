// Goal: on a real model `quire bench --quick --vs llama` checks the text, then measures its list.
// Method: the built program on SmolLM2; what it reports, not how fast it was.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "model/real_model.h"

namespace quire {
namespace {

using nlohmann::json;

TEST(RealBench, QuickComparesWithLibllama) {
  const std::string model = test::real_model(test::kSmolLm);
  QUIRE_NEED(model);
  const test::Ran ran = test::quire({"bench", "-m", model, "--quick", "--vs", "llama", "--json",
                                     "--threads", std::to_string(test::test_threads())});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json object = json::parse(ran.out);
  EXPECT_EQ(object.at("check").at("tokens"), 32);
  // A busy machine leaves some out, by name.
  ASSERT_FALSE(object.at("rows").empty());
  EXPECT_EQ(object["rows"].size() + object.at("left_out").size(), 5u);
  for (const json& row : object["rows"]) {
    EXPECT_GT(row.at("tok_s"), 0) << row;
    EXPECT_GT(row.at("bandwidth_share"), 0) << row;
    EXPECT_GT(row.at("peers").at("llama").at("ratio"), 0) << row;
  }
  // 98 MB of weights and 128 to 144 entries of 23,040 bytes, once for every token.
  EXPECT_EQ(object["rows"][0].at("test"), "tg16@d128");
  EXPECT_NEAR(object["rows"][0].at("bytes_per_token"), 98.3e6 + 136 * 23040, 2e6);
}

}  // namespace
}  // namespace quire
