// Goal: the state of a text is what stands to its left: the last mark, and whether a string is
// open. Method: texts by hand, the state behind each; a text cut into tokens anywhere has the same
// states.
#include "roles/text_state.h"

#include <gtest/gtest.h>

#include <string>

namespace quire::roles {
namespace {

std::string shown(std::string_view text) {
  constexpr const char* kNames[kMarks] = {"none",   "{", "[",  ",", "[,", ":",
                                          "closed", "<", "</", ">", "|",  "head|"};
  TextState state;
  state.read(text);
  EXPECT_LT(state.value(), kTextStates);
  return kNames[static_cast<std::size_t>(state.mark())] + std::string(state.quoted() ? " \"" : "");
}

TEST(TextState, IsTheLastMarkAndTheParityOfQuotes) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "none"},
      {"words. (and) 12", "none"},
      {"{", "{"},
      {R"({"k)", "{ \""},
      {R"({"k")", "{"},
      {R"({"k": )", ":"},
      {R"({"k": "v)", ": \""},
      {R"({"k": "v, {w} )", ": \""},
      {R"({"k": "a \" b)", ": \""},
      {R"({"k": "a \\")", ":"},
      {R"({"k": 1, )", ","},
      {R"({"k": [)", "["},
      {R"({"k": ["a", "b)", "[, \""},
      {R"({"k": ["a"], "l)", ", \""},
      {R"([{"a": 1}, )", ","},
      {R"({"k": {}})", "closed"},
      {"<a", "<"},
      {"<a id=\"x", "< \""},
      {"<a>text", ">"},
      {"<a>text</a", "</"},
      {"<a>text</a>", "closed"},
      {"<a/>", "closed"},
      {"a / b > c", ">"},
      {"| a ", "head|"},
      {"| a |\n|---", "|"},
      {"| a |\n|---|\n| b ", "|"},
      {"| a |\n\n| b ", "head|"},
      {"he said \"yes\nand", "none"},
      {"{\"k\": 1}\n\nWhy", "none"},
      {"{\"k\": 1,\r\n\r\nWhy", "none"},
      {"{\"k\": 1,\n  ", ","},
  };
  for (const auto& [text, state] : cases) EXPECT_EQ(shown(text), state) << text;
}

TEST(TextState, OfATokenIsThatOfItsFirstByteHoweverTheTextIsCut) {
  const std::string text =
      "See {\"k\\\"e\": [1, \"a\"]}\n\n<a b=\"c\">d</a>\n| x |\n|---|\n| 1 |\n";
  std::vector<std::size_t> ends;
  for (std::size_t i = 1; i <= text.size(); ++i) ends.push_back(i);
  const std::vector<std::uint8_t> bytes = text_states(text, ends);
  ASSERT_EQ(bytes.size(), text.size());
  for (std::size_t piece = 2; piece < 9; ++piece) {
    ends.clear();
    for (std::size_t end = piece; end < text.size(); end += piece) ends.push_back(end);
    ends.push_back(text.size());
    ends.push_back(text.size());  // an empty token
    const std::vector<std::uint8_t> states = text_states(text, ends);
    ASSERT_EQ(states.size(), ends.size());
    for (std::size_t i = 0; i + 1 < ends.size(); ++i) EXPECT_EQ(states[i], bytes[i * piece]);
  }
  EXPECT_TRUE(text_states("", {}).empty());
}

}  // namespace
}  // namespace quire::roles
