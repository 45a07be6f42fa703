// Goal: the support matrix says what is true, of everything there is, and its page is kept.
// Method: its tables against the lists of fields, paths and policies; cells whose answer is known;
//   the program's output against docs/SUPPORT.md.

#include "cli/matrix_tables.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "model/chat.h"
#include "quire/policy.h"
#include "serve/openai_body.h"
#include "serve/routes.h"
#include "support/tiny_model.h"
#include "support/tool_form.h"

namespace quire::cli {
namespace {

using State = MatrixCell::State;

const MatrixCell& cell(const MatrixTable& table, const std::string& row, const std::string& column,
                       std::size_t which = 0) {
  static const MatrixCell kNowhere{.state = State::kText, .text = "no such cell"};
  const auto at = std::ranges::find(table.columns, column);
  for (const MatrixRow& one : table.rows) {
    if (one.name != row || which-- > 0) continue;
    const auto index = static_cast<std::size_t>(at - table.columns.begin());
    return at != table.columns.end() && index > 0 ? one.cells.at(index - 1) : kNowhere;
  }
  return kNowhere;
}

TEST(Matrix, HasEveryFieldPathAndPolicy) {
  const MatrixTable fields = field_matrix();
  for (const char* const name : serve::body_fields()) {
    EXPECT_NE(cell(fields, name, "as").text, "no sample") << name;
    EXPECT_NE(cell(fields, name, "chat").state, State::kText) << name;
  }
  EXPECT_EQ(path_matrix().rows.size(), serve::route_table().size());
  EXPECT_EQ(policy_matrix().rows.size(), list_policies().size() + 1);
  for (const MatrixTable& table : support_matrix()) {
    for (const MatrixRow& row : table.rows) {
      EXPECT_EQ(row.cells.size() + 1, table.columns.size()) << table.name << " " << row.name;
    }
  }
}

TEST(Matrix, SaysWhatIsRefusedInTheWordsOfTheRefusal) {
  const MatrixTable fields = field_matrix();
  EXPECT_EQ(cell(fields, "n", "chat").state, State::kYes);
  EXPECT_EQ(cell(fields, "n", "batch").text, "n: 2 is not supported");
  EXPECT_EQ(cell(fields, "echo", "completion").text, "echo: true is not supported");
  EXPECT_EQ(cell(fields, "tools", "chat").state, State::kYes);
  EXPECT_EQ(cell(fields, "tools", "completion").text, "tools: not supported");
  const MatrixTable pairs = pair_matrix();
  EXPECT_EQ(cell(pairs, "tools", "stream").state, State::kYes);
  EXPECT_EQ(cell(pairs, "tools", "ignore_eos").text, "ignore_eos: not with tools");
  EXPECT_EQ(cell(pairs, "grammar", "json_object").state, State::kNo);
  for (const MatrixRow& row : pairs.rows) {
    EXPECT_EQ(cell(pairs, row.name, row.name).state, State::kNone);
    for (const MatrixRow& other : pairs.rows) {
      EXPECT_EQ(cell(pairs, row.name, other.name).text, cell(pairs, other.name, row.name).text);
    }
  }
  const MatrixTable policies = policy_matrix();
  EXPECT_EQ(cell(policies, "none", "windows alone").state, State::kYes);
  EXPECT_EQ(cell(policies, "none", "streamed").state, State::kNo) << "nothing could be cut";
  EXPECT_EQ(cell(policies, "knorm", "streamed").state, State::kYes);
  EXPECT_EQ(cell(policies, "snapkv", "streamed").state, State::kLess);
  EXPECT_EQ(cell(policies, "none", "prefix hit").state, State::kYes);
  EXPECT_EQ(cell(policies, "snapkv", "prefix hit").state, State::kYes) << "behind its last rows";
  EXPECT_EQ(cell(policies, "h2o", "prefix hit").state, State::kLess);
  EXPECT_EQ(cell(policies, "h2o", "windows alone").state, State::kNo);
  EXPECT_EQ(cell(policies, "h2o", "bare layers").state, State::kYes);
  EXPECT_NE(cell(policies, "criticalkv", "bare layers").text.find(".output"), std::string::npos);
}

TEST(Matrix, OfAModelSaysWhatItsTemplateTakes) {
  if (!model::has_full_templates()) GTEST_SKIP() << "built without llama-chat";
  const std::string path = test::folder().file("matrix.gguf");
  for (const bool tools : {true, false}) {
    test::TinyModel tiny;
    if (tools) tiny.chat_template = test::kToolForm;
    ASSERT_TRUE(test::write_tiny_model(tiny, path));
    const auto loaded = model::Model::load({.path = path, .threads = 1});
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    const MatrixTable table = template_matrix(**loaded);
    EXPECT_EQ(cell(table, "json_schema", "works").state, State::kYes);
    EXPECT_EQ(cell(table, "tools, required", "works").state, tools ? State::kYes : State::kNo);
    EXPECT_EQ(cell(policy_matrix(loaded->get()), "h2o", "this model").state, State::kYes);
  }
  EXPECT_TRUE(test::contains(test::quire({"matrix", "-m", path}).out, "chat template"));
}

TEST(Matrix, ThePageIsWhatTheProgramWrites) {
  std::ifstream page("docs/SUPPORT.md");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  EXPECT_EQ(test::quire({"matrix", "--markdown"}).out, text)
      << "build/quire matrix --markdown > docs/SUPPORT.md";
  const auto object = nlohmann::json::parse(test::quire({"matrix", "--json"}).out);
  EXPECT_EQ(object["tables"].size(), support_matrix().size());
  EXPECT_TRUE(test::contains(test::quire({"matrix"}).out, "ignore_eos: not with tools"));
}

}  // namespace
}  // namespace quire::cli
