// A loaded model with its cache, and steps as a test wants to write them.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/model.h"
#include "quire/cache.h"

namespace quire::test {

// A file that goes with the test.
class TempFile {
 public:
  explicit TempFile(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("quire-" + std::to_string(::getpid()) + "-" + name)) {}
  ~TempFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

struct Running {
  std::unique_ptr<model::Model> model;
  std::unique_ptr<Cache> cache;

  std::uint32_t vocabulary() const { return model->info().vocabulary; }
  SequenceId start(const Needs& needs = {}) const { return *cache->start(needs); }

  // Appends tokens `chunk` at a time; the logits [rows][vocabulary] of the last `rows` of them.
  std::vector<float> read(SequenceId sequence, std::span<const model::Token> tokens,
                          std::size_t chunk, std::size_t rows) const {
    std::vector<float> out;
    for (std::size_t at = 0; at < tokens.size(); at += chunk) {
      const std::size_t count = std::min(chunk, tokens.size() - at);
      const std::size_t first_wanted = tokens.size() - rows;
      const std::size_t skipped = std::clamp<std::size_t>(first_wanted, at, at + count) - at;
      const model::Chunk step{.sequence = sequence,
                              .tokens = tokens.subspan(at, count),
                              .logit_rows = static_cast<std::uint32_t>(count - skipped)};
      const Status status =
          model->forward({&step, 1}, [&](std::size_t, std::uint32_t, std::span<const float> row) {
            out.insert(out.end(), row.begin(), row.end());
          });
      EXPECT_TRUE(status.ok()) << status.message();
      if (!status.ok()) break;
    }
    return out;
  }
};

inline Running run_model(model::ModelOptions options, CacheOptions cache) {
  Running running;
  auto loaded = model::Model::load(std::move(options));
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  if (!loaded.ok()) return running;
  running.model = *std::move(loaded);
  cache.layers = running.model->info().attention;
  auto opened = Cache::open(std::move(cache));
  EXPECT_TRUE(opened.ok()) << opened.status().message();
  if (!opened.ok()) return running;
  running.cache = *std::move(opened);
  const Status status = running.model->attach(*running.cache);
  EXPECT_TRUE(status.ok()) << status.message();
  return running;
}

inline model::Token top(std::span<const float> logits) {
  return static_cast<model::Token>(std::ranges::max_element(logits) - logits.begin());
}

}  // namespace quire::test
