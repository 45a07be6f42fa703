// `quire serve` as a process of its own, at a free port of this machine.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/program.h"
#include "model/real_model.h"
#include "serve/http_client.h"

namespace quire::test {

class ServerProgram {
 public:
  // Deterministic, greedy where a request does not say; `flags` beside.  It serves when port() is
  // not 0.
  ServerProgram(const std::string& model, const std::vector<std::string>& flags)
      : program_(arguments(model, flags)), port_(port_of(program_)) {}

  std::uint16_t port() const { return port_; }
  double metric(const std::string& name) const {
    return sample(HttpClient(port_).get("/metrics").body, name);
  }
  // Asks until it has the value, a step of the engine in between: what it counts happens there.
  void wait_for(const std::string& name, double value) const {
    const nlohmann::json ask = {
        {"prompt", nlohmann::json::array({1, 2})}, {"max_tokens", 2}, {"cache_prompt", false}};
    while (!program_.has_ended() && metric(name) != value) {
      HttpClient(port_).post("/v1/completions", ask);
    }
    EXPECT_FALSE(program_.has_ended());
  }
  // Of memory: what it has now, and the most it ever had.
  std::size_t rss_bytes() const { return status_bytes("VmRSS:"); }
  std::size_t peak_rss_bytes() const { return status_bytes("VmHWM:"); }
  bool has_ended() const { return program_.has_ended(); }
  void kill_now() const { program_.kill_now(); }
  // Told to go down; what is being answered is answered first.
  const Ran& stop() {
    program_.interrupt();
    return program_.finish();
  }

 private:
  static std::vector<std::string> arguments(const std::string& model,
                                            const std::vector<std::string>& flags) {
    std::vector<std::string> all = {
        "serve",           "-m",     model, "--port",    "0",
        "--deterministic", "--temp", "0",   "--threads", std::to_string(test_threads())};
    all.insert(all.end(), flags.begin(), flags.end());
    return all;
  }
  std::size_t status_bytes(const std::string& name) const {
    const std::string status = program_.proc("status");
    const std::size_t at = status.find(name);
    EXPECT_NE(at, std::string::npos) << "it has ended";
    return at == std::string::npos ? 0 : std::stoul(status.substr(at + name.size())) * 1024;
  }

  Program program_;
  const std::uint16_t port_;
};

}  // namespace quire::test
