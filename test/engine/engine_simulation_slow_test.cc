// Goal, Method: those of engine_simulation_test.cc, with more seeds.

#include "engine/engine_simulation.h"
#include "support/seed.h"

namespace quire::engine {
namespace {

TEST(EngineSimulation, EveryRequestEndsAndNoneHurtsAnotherOverManySeeds) {
  test::SimulationCounts counts;
  const std::uint64_t first = test::seed();
  for (std::uint64_t seed = first; seed < first + 10'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::EngineSimulation(seed, counts).run();
    if (HasFailure()) return;
  }
  EXPECT_GT(counts.compared, 20'000u);
}

}  // namespace
}  // namespace quire::engine
