// The made-up decoder with a tokenizer that spells what it read: a letter a token, so that JSON
// stays JSON.  Letters without a token of their own are written as others are.
#pragma once

#include <string>
#include <string_view>

#include "engine/fake_model.h"

namespace quire::test {

class JsonModel final : public FakeModel {
 public:
  std::vector<model::Token> tokenize(std::string_view text, bool, bool) const override {
    std::vector<model::Token> tokens;
    for (const char c : text) {
      const std::size_t at = kLetters.find(c);
      const auto other = 20 + static_cast<unsigned char>(c) % 26;
      tokens.push_back(static_cast<model::Token>(at == std::string_view::npos ? other : at));
    }
    return tokens;
  }
  std::string piece(model::Token token, bool) const override {
    return std::string(1, kLetters[static_cast<std::size_t>(token)]);
  }

 private:
  static constexpr std::string_view kLetters = "{}[]\":,_ \n0123456789abcdefghijklmnopqrstuvwxyz";
  static_assert(kLetters.size() < kVocabulary);
};

}  // namespace quire::test
