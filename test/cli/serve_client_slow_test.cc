// Goal: OpenAI's own package works against the program, unmodified: chats, streams, tools, schemas,
//   logprobs, errors.
// Method: test/serve/openai_check.py, which starts the program, on a model whose template shows
//   tools and on one whose does not; the package is where tools/setup puts it.

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "cli/program.h"
#include "model/chat.h"
#include "model/real_model.h"

namespace quire {
namespace {

constexpr char kPython[] = ".deps/openai/bin/python";

void check_with(const std::string& model) {
  QUIRE_NEED(model);
  if (!std::filesystem::exists(".deps/openai/stamp")) {
    GTEST_SKIP() << "the openai package is not here (tools/setup clients)";
  }
  if (!model::has_full_templates()) GTEST_SKIP() << "built without llama-chat";
  const std::string command = std::string(kPython) + " -B test/serve/openai_check.py '" + model +
                              "' '" + QUIRE_PROGRAM + "' --deterministic --threads " +
                              std::to_string(test::test_threads()) + " 2>&1";
  std::FILE* const said = popen(command.c_str(), "r");
  ASSERT_NE(said, nullptr);
  std::string text;
  char buffer[4096];
  for (std::size_t count = 0; (count = std::fread(buffer, 1, sizeof(buffer), said)) > 0;) {
    text.append(buffer, count);
  }
  EXPECT_EQ(pclose(said), 0);
  std::puts(text.c_str());
  EXPECT_TRUE(test::contains(text, ": 0 failed\n"));
}

TEST(OpenAiPackage, WorksOnAModelWithTools) {
  check_with(test::real_model(test::kQwenCoder));
}

TEST(OpenAiPackage, WorksOnAModelWithoutTools) {
  check_with(test::real_model(test::kSmolLm));
}

}  // namespace
}  // namespace quire
