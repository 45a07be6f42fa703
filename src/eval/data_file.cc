#include "eval/data_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace quire::eval {
namespace {

using Json = nlohmann::ordered_json;

// One line; the first field that is not as it should be is remembered, and what is read from it is
// empty.
class Record {
 public:
  explicit Record(const Json& object) : object_(object) {}

  bool has(const char* field) const { return object_.contains(field); }
  const Status& status() const { return status_; }

  std::string text(const Json& parent, const std::string& key, const std::string& name) {
    const Json* value = find(parent, key, name);
    if (value == nullptr) return {};
    if (!value->is_string() || value->get_ref<const std::string&>().empty()) {
      refuse(name, "a text that is not empty");
      return {};
    }
    return value->get<std::string>();
  }
  std::string text(const char* field) { return text(object_, field, field); }

  // A text or a whole number.
  std::string word(const char* field) {
    const Json* value = find(object_, field, field);
    if (value == nullptr) return {};
    return value->is_number_integer() ? value->dump() : text(field);
  }

  // The list's items; at least one.
  std::vector<Json> list(const Json& parent, const std::string& key, const std::string& name) {
    const Json* value = find(parent, key, name);
    if (value == nullptr) return {};
    if (!value->is_array() || value->empty()) {
      refuse(name, "a list with an item");
      return {};
    }
    return value->get<std::vector<Json>>();
  }
  std::vector<Json> list(const char* field) { return list(object_, field, field); }

  std::vector<std::string> texts(const char* field) {
    std::vector<std::string> found;
    for (const Json& item : list(field)) {
      const std::string name = std::string(field) + "[" + std::to_string(found.size()) + "]";
      if (!item.is_string() || item.get_ref<const std::string&>().empty()) {
        refuse(name, "a text that is not empty");
        found.emplace_back();
      } else {
        found.push_back(item.get<std::string>());
      }
    }
    return found;
  }

  void refuse(const std::string& name, const std::string& wanted) {
    if (status_.ok()) status_ = {Code::kInvalidArgument, "field " + name + " is not " + wanted};
  }

 private:
  const Json* find(const Json& parent, const std::string& key, const std::string& name) {
    const auto at = parent.find(key);
    if (at != parent.end()) return &*at;
    if (status_.ok()) status_ = {Code::kInvalidArgument, "field " + name + " is missing"};
    return nullptr;
  }

  const Json& object_;
  Status status_;
};

// Document and question of one text: the question is its last line that is not blank.
std::pair<std::string, std::string> parted(std::string text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.pop_back();
  std::size_t border = text.rfind('\n');
  if (border == std::string::npos) return {{}, std::move(text)};
  const std::string question = text.substr(border + 1);
  while (border > 0 && text[border - 1] == '\n') --border;
  return {text.substr(0, border), question};
}

Document from_quire(Record& record) {
  Document document{.text = record.text("document"), .lead = "\n\n"};
  std::size_t number = 0;
  for (const Json& one : record.list("questions")) {
    const std::string name = "questions[" + std::to_string(number++) + "]";
    if (!one.is_object()) {
      record.refuse(name, "an object");
      continue;
    }
    document.questions.push_back({.prompt = record.text(one, "prompt", name + ".prompt"),
                                  .answer = record.text(one, "answer", name + ".answer")});
  }
  return document;
}

Document from_ruler(Record& record) {
  auto [text, question] = parted(record.text("input"));
  if (record.has("answer_prefix")) question += record.text("answer_prefix");
  std::string answer;
  for (const std::string& output : record.texts("outputs")) {
    answer += (answer.empty() ? " " : ", ") + output;
  }
  return {.text = std::move(text), .lead = "\n", .questions = {{question, answer}}};
}

Document from_longchat(Record& record) {
  auto [text, question] = parted(record.text("prompt"));
  const std::vector<Json> index = record.list("random_idx");
  if (!index.empty() && !index[0].is_string()) record.refuse("random_idx[0]", "a text");
  if (!record.status().ok()) return {};
  return {.text = std::move(text),
          .lead = "\n\n",
          .questions = {
              {question + "\n\nline " + index[0].get<std::string>() + ": REGISTER_CONTENT is <",
               record.word("expected_number"), ">\n"}}};
}

Document from_key_values(Record& record) {
  Document document{.text = "{", .lead = "\n\n"};
  std::size_t number = 0;
  for (const Json& pair : record.list("ordered_kv_records")) {
    const std::string name = "ordered_kv_records[" + std::to_string(number) + "]";
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      record.refuse(name, "a pair of texts");
      break;
    }
    document.text += number++ == 0 ? "" : ",\n ";
    document.text += pair[0].dump() + ": " + pair[1].dump();
  }
  document.text += "}";
  const std::string key = record.text("key"), value = record.text("value");
  document.questions = {{Json(key).dump() + ": \"", value, "\"\n"}};
  return document;
}

Document from_longbench(Record& record) {
  Document document{.text = record.text("context"), .lead = "\n\n"};
  const std::string question = record.text("input");
  const std::vector<std::string> expected = record.texts("answers");
  document.questions = {
      {"Question: " + question + "\nAnswer:", " " + (expected.empty() ? "" : expected[0])}};
  return document;
}

// The shapes, each told by a field that the others lack.
struct Shape {
  const char* field;
  Document (*read)(Record&);
};
constexpr Shape kShapes[] = {{"document", from_quire},
                             {"outputs", from_ruler},
                             {"expected_number", from_longchat},
                             {"ordered_kv_records", from_key_values},
                             {"context", from_longbench}};

Result<Document> document_of(const std::string& line) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object()) return Status(Code::kInvalidArgument, "not a JSON object");
  Record record(object);
  for (const Shape& shape : kShapes) {
    if (!record.has(shape.field)) continue;
    Document document = shape.read(record);
    if (!record.status().ok()) return record.status();
    if (document.text.empty()) {
      return Status(Code::kInvalidArgument,
                    "the text has one line only: no document before its question");
    }
    return document;
  }
  std::string fields;
  for (const Shape& shape : kShapes)
    fields += (fields.empty() ? "" : ", ") + std::string(shape.field);
  return Status(Code::kInvalidArgument, "no known shape: it has none of the fields " + fields);
}

}  // namespace

Result<std::vector<Document>> read_documents(std::string_view text, const std::string& name) {
  std::vector<Document> documents;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line(text.substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    Result<Document> document = document_of(line);
    if (!document.ok()) {
      return Status(document.status().code(),
                    name + ":" + std::to_string(number) + ": " + document.status().message());
    }
    documents.push_back(*std::move(document));
  }
  if (documents.empty()) return Status(Code::kInvalidArgument, name + ": no line with a document");
  return documents;
}

}  // namespace quire::eval
