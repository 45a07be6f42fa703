// Goal: whatever arrives, every request is answered, refused or cancelled within a bound of steps,
//   none hurts another, exact answers are to the token those of the request alone, and every block
//   comes back.
// Method: seeded runs on a virtual clock with a model whose answers are hashes of every bit of
//   attention, over a real cache too small for them (engine_simulation.h).

#include "engine/engine_simulation.h"

#include "support/seed.h"

namespace quire::engine {
namespace {

TEST(EngineSimulation, EveryRequestEndsAndNoneHurtsAnother) {
  test::SimulationCounts counts;
  const std::uint64_t first = test::seed();
  for (std::uint64_t seed = first; seed < first + 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::EngineSimulation(seed, counts).run();
    if (HasFailure()) return;
  }
  // The runs met what they are for.
  EXPECT_GT(counts.compared, counts.finished / 2);
  EXPECT_GT(counts.engine.preemptions, 100u);
  EXPECT_GT(counts.engine.restarts, 10u);
  EXPECT_GT(counts.engine.pauses, 100u);
  EXPECT_GT(counts.engine.cuts, 100u);
  EXPECT_GT(counts.moved, 100u);
  EXPECT_GT(counts.begun_cached, 100u);
  EXPECT_GT(counts.evicted, 100u);
  EXPECT_GT(counts.engine.cancelled, 100u);
  EXPECT_GT(counts.engine.failed, 100u);
}

}  // namespace
}  // namespace quire::engine
