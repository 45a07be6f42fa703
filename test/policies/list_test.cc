// Goal: a policy spec is read exactly, and a wrong one is refused with what would be right.
// Method: one case per way to be wrong; the message must name the policy, the option and the range.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "policies/lines.h"
#include "quire/policy.h"

namespace quire {
namespace {

std::string refusal(std::string_view spec) {
  const Result<Policy> policy = make_policy(spec);
  if (policy.ok()) return "accepted";
  EXPECT_EQ(policy.status().code(), Code::kInvalidArgument);
  return policy.status().message();
}

TEST(MakePolicy, ReadsOptions) {
  const Result<Policy> policy = make_policy("snapkv:window=32,pool=7,sinks=2,recent=100");
  ASSERT_TRUE(policy.ok()) << policy.status().message();
  EXPECT_EQ(policy->needs.window, 32u);
  EXPECT_EQ(policy->protect.sinks, 2u);
  EXPECT_EQ(policy->protect.recent, 100u);
  EXPECT_EQ(policy->name, "snapkv:window=32,pool=7,sinks=2,recent=100");
}

TEST(MakePolicy, AnUnknownNameListsThePolicies) {
  EXPECT_EQ(refusal("h20"),
            "no policy \"h20\"; there are full, sink-recency, random, prompt-random, h2o, h2o-age, "
            "scissorhands, tova, snapkv, snapkv-max7, snapkv-ahead, snapkv-global, "
            "pyramidkv, adakv, chunkkv, "
            "criticalkv, expected-attention, knorm, keydiff, lagkv, paged-eviction, kv-compress, "
            "r-kv, zipage, role-conditional, role-control");
  EXPECT_NE(refusal(""), "accepted");
}

TEST(MakePolicy, AnUnknownOptionListsTheOptions) {
  EXPECT_EQ(refusal("snapkv:windw=3"),
            "policy \"snapkv\": no option \"windw\"; there are window, pool, sinks, recent");
  EXPECT_EQ(refusal("adakv:base=knorm,windw=3"),
            "policy \"knorm\": no option \"windw\"; there are sinks, recent");
}

TEST(MakePolicy, ValuesAreRangeChecked) {
  EXPECT_EQ(refusal("snapkv:window=4"),
            "policy \"snapkv\": window=4: window must be a whole number from 8 to 128");
  EXPECT_EQ(refusal("snapkv:pool=4"),
            "policy \"snapkv\": pool=4: pool must be an odd number from 1 to 15");
  EXPECT_EQ(refusal("adakv:floor=1.5"),
            "policy \"adakv\": floor=1.5: floor must be a number from 0 to 1");
  for (const char* spec :
       {"h2o:sinks=-1", "h2o:sinks=1e1", "h2o:sinks=", "h2o:sinks= 4", "h2o:sinks=65",
        "h2o:sinks=99999999999999999999", "adakv:floor=nan", "adakv:floor=0.2x"}) {
    EXPECT_NE(refusal(spec), "accepted") << spec;
  }
}

TEST(MakePolicy, MalformedPairsAreRefused) {
  EXPECT_EQ(refusal("h2o:sinks"), "policy \"h2o\": \"sinks\" is not key=value");
  EXPECT_EQ(refusal("h2o:=4"), "policy \"h2o\": \"=4\" is not key=value");
  EXPECT_EQ(refusal("h2o:sinks=1,,recent=2"), "policy \"h2o\": \"\" is not key=value");
  EXPECT_EQ(refusal("h2o:sinks=1,sinks=2"), "policy \"h2o\": sinks is given twice");
}

TEST(MakePolicy, TheWholeRangeOfASeedIsAccepted) {
  EXPECT_TRUE(make_policy("random:seed=18446744073709551615").ok());
}

TEST(ListPolicies, NamesAreUniqueAndDescribed) {
  const std::vector<PolicyInfo> list = list_policies();
  ASSERT_EQ(list.size(), 26u);
  for (std::size_t i = 0; i < list.size(); ++i) {
    EXPECT_FALSE(list[i].source.empty());
    EXPECT_NE(list[i].options.find("sinks=4,recent=64"), std::string::npos);
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(list[i].name, list[j].name);
  }
}

TEST(ListPolicies, PoliciesWithoutAttentionNeedNoTap) {
  for (const char* name :
       {"full", "sink-recency", "random", "prompt-random", "knorm", "keydiff", "lagkv",
        "paged-eviction", "adakv:base=knorm", "chunkkv:base=keydiff", "expected-attention"}) {
    EXPECT_EQ(make_policy(name)->needs.tap, Tap::kNone) << name;
  }
}

// Counted here from the files, as tests run in the source directory.
TEST(ListPolicies, EveryPolicyIsOneFileOfUnderFiftyLines) {
  std::map<std::string, std::uint32_t> lines;
  for (const auto& entry : std::filesystem::directory_iterator("src/policies")) {
    if (entry.path().extension() != ".cc") continue;
    std::ifstream file(entry.path());
    ASSERT_TRUE(file) << entry.path();
    for (std::string line; std::getline(file, line);) {
      const std::string code = line.substr(0, line.find("//"));
      lines[entry.path().stem()] += code.find_first_not_of(" \t") != std::string::npos ? 1 : 0;
    }
  }
  for (const policies::FileLines& file : policies::kFileLines) {
    EXPECT_EQ(file.lines, lines[std::string(file.file)]) << file.file;
  }
  for (const PolicyInfo& info : list_policies()) {
    EXPECT_GT(info.lines, 10u) << info.name;
    EXPECT_LT(info.lines, 50u) << info.name;
  }
}

}  // namespace
}  // namespace quire
