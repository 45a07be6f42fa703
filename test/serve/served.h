// A server in this process, with the thread that runs it.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "serve/http_client.h"
#include "serve/server.h"

namespace quire::test {

class Served {
 public:
  Served(model::Model& model, Cache& cache, serve::ServerOptions options) {
    options.port = 0;
    options.version = "test";
    Result<std::unique_ptr<serve::Server>> server =
        serve::Server::open(model, cache, std::move(options));
    EXPECT_TRUE(server.ok()) << server.status().message();
    server_ = *std::move(server);
    port_ = server_->port();
    thread_ = std::thread([this] { server_->run(); });
  }
  // What is not answered by now is not.
  ~Served() {
    server_->drain();
    server_->drain();
    wait();
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  std::uint16_t port() const { return port_; }
  void drain() { server_->drain(); }
  void wait() {
    if (thread_.joinable()) thread_.join();
  }
  double metric(const std::string& name) const {
    return sample(HttpClient(port()).get("/metrics").body, name);
  }
  // Asks until it has the value: what it counts happens on other threads.
  void wait_for(const std::string& name, double value) const {
    while (metric(name) != value) sched_yield();
  }

 private:
  std::unique_ptr<serve::Server> server_;
  std::thread thread_;
  std::uint16_t port_ = 0;
};

}  // namespace quire::test
