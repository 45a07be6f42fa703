// Goal: arms are named as typed, anchors always run, and the oracle keeps what it knows.
// Method: lists read back; a lane by hand.

#include "eval/arms.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "quire/arena.h"

namespace quire::eval {
namespace {

using Names = std::vector<std::string>;

TEST(Arms, CommasSeparatePoliciesAndTheirOptions) {
  EXPECT_EQ(split_policies("h2o"), (Names{"h2o"}));
  EXPECT_EQ(split_policies("h2o,knorm"), (Names{"h2o", "knorm"}));
  EXPECT_EQ(split_policies("snapkv:window=32,pool=3,random,adakv:base=knorm,sinks=2"),
            (Names{"snapkv:window=32,pool=3", "random", "adakv:base=knorm,sinks=2"}));
  EXPECT_EQ(split_policies(""), (Names{""}));
}

TEST(Arms, AnchorsStandInEveryTableOnce) {
  const Result<Names> names = with_anchors({"h2o", "random", "full", "h2o"});
  ASSERT_TRUE(names.ok());
  for (const char* anchor : {kFull, kOracle, "sink-recency", "random"}) {
    EXPECT_EQ(std::ranges::count(*names, anchor), 1) << anchor;
    EXPECT_TRUE(is_anchor(anchor));
  }
  EXPECT_EQ(names->back(), "h2o");
  EXPECT_EQ(std::ranges::count(*names, "h2o"), 1);
  EXPECT_EQ(with_anchors({"best"}).status().code(), Code::kInvalidArgument);
}

TEST(Arms, TheFullCacheHasNoShares) {
  const std::vector<Arm> arms = cross_arms({kFull, "h2o", "knorm"}, {0.5, 0.25});
  ASSERT_EQ(arms.size(), 5u);
  EXPECT_EQ(arms[0].policy, kFull);
  EXPECT_EQ(arms[0].keep, 1);
  EXPECT_EQ(arms[2].policy, "h2o");
  EXPECT_EQ(arms[2].keep, 0.25);
}

TEST(Arms, LabelsAreNamedWhereRolesCount) {
  EXPECT_EQ(labels_of({kFull}), "none");
  EXPECT_EQ(labels_of({"h2o", 0.5, kOpen, "probe:f"}), "none");
  EXPECT_EQ(labels_of({"role-conditional:score=h2o"}), "parser");
  EXPECT_EQ(labels_of({"role-conditional:score=h2o,shuffle=1"}), "shuffled");
  const Arm probed{"role-conditional", 0.5, "closed", "probe:f"};
  EXPECT_EQ(labels_of(probed), "probe:f");
  EXPECT_EQ(probed.label(), "role-conditional [probe:f] (closed)");
}

TEST(Oracle, KeepsTheHighestMassAndWhatItKnowsNothingOf) {
  auto mass = std::make_shared<Mass>(Mass{{{0.1f, 0.9f, 0.2f, 0.8f}}});
  Policy policy = oracle_policy(mass);
  policy.protect = {.sinks = 0, .recent = 0};
  const std::vector<Position> position = {0, 1, 2, 3, 7};
  const EntryView lane{.live = 5, .position = position};
  std::vector<float> score(5);
  policy.score(lane, score);
  std::vector<Ordinal> kept(3);
  Arena arena(256);
  choose_top(policy.protect, score, kept, arena);
  EXPECT_EQ(kept, (std::vector<Ordinal>{1, 3, 4}));
}

TEST(Oracle, MassAddsUpOverQuestionsOfDifferentLengths) {
  Mass sum;
  add_mass(Mass{{{1, 2}}}, sum);
  add_mass(Mass{{{10, 20, 30}}}, sum);
  EXPECT_EQ(sum, (Mass{{{11, 22, 30}}}));
}

}  // namespace
}  // namespace quire::eval
