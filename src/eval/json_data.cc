#include "eval/json_data.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

namespace quire::eval {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kSolved = 3;
constexpr std::size_t kAnswerLeast = 2, kAnswerMost = 24;  // letters, quotes left out
constexpr std::size_t kQuestionTokens = 40;                // with its answer
constexpr std::size_t kPathMost = 4;                       // names of a question
constexpr std::size_t kBytesAToken = 4;  // at most, of such text: what is cut first is cut by bytes

Result<Json> parsed(std::string_view text, const std::string& name) {
  if (Json whole = Json::parse(text, nullptr, false); !whole.is_discarded()) return whole;
  Json lines = Json::array();
  for (std::size_t begin = 0, number = 1; begin < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    Json value = Json::parse(line, nullptr, false);
    if (value.is_discarded()) {
      return Status(Code::kInvalidArgument, name + ":" + std::to_string(number) +
                                                ": neither JSON nor a line of JSON Lines");
    }
    lines.push_back(std::move(value));
  }
  return lines;
}

// --- documents ---

void append(Json& to, const Json& from, Json::const_iterator child) {
  if (from.is_object()) {
    to[child.key()] = *child;
  } else {
    to.push_back(*child);
  }
}

// Runs of neighbours that have at most so many bytes; what is longer is divided itself.
void divide(const Json& node, std::size_t bytes, std::vector<Json>& parts) {
  if (!node.is_structured()) return;
  const Json none = node.is_object() ? Json::object() : Json::array();
  Json part = none;
  std::size_t used = 0;
  const auto close = [&] {
    if (!part.empty()) parts.push_back(std::exchange(part, none));
    used = 0;
  };
  for (auto child = node.begin(); child != node.end(); ++child) {
    const std::size_t size = child->dump(2).size();
    if (used + size > bytes) close();
    if (size > bytes) {
      divide(*child, bytes, parts);
      continue;
    }
    append(part, node, child);
    used += size;
  }
  close();
}

// The part without as many of its last children as are too many.
Json fitted(Json part, std::size_t tokens, const TokenCount& count) {
  while (part.size() > 1 && count(part.dump(2)) > tokens) {
    part.erase(std::prev(part.end()));
  }
  return part;
}

// --- questions ---

// A step of a path: a member's name, or the member that tells a record of a list from the others.
struct Step {
  std::string text;
  bool record = false;
};
using Path = std::vector<Step>;

// The last `steps` as a file would write them, and what closes them: `"a": {"b":` and `}`.
struct End {
  std::string text, close;
};

End end_of(const Path& path, std::size_t steps) {
  End end;
  bool inside = false;  // an object is open already
  for (std::size_t i = path.size() - steps; i < path.size(); ++i) {
    const bool first = end.text.empty();
    if (path[i].record) {
      end.text += (first ? "{" : " [{") + path[i].text + ", ";
      end.close.insert(0, first ? "}" : "}]");
    } else {
      if (!first && !inside) end.text += " {", end.close.insert(0, "}");
      end.text += path[i].text;
    }
    inside = path[i].record;
  }
  return end;
}

struct Leaf {
  Path path;
  std::string value;
};

class Questions {
 public:
  explicit Questions(const Json& document) {
    Path path;
    visit(document, path);
  }

  std::vector<Question> all(const TokenCount& count) const {
    std::vector<Question> found;
    for (const Leaf& leaf : leaves_) {
      if (values_.at(leaf.value) != 1) continue;
      const std::optional<Question> question = question_of(leaf);
      if (question && count(question->prompt + question->answer) <= kQuestionTokens) {
        found.push_back(*question);
      }
    }
    return found;
  }

 private:
  static bool askable(const Json& value) {
    if (!value.is_string() && !value.is_number()) return false;
    const std::size_t letters = value.dump().size() - (value.is_string() ? 2 : 0);
    return letters >= kAnswerLeast && letters <= kAnswerMost;
  }

  void visit(const Json& node, Path& path) {
    if (node.is_object()) {
      for (auto member = node.begin(); member != node.end(); ++member) {
        step({Json(member.key()).dump() + ":"}, *member, path);
      }
    } else if (node.is_array()) {
      for (const Json& item : node) {
        if (item.is_object()) step({name_of(item, node), true}, item, path);
        if (item.is_primitive()) ++values_[item.dump()];
      }
    }
  }

  void step(Step step, const Json& to, Path& path) {
    path.push_back(std::move(step));
    for (std::size_t steps = 1; steps <= std::min(path.size(), kPathMost); ++steps) {
      ++ends_[end_of(path, steps).text];
    }
    if (!to.is_structured()) ++values_[to.dump()];
    if (askable(to)) leaves_.push_back({path, to.dump()});
    visit(to, path);
    path.pop_back();
  }

  // "id": 339887544 of a record, where no other record of the list has it; else nothing.
  static std::string name_of(const Json& record, const Json& list) {
    for (auto member = record.begin(); member != record.end(); ++member) {
      if (!askable(*member)) continue;
      const auto has = [&](const Json& other) {
        return other.is_object() && other.contains(member.key()) && other[member.key()] == *member;
      };
      if (std::ranges::count_if(list, has) == 1) {
        return Json(member.key()).dump() + ": " + member->dump();
      }
    }
    return {};
  }

  std::optional<Question> question_of(const Leaf& leaf) const {
    for (std::size_t steps = 1; steps <= std::min(leaf.path.size(), kPathMost); ++steps) {
      const Step& first = leaf.path[leaf.path.size() - steps];
      if (first.record && first.text.empty()) return {};  // beyond a record without a name
      const End end = end_of(leaf.path, steps);
      if (ends_.at(end.text) != 1) continue;
      // What a record is called by is no answer.
      if (end.text.find(" " + leaf.value + ",") != std::string::npos) return {};
      return Question{.prompt = end.text, .answer = " " + leaf.value, .after = end.close + "\n"};
    }
    return {};
  }

  std::vector<Leaf> leaves_;
  std::map<std::string, std::size_t> ends_, values_;
};

std::optional<Document> document_of(const Json& part, const JsonShape& shape, const Stream& stream,
                                    const TokenCount& count) {
  const std::string text = part.dump(2);
  const std::size_t tokens = count(text);
  if (tokens > shape.tokens || tokens < shape.tokens / 2) return {};
  const std::vector<Question> all = Questions(part).all(count);
  if (all.size() <= kSolved) return {};
  Document document{.text = text, .lead = "\n\n"};
  const std::size_t chosen = std::min(all.size(), kSolved + std::size_t{shape.questions});
  for (const std::size_t i : drawn(all.size(), chosen, stream)) {
    if (std::ranges::count(document.lead, '\n') < static_cast<std::ptrdiff_t>(2 + kSolved)) {
      document.lead += all[i].prompt + all[i].answer + all[i].after;
    } else {
      document.questions.push_back(all[i]);
    }
  }
  return document;
}

}  // namespace

Result<std::vector<Document>> json_documents(std::string_view text, const std::string& name,
                                             const JsonShape& shape, const Stream& stream,
                                             const TokenCount& count) {
  const Result<Json> whole = parsed(text, name);
  if (!whole.ok()) return whole.status();
  std::vector<Json> parts;
  divide(*whole, shape.tokens * kBytesAToken, parts);
  std::vector<Document> documents;
  const std::vector<std::size_t> order = drawn(parts.size(), parts.size(), stream.of(0));
  for (std::size_t i = 0; i < order.size() && documents.size() < shape.documents; ++i) {
    const Json part = fitted(std::move(parts[order[i]]), shape.tokens, count);
    std::optional<Document> document = document_of(part, shape, stream.of(1).of(i), count);
    if (document) documents.push_back(*std::move(document));
  }
  if (!documents.empty()) return documents;
  return Status(Code::kInvalidArgument, name + ": no part of " + std::to_string(shape.tokens / 2) +
                                            " to " + std::to_string(shape.tokens) + " tokens has " +
                                            std::to_string(kSolved + 1) +
                                            " members with a value of its own to ask for");
}

}  // namespace quire::eval
