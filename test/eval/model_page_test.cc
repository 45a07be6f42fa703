// Goal: a page keeps the sections of other models, and what people wrote beside them.
// Method: pages written twice.

#include "eval/model_page.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "model/running.h"

namespace quire::eval {
namespace {

TEST(ModelPage, NamesOfFilesArePlain) {
  EXPECT_EQ(model_slug("SmolLM2-135M-Instruct.Q4_1.gguf"), "smollm2-135m-instruct-q4-1");
  EXPECT_EQ(model_slug("--Qwen 0.5B--.gguf"), "qwen-0-5b");
  EXPECT_EQ(model_slug(""), "model");
}

TEST(ModelPage, HeadingsGoDeeper) {
  EXPECT_EQ(deeper("# a\n\n## b #\n| # |\n#"), "## a\n\n### b #\n| # |\n##");
  EXPECT_EQ(deeper(""), "");
}

TEST(ModelPage, ASectionTakesItsOwnPlace) {
  const test::TempFile page("page.md");
  const auto text = [&] {
    std::ifstream in(page.path());
    return std::string{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  };
  ASSERT_TRUE(write_section(page.path(), "# Old\n\n", "## a.gguf\n\n### x\n1\n").ok());
  EXPECT_EQ(text(), "# Old\n\n## a.gguf\n\n### x\n1\n");
  std::ofstream(page.path(), std::ios::app) << "\n## By hand\n\nwords\n";
  ASSERT_TRUE(write_section(page.path(), "# New\n\n", "## a.gguf\n\n2\n").ok());
  ASSERT_TRUE(write_section(page.path(), "# New\n\n", "## a.gguf2\n\n3\n").ok());
  EXPECT_EQ(text(), "# New\n\n## a.gguf\n\n2\n\n## By hand\n\nwords\n\n## a.gguf2\n\n3\n");
  EXPECT_EQ(write_section("/proc/nowhere/page.md", "", "## a\n").code(), Code::kIo);
}

}  // namespace
}  // namespace quire::eval
