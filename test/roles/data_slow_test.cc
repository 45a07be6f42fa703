// Goal: real JSON gets the roles that a parser gives it.
// Method: documents of ../shared/data, which are not part of the repository; without them the test
// is
//   skipped.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "roles/roles.h"
#include "roles/shown.h"

namespace quire::roles {
namespace {

using nlohmann::json;

void count(const json& value, std::size_t& keys, std::size_t& values) {
  if (!value.is_structured()) {
    ++values;
    return;
  }
  if (value.is_object()) keys += value.size();
  for (const json& inner : value) count(inner, keys, values);
}

TEST(Data, RealJsonHasTheKeysAndValuesOfAParser) {
  for (const std::string name :
       {"citm_catalog.json", "countries.json", "amazon_cellphones.ndjson"}) {
    std::ifstream in("../shared/data/json/" + name, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (text.empty()) GTEST_SKIP() << "no ../shared/data/json/" << name;
    std::size_t keys = 0, values = 0, found_keys = 0, found_values = 0;
    if (name.ends_with(".ndjson")) {
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) count(json::parse(line), keys, values);
    } else {
      const json whole = json::parse(text);
      count(whole, keys, values);
    }
    for (const test::Run& run : test::runs(text, label_text(text))) {
      ASSERT_NE(run.role, Role::kProse) << name << " at " << run.begin;
      found_keys += run.role == Role::kKey ? 1 : 0;
      found_values += run.role == Role::kValue ? 1 : 0;
    }
    EXPECT_EQ(found_keys, keys) << name;
    EXPECT_EQ(found_values, values) << name;
    EXPECT_GT(values, 1000u) << name;
  }
}

}  // namespace
}  // namespace quire::roles
