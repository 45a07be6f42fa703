// A tree of names and values, made from a seed, and the forms it can be written in.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "eval/random.h"

namespace quire::eval {

// Numbers of a stream, one after the other.
class Draws {
 public:
  explicit Draws(const Stream& stream) : stream_(stream) {}
  std::size_t below(std::size_t n) { return stream_.below(n, next_++); }
  std::size_t between(std::size_t least, std::size_t most) {
    return least + below(most - least + 1);
  }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <typename List>
  const auto& of(const List& list) {
    return list[below(list.size())];
  }

 private:
  Stream stream_;
  std::uint64_t next_ = 0;
};

struct Node {
  enum class Kind : std::uint8_t { kText, kLiteral, kObject, kList };
  Kind kind = Kind::kText;
  std::string name, text;   // text: of the first two
  std::vector<Node> inner;  // of the others; those of a list have no name
};

// Names and values as one document has them: each document has its own manner.
class Wording {
 public:
  Wording(Draws& draws, std::span<const std::string> prose);
  std::string name();   // also of an XML element
  Node value();         // without a name
  std::string words();  // letters, digits, blanks and , : ' of one sentence

 private:
  Draws& draws_;
  const std::span<const std::string> prose_;
  const std::size_t names_, values_;
};

Node tree(Draws& draws, Wording& wording);

std::string json_text(const Node& node, std::size_t indent);  // 0: on one line
std::string xml_text(const Node& node, bool attributes);
std::string table_text(Draws& draws, Wording& wording);

}  // namespace quire::eval
