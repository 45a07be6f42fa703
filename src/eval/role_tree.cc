#include "eval/role_tree.h"

#include <array>
#include <cctype>
#include <utility>

#include "eval/words.h"

namespace quire::eval {
namespace {

std::string letters_and_digits(Draws& draws, std::size_t count) {
  constexpr std::string_view kAll = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::string text;
  while (text.size() < count) text += draws.of(kAll);
  return text;
}

std::string digits(Draws& draws, std::size_t count) {
  std::string text(1, static_cast<char>('1' + draws.below(9)));
  while (text.size() < count) text += static_cast<char>('0' + draws.below(10));
  return text;
}

std::string capital(std::string_view word) {
  std::string text(word);
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

std::string written(std::string_view text, const char* quote) {
  std::string all;
  for (const char c : text) all += c == '"' ? std::string(quote) : std::string(1, c);
  return all;
}

Node leaf(Node::Kind kind, std::string text) {
  return {.kind = kind, .text = std::move(text)};
}

bool structured(const Node& node) {
  return node.kind == Node::Kind::kObject || node.kind == Node::Kind::kList;
}

Node object(Draws& draws, Wording& wording, std::size_t depth) {
  Node made{.kind = Node::Kind::kObject};
  for (std::size_t i = draws.between(2, 4); i > 0; --i) {
    Node inner = depth > 1 ? object(draws, wording, depth - 1) : wording.value();
    if (depth == 1 && draws.one_in(8)) {
      Node list{.kind = Node::Kind::kList};
      for (std::size_t k = draws.between(1, 5); k > 0; --k) list.inner.push_back(wording.value());
      inner = std::move(list);
    }
    inner.name = wording.name();
    made.inner.push_back(std::move(inner));
  }
  return made;
}

Node records(Draws& draws, Wording& wording) {
  Node made{.kind = Node::Kind::kObject};
  for (std::size_t i = draws.between(8, 60); i > 0; --i) {
    made.inner.push_back(wording.value());
    made.inner.back().name = wording.name();
  }
  return made;
}

Node alike_objects(Draws& draws, Wording& wording) {
  std::vector<std::string> names(draws.between(2, 6));
  for (std::string& name : names) name = wording.name();
  Node list{.kind = Node::Kind::kList};
  for (std::size_t i = draws.between(3, 12); i > 0; --i) {
    Node one{.kind = Node::Kind::kObject};
    for (const std::string& name : names) {
      one.inner.push_back(wording.value());
      one.inner.back().name = name;
    }
    list.inner.push_back(std::move(one));
  }
  return list;
}

void write_json(const Node& node, std::size_t indent, std::size_t level, std::string& text) {
  if (!structured(node)) {
    const bool quoted = node.kind == Node::Kind::kText;
    text += quoted ? '"' + written(node.text, "\\\"") + '"' : node.text;
    return;
  }
  const auto line = [&](std::size_t at) {
    if (indent > 0) text += '\n' + std::string(indent * at, ' ');
  };
  const bool list = node.kind == Node::Kind::kList;
  text += list ? '[' : '{';
  for (std::size_t i = 0; i < node.inner.size(); ++i) {
    if (i > 0) text += ',';
    line(level + 1);
    if (!list) text += '"' + node.inner[i].name + (indent > 0 ? "\": " : "\":");
    write_json(node.inner[i], indent, level + 1, text);
  }
  line(level);
  text += list ? ']' : '}';
}

void write_xml(const Node& node, const std::string& name, bool attributes, std::size_t level,
               std::string& text) {
  const std::string indent(2 * level, ' ');
  text += indent + '<' + name;
  std::size_t first = 0;  // an attribute, where an element has more than that
  if (attributes && node.inner.size() > 1 && !structured(node.inner[0]) &&
      !node.inner[0].name.empty()) {
    text += ' ' + node.inner[0].name + "=\"" + written(node.inner[0].text, "&quot;") + '"';
    first = 1;
  }
  text += '>';
  if (!structured(node)) {
    text += written(node.text, "&quot;");
  } else {
    text += '\n';
    for (std::size_t i = first; i < node.inner.size(); ++i) {
      const std::string& inner = node.inner[i].name;
      write_xml(node.inner[i], inner.empty() ? "item" : inner, attributes, level + 1, text);
    }
    text += indent;
  }
  text += "</" + name + ">\n";
}

}  // namespace

Wording::Wording(Draws& draws, std::span<const std::string> prose)
    : draws_(draws), prose_(prose), names_(draws.below(6)), values_(draws.below(16)) {}

std::string Wording::name() {
  const std::string_view first = draws_.of(kAdjectives), second = draws_.of(kAnimals);
  switch (names_) {
    case 0:
      return "word_" + digits(draws_, 2);
    case 1:
      return std::string(first) + '_' + std::string(second);
    case 2:
      return std::string(first) + capital(second);
    case 3:
      return std::string(first) + '-' + std::string(second);
    case 4:
      return std::string(draws_.one_in(2) ? second : draws_.of(kThings));
    default:
      return capital(draws_.of(kThings)) + (draws_.one_in(3) ? digits(draws_, 1) : "");
  }
}

std::string Wording::words() {
  const std::string& sentence = draws_.of(prose_);
  const std::size_t begin = draws_.below(sentence.size());
  const std::size_t most = draws_.between(6, 60);
  std::string text;
  for (std::size_t i = begin; i < sentence.size() && text.size() < most; ++i) {
    const char c = sentence[i];
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (plain || (!text.empty() && (c == ' ' || c == ',' || c == ':' || c == '\''))) text += c;
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text.empty() ? std::string(draws_.of(kThings)) : text;
}

// Half of the documents have values of one kind.
Node Wording::value() {
  using enum Node::Kind;
  switch (values_ < 8 ? values_ : draws_.below(8)) {
    case 0:
      return leaf(kText, letters_and_digits(draws_, draws_.between(4, 16)));
    case 1:
      return leaf(kLiteral, digits(draws_, 5));
    case 2:
      return leaf(kLiteral, digits(draws_, draws_.between(1, 4)) + '.' + digits(draws_, 2));
    case 3:
      return leaf(kLiteral, draws_.one_in(3) ? "null" : draws_.one_in(2) ? "true" : "false");
    case 4:
      return leaf(kText, words());
    case 5:
      return leaf(kText,
                  "20" + digits(draws_, 2) + "-0" + digits(draws_, 1) + "-1" + digits(draws_, 1));
    case 6:
      return leaf(kText, "https://" + std::string(draws_.of(kThings)) + ".example/" +
                             letters_and_digits(draws_, draws_.between(3, 12)));
    default:
      return leaf(kText, std::string(draws_.of(kAdjectives)) + ' ' +
                             (draws_.one_in(6) ? '"' + words() + '"' : words()));
  }
}

Node tree(Draws& draws, Wording& wording) {
  switch (draws.below(3)) {
    case 0:
      return object(draws, wording, 3);
    case 1:
      return records(draws, wording);
    default:
      return alike_objects(draws, wording);
  }
}

std::string json_text(const Node& node, std::size_t indent) {
  std::string text;
  write_json(node, indent, 0, text);
  return text;
}

std::string xml_text(const Node& node, bool attributes) {
  std::string text;
  write_xml(node, "records", attributes, 0, text);
  return text;
}

std::string table_text(Draws& draws, Wording& wording) {
  const std::size_t columns = draws.between(2, 6);
  std::string text;
  const auto row = [&](auto cell) {
    text += '|';
    for (std::size_t i = 0; i < columns; ++i) text += cell() + '|';
    text += '\n';
  };
  const bool wide = draws.one_in(2);
  row([&] { return ' ' + wording.name() + ' '; });
  row([&] { return std::string(wide ? " --- " : "---"); });
  for (std::size_t i = draws.between(4, 30); i > 0; --i) {
    row([&] { return ' ' + wording.value().text + ' '; });
  }
  return text;
}

}  // namespace quire::eval
