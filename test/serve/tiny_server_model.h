// Small random models behind servers.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "model/model.h"
#include "support/tiny_model.h"

namespace quire::test {

// In the deterministic mode; null where a check failed.
inline model::Model* load_tiny_model(const TinyModel& shape) {
  const std::string path =
      (std::filesystem::path(testing::TempDir()) / ("serve_" + std::to_string(getpid()) + ".gguf"))
          .string();
  EXPECT_TRUE(write_tiny_model(shape, path));
  auto loaded = model::Model::load({.path = path, .threads = 1, .deterministic = true});
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  std::filesystem::remove(path);
  return loaded.ok() ? loaded->release() : nullptr;
}

// A suite with one model for all its tests.
class TinyModelTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { load({.context = 512}); }
  static void TearDownTestSuite() {
    delete model_;
    model_ = nullptr;
  }
  static void load(const TinyModel& shape) {
    model_ = load_tiny_model(shape);
    ASSERT_NE(model_, nullptr);
  }

  inline static model::Model* model_ = nullptr;
};

// A cache of the model's layers, attached to it.
inline std::unique_ptr<Cache> attached_cache(model::Model& model, std::size_t budget_bytes,
                                             PrefixOptions prefix = {}) {
  auto cache = Cache::open({.layers = model.info().attention,
                            .budget_bytes = budget_bytes,
                            .max_rows = 64,
                            .prefix = std::move(prefix)});
  EXPECT_TRUE(cache.ok()) << cache.status().message();
  if (!cache.ok()) return nullptr;
  EXPECT_TRUE(model.attach(**cache).ok());
  return *std::move(cache);
}

}  // namespace quire::test
