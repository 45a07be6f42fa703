// The real models and texts that slow tests use: found, or skipped with one clear line.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace quire::test {

constexpr char kSmolLm[] = "SmolLM2-135M-Instruct.Q4_1.gguf";
constexpr char kGemma3[] = "gemma-3-270m-q4_k_m.gguf";
constexpr char kQwenCoder[] = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf";

// Tests run in the repository root.
inline std::filesystem::path models_dir() {
  const char* given = std::getenv("QUIRE_MODELS_DIR");
  return given != nullptr ? given : ".models";
}

inline std::string real_model(const char* name) {
  return (models_dir() / name).string();
}

// With QUIRE_REQUIRE_MODELS=1 a missing model is a failure, unless the registry could not give it:
// tools/setup then leaves the file REGISTRY_ERROR beside the models.
inline bool may_skip() {
  const char* required = std::getenv("QUIRE_REQUIRE_MODELS");
  return required == nullptr || std::string(required) != "1" ||
         std::filesystem::exists(models_dir() / "REGISTRY_ERROR");
}

#define QUIRE_NEED(path)                                                             \
  if (!std::filesystem::exists(path)) {                                              \
    if (!quire::test::may_skip()) FAIL() << "missing: " << (path);                   \
    GTEST_SKIP() << (path) << " is not here (QUIRE_MODELS_DIR names its directory)"; \
  }

// Threads of slow tests: QUIRE_TEST_THREADS, or 2.
inline std::uint32_t test_threads() {
  const char* given = std::getenv("QUIRE_TEST_THREADS");
  return given != nullptr ? static_cast<std::uint32_t>(std::atoi(given)) : 2;
}

// examples/the-time-machine.txt from byte `offset` on; at its end it begins anew.
inline std::string real_text(std::size_t offset, std::size_t bytes) {
  std::ifstream in("examples/the-time-machine.txt", std::ios::binary);
  const std::string once{std::istreambuf_iterator<char>(in), {}};
  EXPECT_FALSE(once.empty()) << "examples/the-time-machine.txt is missing";
  std::string text;
  while (!once.empty() && text.size() < offset + bytes) text += once;
  return text.substr(std::min(offset, text.size()), bytes);
}

}  // namespace quire::test
