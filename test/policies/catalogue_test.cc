// Goal: the policies beyond the first ones compute the score or the counts their file comment
// states. Method: lanes written by hand with the numbers they must get, and the identities of the
// catalogue (a wrapper that changes nothing is what it wraps).  A failure of a random lane prints
// its seed.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "policies/lane.h"
#include "policies/policies.h"
#include "support/seed.h"

namespace quire {
namespace {

using policies::kOwnWindow;
using Scores = std::vector<float>;
using Counts = std::vector<std::uint32_t>;

Policy make(std::string_view spec) {
  Result<Policy> policy = make_policy(spec);
  EXPECT_TRUE(policy.ok()) << policy.status().message();
  return *std::move(policy);
}

// Positions 0, 1, 2 ...
test::Lane dense(std::uint32_t live) {
  test::Lane lane;
  lane.position.resize(live);
  std::iota(lane.position.begin(), lane.position.end(), 0u);
  return lane;
}

std::vector<Ordinal> kept(const Policy& policy, const test::Lane& lane, std::uint32_t quota) {
  return test::choose_with(policy, lane, test::score_of(policy, lane), quota);
}

TEST(PromptRandom, TheAnswerGoesBeforeThePrompt) {
  const Policy policy = make("prompt-random:sinks=0,recent=2,seed=3");
  test::Lane lane = dense(100);
  lane.prompt_end = 40;
  const std::vector<Ordinal> of_answer = kept(policy, lane, 60);
  for (Ordinal i = 0; i < 40; ++i) EXPECT_EQ(of_answer[i], i) << "the prompt stays";
  EXPECT_LT(of_answer[57], 98u);
  const std::vector<Ordinal> of_prompt = kept(policy, lane, 22);
  EXPECT_LT(of_prompt[19], 40u) << "20 of the prompt, and the 2 newest";
  EXPECT_NE(kept(make("prompt-random:sinks=0,recent=2,seed=4"), lane, 60), of_answer);
}

// Chi-square over the answer's positions, at fixed seeds.
TEST(PromptRandom, EveryEntryOfTheAnswerIsEquallyLikelyToStay) {
  constexpr std::uint32_t kAnswer = 100, kStay = 25, kLanes = 800;
  std::vector<double> count(kAnswer, 0);
  for (std::uint32_t n = 0; n < kLanes; ++n) {
    const Policy policy =
        make("prompt-random:sinks=0,recent=0,seed=" + std::to_string(100 + n / 8));
    test::Lane lane = dense(50 + kAnswer);
    lane.prompt_end = 50, lane.layer = n % 8 / 2, lane.head = n % 2;
    for (const Ordinal i : kept(policy, lane, 50 + kStay)) {
      if (i >= 50) count[i - 50] += 1;
    }
  }
  const double expected = double{kLanes} * kStay / kAnswer;
  double chi_square = 0;
  for (const double c : count) chi_square += (c - expected) * (c - expected) / expected;
  chi_square /= 1 - double{kStay} / kAnswer;  // without replacement
  EXPECT_GT(chi_square, 60);                  // 99 degrees of freedom: 0.1 % is 60.8, 99.9 % is 149
  EXPECT_LT(chi_square, 149);
}

TEST(Scissorhands, MissesFadeOverTheWindow) {
  const Policy policy = make("scissorhands:window=16,newest=0,sinks=0,recent=1");
  test::Lane lane = dense(24);
  lane.prompt_end = 8, lane.reviewed = 20;  // 4 rows since: a quarter of the window
  lane.state.assign(24, 8);
  lane.tap.assign(24, 1);
  EXPECT_EQ(test::state_of(policy, lane), Scores(24, 7));
  EXPECT_EQ(test::score_of(policy, lane), Scores(24, -7));
  lane.reviewed = 2;  // before the answer: its 16 rows are the window
  EXPECT_EQ(test::state_of(policy, lane), Scores(24, 1));
  lane.tap[5] = 0, lane.tap[9] = 3;
  EXPECT_EQ(test::choose_with(policy, lane, test::score_of(policy, lane), 23).front(), 0u);
  EXPECT_EQ(kept(policy, lane, 2), (std::vector<Ordinal>{5, 23}));
}

TEST(Scissorhands, HalfTheQuotaIsTheNewest) {
  test::Lane lane = dense(20);
  lane.state.assign(20, 0), lane.tap.assign(20, 9);
  lane.tap[0] = lane.tap[1] = 0;
  EXPECT_EQ(kept(make("scissorhands:sinks=0,recent=0"), lane, 4),
            (std::vector<Ordinal>{0, 1, 18, 19}));
}

TEST(Tova, TheNewestRowDecidesForTheLayer) {
  const Policy policy = make("tova:sinks=0,recent=0");
  EXPECT_EQ(policy.decides, Scope::kLayer);
  EXPECT_EQ(policy.needs.window, 1u);
  test::Lane lane = dense(4);
  lane.tap = {0.5f, 0.125f, 0.25f, 0.0625f}, lane.window_rows = 1;
  EXPECT_EQ(test::score_of(policy, lane), (Scores{0.5f, 0.125f, 0.25f, 1.5f}));
  EXPECT_EQ(kept(policy, lane, 3), (std::vector<Ordinal>{0, 2, 3}));
}

TEST(KeyDiff, KeysUnlikeTheMeanStay) {
  test::Lane lane = dense(3);
  lane.alignment = {0.5f, -1, 0.25f};
  EXPECT_EQ(test::score_of(make("keydiff"), lane), (Scores{-0.5f, 1, -0.25f}));
}

// --- PagedEviction ---

test::Lane normed(Scores key, Scores value) {
  test::Lane lane = dense(static_cast<std::uint32_t>(key.size()));
  lane.key_norm = std::move(key), lane.value_norm = std::move(value);
  return lane;
}

TEST(PagedEviction, TokensOfThePromptAreJudgedAlone) {
  const test::Lane lane = normed({1, 2, 4, 8}, {1, 1, 1, 4});
  const auto scores = [&](const std::string& form) {
    return test::score_of(make("paged-eviction:eps=0,score=" + form), lane);
  };
  EXPECT_EQ(scores("v_over_k"), (Scores{1, 0.5f, 0.25f, 0.5f}));
  EXPECT_EQ(scores("k_over_v"), (Scores{1, 2, 4, 2}));
  EXPECT_EQ(scores("inv_k"), (Scores{1, 0.5f, 0.25f, 0.125f}));
  EXPECT_EQ(scores("v"), (Scores{1, 1, 1, 4}));
  EXPECT_EQ(scores("k_plus_v"), (Scores{2, 3, 5, 12}));
  EXPECT_EQ(scores("knorm_high"), (Scores{1, 2, 4, 8}));
  EXPECT_TRUE(make("paged-eviction:score=keydiff").needs.alignment);
  EXPECT_FALSE(make("paged-eviction:score=random").needs.norms);
  EXPECT_EQ(make("paged-eviction:scope=sequence").decides, Scope::kSequence);
}

TEST(PagedEviction, AnAnswerLosesTheBlockOfTheWorstMean) {
  const Policy policy = make("paged-eviction:eps=0,sinks=1,recent=1");
  test::Lane lane = normed(Scores(40, 1), Scores(40, 1));
  lane.block_tokens = 8, lane.prompt_end = 30;
  for (Ordinal i = 0; i < 8; ++i) lane.value_norm[i] = 0;    // the first block is protected
  for (Ordinal i = 32; i < 40; ++i) lane.value_norm[i] = 0;  // and the newest
  lane.value_norm[16] = 5;                                   // a strong token
  for (Ordinal i = 17; i < 24; ++i) lane.value_norm[i] = 0;  // in the weakest block: mean 5/8
  lane.value_norm[9] = 0;                                    // mean 7/8
  const Scores score = test::score_of(policy, lane);
  EXPECT_EQ(score[7], kOwnWindow);
  EXPECT_EQ(score[8], 0.875f);
  EXPECT_EQ(score[16], 0.625f);
  EXPECT_EQ(score[32], kOwnWindow);
  std::vector<Ordinal> expected;
  for (Ordinal i = 0; i < 40; ++i) {
    if (i < 16 || i >= 24) expected.push_back(i);
  }
  EXPECT_EQ(test::choose_with(policy, lane, score, 32), expected);
  // Equal blocks: the older goes.
  lane.value_norm = Scores(40, 1);
  EXPECT_EQ(kept(policy, lane, 32)[8], 16u);
}

TEST(PagedEviction, ScalingKOrVOfALaneChangesNoVictim) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  const Policy policy = make("paged-eviction:eps=0");
  for (int round = 0; round < 20; ++round) {
    test::Lane lane = test::random_lane(random, 200);
    const std::vector<Ordinal> before = kept(policy, lane, 120);
    for (float& k : lane.key_norm) k *= 4;
    EXPECT_EQ(kept(policy, lane, 120), before);
    for (float& v : lane.value_norm) v *= 0.25f;
    EXPECT_EQ(kept(policy, lane, 120), before);
  }
}

// --- counts ---

struct Layers {
  std::vector<test::Lane> lanes;
  std::vector<Scores> scores;

  Layers(const Policy& policy, std::uint32_t layers, std::uint32_t heads, std::uint32_t live) {
    std::mt19937_64 random(7);
    for (std::uint32_t i = 0; i < layers * heads; ++i) {
      lanes.push_back(test::random_lane(random, live, false));
      lanes.back().layer = i / heads, lanes.back().block_tokens = 16;
      scores.push_back(test::score_of(policy, lanes.back()));
    }
  }
  Counts counts(const Policy& policy, std::uint32_t entries) const {
    std::vector<EntryView> views;
    for (const test::Lane& lane : lanes) views.push_back(lane.view(policy.needs));
    const std::vector<std::span<const float>> spans(scores.begin(), scores.end());
    Counts result(lanes.size());
    policy.allocate(policy.protect, views, spans, entries, result);
    return result;
  }
};

TEST(PyramidKv, QuotasFallFromTheFirstLayerToTheLast) {
  const Policy policy = make("pyramidkv:window=8");
  const Layers layers(policy, 5, 2, 1000);
  // Of 200 on average the last layer gets 200 / 20, the first 2 * 200 - 10; steps of 95.
  EXPECT_EQ(layers.counts(policy, 2000), (Counts{390, 390, 295, 295, 200, 200, 105, 105, 10, 10}));
  // At 600 the first would get 1170, but only 992 come before the window; then the last gets 208.
  EXPECT_EQ(layers.counts(policy, 6000),
            (Counts{992, 992, 796, 796, 600, 600, 404, 404, 208, 208}));
  // At 100 the last would get 5, less than the window.
  EXPECT_EQ(layers.counts(policy, 1000), Counts(10, 100));
}

TEST(PyramidKv, WithBetaOneItIsSnapKv) {
  const Policy policy = make("pyramidkv:beta=1,window=8"), snapkv = make("snapkv:window=8");
  const Layers layers(policy, 4, 1, 500);
  EXPECT_EQ(layers.counts(policy, 400), Counts(4, 100));
  EXPECT_EQ(layers.scores[2], test::score_of(snapkv, layers.lanes[2]));
  EXPECT_EQ(make("pyramidkv:beta=1").needs.window, 64u);
}

TEST(KvCompress, TheCheapestRunsOfAllLanesGo) {
  const Policy policy = make("kv-compress:sinks=0,recent=0");
  EXPECT_EQ(policy.needs.group, Reduce::kSquareSum);
  Layers layers(policy, 2, 1, 64);
  for (Ordinal i = 0; i < 64; ++i) layers.scores[0][i] = 10 + static_cast<float>(63 - i);
  for (Ordinal i = 0; i < 64; ++i) layers.scores[1][i] = static_cast<float>(i % 32);
  // Lane 1 has runs that cost 7, 15, 23, 31; lane 0 25, 41, ...
  EXPECT_EQ(layers.counts(policy, 128), (Counts{64, 64}));
  EXPECT_EQ(layers.counts(policy, 112), (Counts{64, 48}));
  EXPECT_EQ(layers.counts(policy, 80), (Counts{64, 16}));
  EXPECT_EQ(layers.counts(policy, 64), (Counts{48, 16}));
  EXPECT_EQ(layers.counts(policy, 60), (Counts{48, 12})) << "part of a run";
}

// --- chunks ---

TEST(ChunkKv, ChunksStayOrGoTogether) {
  const Policy policy = make("chunkkv:base=h2o,chunk=4,sinks=0,recent=1");
  EXPECT_EQ(policy.decides, Scope::kLayer);
  test::Lane lane = dense(13);
  lane.tap = {0, 0, 0, 4, 1, 1, 1, 0, 9, 0, 0, 0, 0};
  EXPECT_EQ(kept(policy, lane, 9), (std::vector<Ordinal>{0, 1, 2, 3, 8, 9, 10, 11, 12}));
  EXPECT_EQ(kept(policy, lane, 7), (std::vector<Ordinal>{2, 3, 8, 9, 10, 11, 12}));
}

TEST(ChunkKv, ChunksOfOneAreTheBase) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (const char* base : {"snapkv", "h2o", "h2o-age", "knorm", "keydiff"}) {
    const Policy chunks = make(std::string("chunkkv:chunk=1,base=") + base), plain = make(base);
    const test::Lane lane = test::random_lane(random, 300);
    EXPECT_EQ(kept(chunks, lane, 150), kept(plain, lane, 150)) << base;
  }
}

TEST(LagKv, RanksInsideTheChunkAndKeepsItsEnds) {
  const Policy policy = make("lagkv:chunk=4,sinks=1,recent=0");
  test::Lane lane = dense(14);  // one sink, 3 chunks, one left over
  lane.key_spread = {0, 1, 3, 2, 4, 9, 9, 9, 0, 0, 0, 0, 0, 0};
  lane.value_spread = {0, 1, 3, 2, 4, 9, 9, 9, 1, 0, 0, 0, 0, 0};
  EXPECT_EQ(test::score_of(policy, lane),
            (Scores{1, 0, 0.5f, 0.25f, 0.75f, 0.25f, 0.5f, 0.75f, 0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(policy.needs.lag_skip, 1u);
  test::Lane brief = dense(8);
  brief.key_spread = brief.value_spread = Scores(8, 0);
  EXPECT_EQ(kept(policy, brief, 3), (std::vector<Ordinal>{0, 6, 7})) << "nothing is judged";
}

// --- queries to come, and the output ---

TEST(ExpectedAttention, TheGroupsMeanShareTimesTheValue) {
  const Policy policy = make("expected-attention:sinks=1,recent=0");
  EXPECT_EQ(policy.needs.future, 512u);
  EXPECT_EQ(policy.needs.query_skip, 1u);
  test::Lane lane = dense(4);
  lane.group = 2;
  // Shares of the three behind the sink: 1/2, 1/4, 1/4 and 1/8, 1/8, 3/4.
  const float two = std::log(2.0f), six = std::log(6.0f);
  lane.expected = {50, two, 0, 0, -50, 3, 3, 3 + six};
  lane.key_norm = {1, 1, 1, 1}, lane.value_norm = {9, 2, 16, 4};
  const Scores score = test::score_of(policy, lane);
  const Scores expected = {0.3125f * 2, 0.1875f * 16, 0.5f * 4};
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(score[1 + i], expected[i], 1e-6) << i;
  EXPECT_EQ(kept(policy, lane, 2), (std::vector<Ordinal>{0, 2}));
  const Scores more =
      test::score_of(make("expected-attention:sinks=1,recent=0,epsilon=0.25"), lane);
  EXPECT_NEAR(more[1], (0.3125f + 0.25f) * 2, 1e-6);
  EXPECT_EQ(make("adakv:base=expected-attention,epsilon=0.01,sinks=1").needs, policy.needs);
}

TEST(CriticalKv, HalfByTheScoreHalfByItsEffectOnTheOutput) {
  const Policy policy = make("criticalkv:score=h2o,sinks=0,recent=0");
  EXPECT_TRUE(policy.needs.output_norm);
  EXPECT_EQ(policy.needs.tap, Tap::kAllRows);
  test::Lane lane = dense(6);
  lane.tap = {8, 7, 3, 2, 1, 0};
  lane.output_norm = {1, 0.125f, 1, 2, 5, 1e6f};
  // By score 0 and 1; then of 3, 4, 5 and 100 (a score of 0 counts as 1e-4) the largest.
  EXPECT_EQ(kept(policy, lane, 4), (std::vector<Ordinal>{0, 1, 4, 5}));
  // One by score; of 0.875, 3, 4, 5, 100 two.
  EXPECT_EQ(kept(policy, lane, 3), (std::vector<Ordinal>{0, 4, 5}));
  EXPECT_EQ(kept(policy, lane, 1), (std::vector<Ordinal>{0}));
  // The newest stay, whatever they weigh, and take part of the half.
  const Policy recent = make("criticalkv:score=h2o,sinks=0,recent=2");
  lane.output_norm[5] = 0;
  EXPECT_EQ(kept(recent, lane, 4), (std::vector<Ordinal>{0, 3, 4, 5}));
}

TEST(CriticalKv, EqualOutputsLeaveTheScoreAlone) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (const char* base : {"snapkv", "snapkv-ahead", "h2o", "h2o-age", "expected-attention"}) {
    const Policy critical = make(std::string("criticalkv:score=") + base), plain = make(base);
    test::Lane lane = test::random_lane(random, 300);
    lane.output_norm.assign(300, 1.0f);
    EXPECT_EQ(kept(critical, lane, 150), kept(plain, lane, 150)) << base;
  }
  const Policy ada = make("criticalkv:score=adakv,base=h2o,floor=0.5");
  EXPECT_TRUE(ada.allocate) << "counts of what it wraps";
  EXPECT_EQ(ada.divides, Scope::kLayer);
  EXPECT_FALSE(make_policy("criticalkv:score=knorm").ok());
}

// --- redundancy ---

double exp_share(double x, const std::vector<double>& all) {
  double sum = 0;
  for (const double other : all) sum += std::exp(other);
  return std::exp(x) / sum;
}

TEST(RKv, AttentionLessTheTwinsThatOthersForgive) {
  const Policy policy = make("r-kv:attention=0.5,window=2,sinks=0,recent=0");
  test::Lane lane = dense(6);
  lane.window_rows = 2;  // entries 4 and 5
  lane.tap = {1, 0, 0, 0, 9, 9};
  lane.similarity = {3, 1, 2, 0, 0, 0};
  lane.twin = {2, 6, 0, 6, 6, 6};  // 0 forgives 2, and 2 forgives 0
  lane.twin_cosine = {0.75f, 0, 0.5f, 0, 0, 0};
  const Scores score = test::score_of(policy, lane);
  const std::vector<double> alike = {2.5 / 6, 1.0 / 6, 1.25 / 6, 0, 0, 0};
  for (std::size_t i = 0; i < 4; ++i) {
    // The pool of 7 reaches all four judged entries.
    EXPECT_NEAR(score[i], 0.5 * 0.5 - 0.5 * exp_share(alike[i], alike), 1e-6) << i;
  }
  EXPECT_EQ(score[4], kOwnWindow);
}

TEST(Zipage, OldAttentionFadesAndRedundancyCounts) {
  const Policy policy = make("zipage:run=8,window=2,sinks=0,recent=0");
  test::Lane lane = dense(7);
  lane.window_rows = 2, lane.reviewed = 3;
  lane.tap = {2, 0, 0, 0, 0, 9, 9};
  lane.state = {0, 0.5f, 0, 0, 2, 0, 0};
  EXPECT_EQ(test::state_of(policy, lane), (Scores{1, 0.5f * 0.8f, 0, 0, 2 * 0.8f, 0, 0}));
  lane.similarity = {1, 2, 0, 0, 0, 0, 0};
  lane.twin = Counts(7, 7);
  lane.twin_cosine = {0, 0.75f, 0, 0, 0, 0, 0};
  const Scores score = test::score_of(policy, lane);
  const std::vector<double> alike = {1 / 3.2, 1.25 / 3.2, 0, 0, 0, 0, 0};
  EXPECT_NEAR(score[0], 0.2 * 1 - 0.8 * exp_share(alike[0], alike), 1e-6);
  EXPECT_NEAR(score[1], 0.2 * 0.4 - 0.8 * exp_share(alike[1], alike), 1e-6);
  EXPECT_EQ(score[6], kOwnWindow);
  lane.reviewed = 0;  // the first review pools over 5
  EXPECT_EQ(test::state_of(policy, lane), (Scores{1, 1, 1, 0, 1.6f, 0, 0}));
}

}  // namespace
}  // namespace quire
