#include "model/schema.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <string_view>

#include "model/pattern.h"

namespace quire::model {
namespace {

constexpr std::size_t kMaxConstantBytes = 4096;
constexpr std::size_t kMaxWaysIn = 2000;

// Keywords that allow and forbid nothing, or only describe.
bool is_annotation(const std::string& key) {
  static const std::set<std::string, std::less<>> keys = {
      "$anchor",  "$comment",    "$defs",      "$id",         "$schema",       "contentEncoding",
      "default",  "definitions", "deprecated", "description", "discriminator", "example",
      "examples", "nullable",    "readOnly",   "strict",      "title",         "writeOnly"};
  return keys.contains(key) || key.starts_with("x-");
}

class Checker {
 public:
  explicit Checker(Json& root) : root_(root) {}

  // False: fault() says why.
  bool check(Json& node, const std::string& path, std::size_t depth);
  // Once all is checked: libllama looks for left recursion along every way into every rule.
  bool check_ways_in(const Json& value);
  const std::string& fault() const { return fault_; }

 private:
  bool refuse(const std::string& path, const std::string& why) {
    if (fault_.empty()) fault_ = path + ": " + why;
    return false;
  }
  bool only(const Json& node, const std::string& path, std::initializer_list<const char*> allowed);
  bool reference(Json& node, const std::string& path, std::size_t depth);
  bool alternatives(Json& node, const char* key, const std::string& path, std::size_t depth);
  bool constants(const Json& node, const std::string& path);
  bool typed(Json& node, const std::set<std::string>& types, const std::string& path,
             std::size_t depth);
  bool object(Json& node, const std::string& path, std::size_t depth);
  bool array(Json& node, const std::string& path, std::size_t depth);
  bool string(Json& node, const std::string& path);
  bool integer(const Json& node, const std::string& path);
  bool all_of(Json& node, const std::string& path, std::size_t depth);
  bool counts(const Json& node, const char* least, const char* most, const std::string& path);
  bool choose(const std::string& path, std::size_t count) {
    choices_ += count;
    return choices_ <= kMaxSchemaChoices ||
           refuse(path, "more than " + std::to_string(kMaxSchemaChoices) + " choices in all");
  }
  Json* resolve(const std::string& reference);
  std::size_t ways_in(const Json& node);

  Json& root_;
  std::map<const Json*, std::size_t> ways_in_;  // 0: being counted
  std::set<std::string> visited_;               // references
  std::size_t nodes_ = 0, choices_ = 0;
  std::string fault_;
};

bool Checker::only(const Json& node, const std::string& path,
                   std::initializer_list<const char*> allowed) {
  for (const auto& [key, value] : node.items()) {
    if (is_annotation(key)) continue;
    const auto equals = [&key = key](const char* name) { return key == name; };
    if (std::none_of(allowed.begin(), allowed.end(), equals)) {
      return refuse(path, "keyword '" + brief(key) + "' is not supported here");
    }
  }
  return true;
}

bool Checker::check(Json& node, const std::string& path, std::size_t depth) {
  if (!node.is_object()) return refuse(path, "a schema must be an object");
  if (++nodes_ > kMaxSchemaNodes) {
    return refuse(path, "more than " + std::to_string(kMaxSchemaNodes) + " subschemas");
  }
  if (depth > kMaxSchemaDepth) {
    return refuse(path, "nested more than " + std::to_string(kMaxSchemaDepth) + " deep");
  }
  if (node.contains("allOf") && node["allOf"].is_array() && node["allOf"].size() == 1) {
    if (!only(node, path, {"allOf"})) return false;
    Json child = node["allOf"][0];
    // References lead into the definitions, which must stay where they are.
    for (const char* const key : {"$defs", "definitions"}) {
      if (child.is_object() && !child.contains(key) && node.contains(key)) child[key] = node[key];
    }
    node = std::move(child);
    return check(node, path, depth + 1);
  }
  if (node.contains("$ref")) return reference(node, path, depth);
  if (node.contains("oneOf")) return alternatives(node, "oneOf", path, depth);
  if (node.contains("anyOf")) return alternatives(node, "anyOf", path, depth);

  std::set<std::string> types;
  if (node.contains("type")) {
    const Json& type = node["type"];
    if (!type.is_string() && !type.is_array()) return refuse(path, "type must be text or a list");
    for (const Json& one : type.is_array() ? type : Json::array({type})) {
      if (!one.is_string()) return refuse(path, "type must be text or a list of texts");
      if (!types.insert(one.get<std::string>()).second) return refuse(path, "a type twice");
    }
    if (types.empty()) return refuse(path, "type must not be empty");
  }
  if (node.contains("const") || node.contains("enum")) return constants(node, path);
  return typed(node, types, path, depth);
}

bool Checker::typed(Json& node, const std::set<std::string>& types, const std::string& path,
                    std::size_t depth) {
  static const std::set<std::string> known = {"object", "array",   "string", "integer",
                                              "number", "boolean", "null"};
  for (const std::string& type : types) {
    if (!known.contains(type)) return refuse(path, "unknown type '" + brief(type) + "'");
  }
  const auto has = [&](std::initializer_list<const char*> keys) {
    return std::any_of(keys.begin(), keys.end(), [&](const char* k) { return node.contains(k); });
  };
  const bool any = types.empty();
  bool is_object = types.contains("object"), is_array = types.contains("array");
  bool is_string = types.contains("string");
  if (any) {  // the converter's order, where there is no type
    is_object = has({"properties", "additionalProperties"});
    if (!is_object && node.contains("allOf")) return all_of(node, path, depth);
    is_array = !is_object && has({"items", "prefixItems"});
    is_string = !is_object && !is_array && has({"pattern", "minLength", "maxLength", "format"});
  } else if (node.contains("allOf")) {
    if (types.size() > 1 || !is_object || has({"properties", "additionalProperties"})) {
      return refuse(path, "allOf beside other keywords is not supported");
    }
    return all_of(node, path, depth);
  }
  // The keywords of the types that are possible; all others would be ignored.
  for (const auto& [key, value] : node.items()) {
    if (is_annotation(key) || key == "type") continue;
    const auto one_of = [&key = key](std::initializer_list<const char*> keys) {
      return std::any_of(keys.begin(), keys.end(), [&](const char* k) { return key == k; });
    };
    const bool enforced =
        (is_object && one_of({"properties", "required", "additionalProperties"})) ||
        (is_array && one_of({"items", "prefixItems", "minItems", "maxItems"})) ||
        (is_string && one_of({"pattern", "minLength", "maxLength", "format"})) ||
        (types.contains("integer") && !types.contains("number") &&
         one_of({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})) ||
        key == "format";
    if (!enforced) return refuse(path, "keyword '" + brief(key) + "' is not supported here");
  }
  return (!is_object || object(node, path, depth)) && (!is_array || array(node, path, depth)) &&
         (!is_string || string(node, path)) && (!types.contains("integer") || integer(node, path));
}

Json* Checker::resolve(const std::string& reference) {
  Json* target = &root_;
  std::size_t at = 2;
  while (at <= reference.size()) {
    const std::size_t end = std::min(reference.find('/', at), reference.size());
    const std::string key = reference.substr(at, end - at);
    at = end + 1;
    if (target->is_object() && target->contains(key)) {
      target = &(*target)[key];
    } else if (target->is_array() && !key.empty() && key.size() < 6 &&
               key.find_first_not_of("0123456789") == std::string::npos &&
               std::stoul(key) < target->size()) {
      target = &(*target)[std::stoul(key)];
    } else {
      return nullptr;
    }
  }
  return target;
}

bool Checker::reference(Json& node, const std::string& path, std::size_t depth) {
  if (!only(node, path, {"$ref"})) return false;
  std::string name;
  Json* target = &node;
  // A reference to a reference is followed here: a ring of them would be followed for ever.
  for (std::size_t hops = 0; target->is_object() && target->contains("$ref"); ++hops) {
    if (!(*target)["$ref"].is_string()) return refuse(path, "$ref must be text");
    name = (*target)["$ref"].get<std::string>();
    if (!name.starts_with("#/")) return refuse(path, "$ref must begin with #/");
    if (name.size() > kMaxSchemaName) return refuse(path, "a $ref of more than 128 bytes");
    if (hops > kMaxSchemaDepth) return refuse(path, "$ref leads in a ring");
    target = resolve(name);
    if (target == nullptr) return refuse(path, "$ref '" + brief(name) + "' leads nowhere");
  }
  if (!visited_.insert(name).second) return true;
  return check(*target, name, depth + 1);
}

bool Checker::alternatives(Json& node, const char* key, const std::string& path,
                           std::size_t depth) {
  if (!only(node, path, {key})) return false;
  Json& list = node[key];
  if (!list.is_array() || list.empty()) {
    return refuse(path, std::string(key) + " must be a list that is not empty");
  }
  if (!choose(path, list.size())) return false;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!check(list[i], path + "/" + key + "/" + std::to_string(i), depth + 1)) return false;
  }
  return true;
}

bool Checker::constants(const Json& node, const std::string& path) {
  if (!only(node, path, {node.contains("const") ? "const" : "enum", "type"})) return false;
  const Json values = node.contains("const") ? Json::array({node["const"]}) : node["enum"];
  if (!values.is_array() || values.empty()) {
    return refuse(path, "enum must be a list that is not empty");
  }
  if (!choose(path, values.size())) return false;
  const auto fits = [&](const Json& value) {
    if (!node.contains("type")) return true;
    for (const Json& type : node["type"].is_array() ? node["type"] : Json::array({node["type"]})) {
      const std::string& name = type.get_ref<const std::string&>();
      if ((name == "object" && value.is_object()) || (name == "array" && value.is_array()) ||
          (name == "string" && value.is_string()) || (name == "number" && value.is_number()) ||
          (name == "integer" && value.is_number_integer()) ||
          (name == "boolean" && value.is_boolean()) || (name == "null" && value.is_null())) {
        return true;
      }
    }
    return false;
  };
  for (const Json& value : values) {
    if (!fits(value)) return refuse(path, "a value that is not of the type");
    if (value.dump().size() > kMaxConstantBytes) {
      return refuse(path, "a value of more than 4096 bytes");
    }
  }
  return true;
}

bool Checker::object(Json& node, const std::string& path, std::size_t depth) {
  const Json properties = node.value("properties", Json::object());
  if (!properties.is_object()) return refuse(path, "properties must be an object");
  if (properties.size() > kMaxSchemaProperties) {
    return refuse(path, "more than " + std::to_string(kMaxSchemaProperties) + " properties");
  }
  bool others = false;
  if (node.contains("additionalProperties")) {
    Json& additional = node["additionalProperties"];
    others = !additional.is_boolean() || additional.get<bool>();
    if (!additional.is_boolean() && !check(additional, path + "/additionalProperties", depth + 1)) {
      return false;
    }
  }
  for (const auto& [name, ignored] : properties.items()) {
    if (name.size() > kMaxSchemaName) return refuse(path, "a property's name of over 128 bytes");
    // The converter puts these into classes as they are, where other names are allowed too.
    if (others && name.find_first_of("]^\\\"") != std::string::npos) {
      return refuse(path, "property '" + brief(name) + "' beside additionalProperties");
    }
    if (!check(node["properties"][name], path + "/properties/" + brief(name), depth + 1)) {
      return false;
    }
  }
  if (!node.contains("required")) return true;
  if (!node["required"].is_array()) return refuse(path, "required must be a list of names");
  for (const Json& name : node["required"]) {
    if (!name.is_string() || !properties.contains(name.get<std::string>())) {
      return refuse(path, "required names what is not in properties");
    }
  }
  return true;
}

bool Checker::array(Json& node, const std::string& path, std::size_t depth) {
  if (node.contains("prefixItems") && node.contains("items")) {
    if (node["items"] != false) return refuse(path, "items beside prefixItems is not supported");
    node.erase("items");  // no further items: what the grammar of prefixItems means anyway
  }
  const char* const key = node.contains("prefixItems") ? "prefixItems" : "items";
  if (!node.contains(key)) return counts(node, "minItems", "maxItems", path);
  Json& items = node[key];
  if (!items.is_array()) {
    return check(items, path + "/" + key, depth + 1) && counts(node, "minItems", "maxItems", path);
  }
  for (const char* const count : {"minItems", "maxItems"}) {
    if (node.contains(count) && node[count] != items.size()) {
      return refuse(path, std::string(count) + " other than the number of prefixItems");
    }
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!check(items[i], path + "/" + key + "/" + std::to_string(i), depth + 1)) return false;
  }
  return true;
}

bool Checker::counts(const Json& node, const char* least, const char* most,
                     const std::string& path) {
  for (const char* const key : {least, most}) {
    if (!node.contains(key)) continue;
    const Json& count = node[key];
    if (!count.is_number_unsigned() || count.get<std::uint64_t>() > kMaxSchemaCount) {
      return refuse(path, std::string(key) + " must be 0 ... " + std::to_string(kMaxSchemaCount));
    }
  }
  if (node.contains(least) && node.contains(most) && node[least] > node[most]) {
    return refuse(path, std::string(least) + " is over " + most);
  }
  return true;
}

bool Checker::string(Json& node, const std::string& path) {
  static const std::set<std::string> formats = {"date",  "time",  "date-time", "uuid", "uuid1",
                                                "uuid2", "uuid3", "uuid4",     "uuid5"};
  const bool lengths = node.contains("minLength") || node.contains("maxLength");
  const bool format = node.contains("format") && node["format"].is_string() &&
                      formats.contains(node["format"].get<std::string>());
  if (lengths + node.contains("pattern") + format > 1) {
    return refuse(path, "only one of a pattern, a format and lengths is supported");
  }
  if (node.contains("pattern")) {
    if (!node["pattern"].is_string()) return refuse(path, "pattern must be text");
    const Result<std::string> plain = plain_pattern(node["pattern"].get<std::string>());
    if (!plain.ok()) return refuse(path, "pattern: " + plain.status().message());
    node["pattern"] = *plain;
  }
  return counts(node, "minLength", "maxLength", path);
}

bool Checker::integer(const Json& node, const std::string& path) {
  constexpr std::int64_t kMost = 1'000'000'000'000'000;  // 16 digits: what the grammar counts
  std::int64_t bounds[2] = {-kMost, kMost};
  const char* const keys[2][2] = {{"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"}};
  for (int side = 0; side < 2; ++side) {
    if (node.contains(keys[side][0]) && node.contains(keys[side][1])) {
      return refuse(path, std::string(keys[side][0]) + " beside " + keys[side][1]);
    }
    for (int exclusive = 0; exclusive < 2; ++exclusive) {
      const char* const key = keys[side][exclusive];
      if (!node.contains(key)) continue;
      const Json& bound = node[key];
      if (!bound.is_number_integer() || bound < -kMost || bound > kMost) {
        return refuse(path, std::string(key) + " must be a whole number of at most 15 digits");
      }
      bounds[side] = bound.get<std::int64_t>() + (exclusive == 0 ? 0 : side == 0 ? 1 : -1);
    }
  }
  return bounds[0] <= bounds[1] || refuse(path, "no number is within the bounds");
}

// The converter joins the properties of objects, and makes all of them required.
bool Checker::all_of(Json& node, const std::string& path, std::size_t depth) {
  if (!only(node, path, {"allOf", "type"})) return false;
  Json& list = node["allOf"];
  if (!list.is_array() || list.empty()) return refuse(path, "allOf must be a list");
  std::set<std::string> names;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string place = path + "/allOf/" + std::to_string(i);
    if (!check(list[i], place, depth + 1)) return false;
    const Json* child = &list[i];
    while (child->contains("$ref")) child = resolve((*child)["$ref"].get<std::string>());
    if (!child->contains("properties") || child->contains("additionalProperties") ||
        child->value("type", Json("object")) != "object") {
      return refuse(place, "allOf is supported of objects with properties only");
    }
    for (const auto& [name, ignored] : (*child)["properties"].items()) {
      if (!names.insert(name).second) {
        return refuse(place, "property '" + brief(name) + "' is in two parts of allOf");
      }
    }
  }
  return true;
}

// Of alternatives and references until a bracket or a value begins.
std::size_t Checker::ways_in(const Json& node) {
  const auto [known, added] = ways_in_.emplace(&node, 0);
  if (!added) {
    if (known->second == 0) refuse("#", "a schema is one of its own alternatives");
    return known->second;
  }
  std::size_t ways = 1;
  if (node.contains("$ref") && node["$ref"].is_string()) {
    const Json* target = resolve(node["$ref"].get<std::string>());
    if (target != nullptr && target->is_object()) ways += ways_in(*target);
  }
  for (const char* const key : {"oneOf", "anyOf"}) {
    if (!node.contains(key) || !node[key].is_array()) continue;
    for (const Json& one : node[key]) {
      if (one.is_object() && ways <= kMaxWaysIn) ways += ways_in(one);
    }
  }
  if (ways > kMaxWaysIn) refuse("#", "alternatives within alternatives: more than 2000 ways");
  return ways_in_[&node] = ways;
}

bool Checker::check_ways_in(const Json& value) {
  if (value.is_object()) (void)ways_in(value);
  for (const Json& child : value) {
    if (!fault_.empty()) break;
    if (child.is_structured() && !check_ways_in(child)) break;
  }
  return fault_.empty();
}

}  // namespace

Result<Json> plain_schema(Json schema, const std::string& field) {
  Checker checker(schema);
  if (!checker.check(schema, "#", 0) || !checker.check_ways_in(schema)) {
    return Status(Code::kInvalidArgument, field + checker.fault().substr(1));
  }
  return schema;
}

}  // namespace quire::model
