// Goal: files in the shapes that people have become documents, questions and answers; what is wrong
// is named by line and field. Method: a short line of each shape, and the same with a fault.

#include "eval/data_file.h"

#include <gtest/gtest.h>

namespace quire::eval {
namespace {

Document read_one(const std::string& line) {
  const Result<std::vector<Document>> documents = read_documents(line + "\n", "my.jsonl");
  EXPECT_TRUE(documents.ok()) << documents.status().message();
  return documents.ok() && documents->size() == 1 ? documents->front() : Document{};
}

TEST(DataFile, ReadsQuiresOwnShape) {
  const Document document =
      read_one(R"({"document": "a b", "questions": [{"prompt": "x is", "answer": " 1"},)"
               R"( {"prompt": "y is", "answer": " 2"}]})");
  EXPECT_EQ(document.text, "a b");
  EXPECT_EQ(document.lead, "\n\n");
  ASSERT_EQ(document.questions.size(), 2u);
  EXPECT_EQ(document.questions[1].prompt, "y is");
  EXPECT_EQ(document.questions[1].answer, " 2");
}

TEST(DataFile, ReadsRuler) {
  const Document document = read_one(
      R"({"index": 0, "input": "Memorize it.\nThe uuid for a-1 is: b-2.\nWhat is it? It is",)"
      R"( "outputs": ["b-2"], "length": 31})");
  EXPECT_EQ(document.text, "Memorize it.\nThe uuid for a-1 is: b-2.");
  EXPECT_EQ(document.lead, "\n");
  ASSERT_EQ(document.questions.size(), 1u);
  EXPECT_EQ(document.questions[0].prompt, "What is it? It is");
  EXPECT_EQ(document.questions[0].answer, " b-2");

  const Document several = read_one(
      R"({"input": "VAR A = 1\nFind all.", "answer_prefix": " They are:", "outputs": ["A", "B"]})");
  EXPECT_EQ(several.questions[0].prompt, "Find all. They are:");
  EXPECT_EQ(several.questions[0].answer, " A, B");
}

TEST(DataFile, ReadsLongChatLines) {
  const Document document = read_one(
      R"({"random_idx": ["torpid-kid", 1], "expected_number": 2416, "num_lines": 2, "prompt": )"
      R"("Lines:\n\nline torpid-kid: REGISTER_CONTENT is <2416>\n\nTell me the number. "})");
  EXPECT_EQ(document.text, "Lines:\n\nline torpid-kid: REGISTER_CONTENT is <2416>");
  ASSERT_EQ(document.questions.size(), 1u);
  EXPECT_EQ(document.questions[0].prompt,
            "Tell me the number.\n\nline torpid-kid: REGISTER_CONTENT is <");
  EXPECT_EQ(document.questions[0].answer, "2416");
}

TEST(DataFile, ReadsLostInTheMiddleKeys) {
  const Document document = read_one(
      R"({"ordered_kv_records": [["k1", "v1"], ["k\"2", "v2"]], "key": "k1", "value": "v1"})");
  EXPECT_EQ(document.text, "{\"k1\": \"v1\",\n \"k\\\"2\": \"v2\"}");
  ASSERT_EQ(document.questions.size(), 1u);
  EXPECT_EQ(document.questions[0].prompt, "\"k1\": \"");
  EXPECT_EQ(document.questions[0].answer, "v1");
}

TEST(DataFile, ReadsLongBench) {
  const Document document = read_one(
      R"({"input": "Who?", "context": "Ann did.", "answers": ["Ann", "She"], "length": 2})");
  EXPECT_EQ(document.text, "Ann did.");
  ASSERT_EQ(document.questions.size(), 1u);
  EXPECT_EQ(document.questions[0].prompt, "Question: Who?\nAnswer:");
  EXPECT_EQ(document.questions[0].answer, " Ann");
}

TEST(DataFile, BlankLinesAreSkippedAndCounted) {
  const std::string good = R"({"context": "c", "input": "i", "answers": ["a"]})";
  const Result<std::vector<Document>> two = read_documents(good + "\n\n \r\n" + good, "f");
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(two->size(), 2u);
  const Status status = read_documents(good + "\n\n{}\n", "f").status();
  EXPECT_TRUE(status.message().starts_with("f:3: no known shape")) << status.message();
}

TEST(DataFile, FaultsNameLineAndField) {
  const std::pair<const char*, const char*> faults[] = {
      {"", "f: no line with a document"},
      {"[1]", "f:1: not a JSON object"},
      {"{\"document\":", "f:1: not a JSON object"},
      {R"({"text": "a"})", "f:1: no known shape: it has none of the fields document, outputs"},
      {R"({"document": 3, "questions": [{"prompt": "p", "answer": "a"}]})",
       "f:1: field document is not a text"},
      {R"({"document": "d"})", "f:1: field questions is missing"},
      {R"({"document": "d", "questions": []})", "f:1: field questions is not a list with an item"},
      {R"({"document": "d", "questions": ["p"]})", "f:1: field questions[0] is not an object"},
      {R"({"document": "d", "questions": [{"prompt": "p", "answer": ""}]})",
       "f:1: field questions[0].answer is not a text that is not empty"},
      {R"({"input": "a\nb", "outputs": ["x", 7]})", "f:1: field outputs[1] is not a text"},
      {R"({"input": "a\nb", "outputs": "x"})", "f:1: field outputs is not a list"},
      {R"({"input": "one line", "outputs": ["x"]})", "f:1: the text has one line only"},
      {R"({"outputs": ["x"]})", "f:1: field input is missing"},
      {R"({"prompt": "a\nb", "random_idx": [3], "expected_number": 1})",
       "f:1: field random_idx[0] is not a text"},
      {R"({"prompt": "a\nb", "random_idx": ["k"], "expected_number": 1.5})",
       "f:1: field expected_number is not a text"},
      {R"({"ordered_kv_records": [["k"]], "key": "k", "value": "v"})",
       "f:1: field ordered_kv_records[0] is not a pair of texts"},
      {R"({"ordered_kv_records": [["k", "v"]], "key": "k"})", "f:1: field value is missing"},
      {R"({"context": "c", "input": "i", "answers": [null]})", "f:1: field answers[0] is not"},
  };
  for (const auto& [line, message] : faults) {
    const Result<std::vector<Document>> documents = read_documents(line, "f");
    ASSERT_FALSE(documents.ok()) << line;
    EXPECT_EQ(documents.status().code(), Code::kInvalidArgument);
    EXPECT_TRUE(documents.status().message().starts_with(message))
        << line << ": " << documents.status().message();
  }
}

}  // namespace
}  // namespace quire::eval
