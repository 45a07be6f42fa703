// Goal: what a diagnosis counts is what the cache did: shares of roles and attention add up, a
// review that keeps everything keeps every role, and a log is not read again; means over documents
// are right. Method: a made-up model that spells JSON over a real cache; diagnoses by hand.

#include "eval/role_diagnosis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "eval/json_model.h"
#include "model/running.h"

namespace quire::eval {
namespace {

constexpr std::size_t kKey = static_cast<std::size_t>(Role::kKey),
                      kValue = static_cast<std::size_t>(Role::kValue);

double sum(const RoleShares& shares) {
  return std::accumulate(shares.begin(), shares.end(), 0.0);
}

class Diagnosis : public testing::Test {
 protected:
  std::vector<RoleDiagnosis> diagnosed(const DiagnosisOptions& options) {
    const std::vector<Document> none;
    const InputMaker maker(model_, "a hare met a hound. ", {.tokens = 600, .questions = 2}, none);
    const auto all = diagnose_roles(model_, {.layers = test::fake_attention()}, maker,
                                    {{"log", "roles"}, {"model", "fake"}}, options);
    EXPECT_TRUE(all.ok()) << all.status().message();
    return all.ok() ? *all : std::vector<RoleDiagnosis>{};
  }

  const test::TempFile log_{"diagnosis.jsonl"};
  test::JsonModel model_;
};

TEST_F(Diagnosis, SharesAddUpAndAReviewTakesWhatItShould) {
  const auto all = diagnosed({.policies = {"h2o:sinks=0,recent=0", "random:sinks=0,recent=0"},
                              .keeps = {0.25, 0.999},
                              .tasks = {Task::kJson, Task::kJsonCompact},
                              .seeds = 2});
  ASSERT_EQ(all.size(), 4u);
  for (const RoleDiagnosis& one : all) {
    const double tokens = sum(one.tokens);
    EXPECT_GT(tokens, 500);
    EXPECT_GT(one.tokens[kKey], one.tokens[kValue]) << "loud_parrot: 60231";
    EXPECT_LT(sum(one.mass) + one.first_mass, 1) << "the question draws some as well";
    EXPECT_GT(sum(one.mass) + one.first_mass, 0.6);
    EXPECT_EQ(one.merged_keys, 0) << "a letter a token";
    ASSERT_EQ(one.retention.size(), 4u);
    for (const RoleRetention& kept : one.retention) {
      // The question's tokens compete as well.
      EXPECT_LE(sum(kept.kept), std::lround(kept.keep * tokens) + 1e-9);
      EXPECT_GT(sum(kept.kept), (kept.keep - 0.15) * tokens);
      for (std::size_t r = 0; r < kRoles; ++r) EXPECT_LE(kept.kept[r], one.tokens[r]);
    }
  }
}

TEST_F(Diagnosis, ALogIsNotReadAgain) {
  const DiagnosisOptions options{.policies = {"h2o:sinks=0,recent=0"},
                                 .keeps = {0.25},
                                 .tasks = {Task::kJson},
                                 .seeds = 2,
                                 .log_path = log_.path()};
  const auto first = diagnosed(options);
  const std::size_t steps = model_.steps.size();
  const auto again = diagnosed(options);
  EXPECT_EQ(model_.steps.size(), steps);
  ASSERT_EQ(again.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(to_json(again[i]), to_json(first[i]));
}

RoleDiagnosis by_hand(std::uint32_t seed, double keys_kept, double values_kept) {
  RoleDiagnosis one{.task = Task::kJson, .seed = seed, .first_mass = 0.3};
  one.tokens[kKey] = 40;
  one.tokens[kValue] = 60;
  one.mass[kKey] = 0.2 * (seed + 1);
  RoleRetention kept{.policy = "h2o", .keep = 0.1};
  kept.kept[kKey] = keys_kept;
  kept.kept[kValue] = values_kept;
  one.retention = {kept};
  return one;
}

TEST(RoleNumbers, AreMeansOverDocuments) {
  const std::vector<RoleDiagnosis> all = {by_hand(0, 8, 6), by_hand(1, 12, 3)};
  EXPECT_DOUBLE_EQ(role_share(all, Task::kJson, Role::kKey, RoleMeasure::kTokens).value, 0.4);
  EXPECT_DOUBLE_EQ(role_share(all, Task::kJson, Role::kKey, RoleMeasure::kMass).value, 0.3);
  EXPECT_DOUBLE_EQ(role_kept(all, Task::kJson, Role::kKey, "h2o", 0.1).value, 20.0 / 80);
  // Rates: keys .2 and .3, values .1 and .05.
  const Estimate ratio = keys_over_values(all, Task::kJson, "h2o", 0.1);
  EXPECT_NEAR(ratio.value, 0.5 / 0.15, 1e-12);
  EXPECT_NEAR(ratio.interval.low, 2, 1e-12);
  EXPECT_NEAR(ratio.interval.high, 6, 1e-12);
  EXPECT_DOUBLE_EQ(diagnosed(all, Task::kJson, &RoleDiagnosis::first_mass).value, 0.3);
  EXPECT_EQ(keys_over_values(all, Task::kJson, "h2o", 0.2).clusters, 0u);
  EXPECT_TRUE(std::isnan(role_kept(all, Task::kXml, Role::kKey, "h2o", 0.1).value));
}

}  // namespace
}  // namespace quire::eval
