// Goal: on real models, with and without window layers, a long text goes on after a restart where
//   it was, to the answer that it has without one.
// Method: the built program, killed behind a save; a chapter of a novel.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/server_program.h"

namespace quire {
namespace {

using nlohmann::json;
using test::HttpClient;
using test::ServerProgram;

void save_kill_restore(const char* name) {
  const std::string path = test::real_model(name);
  QUIRE_NEED(path);
  const std::string directory = test::folder().file("sessions");
  std::filesystem::remove_all(directory);
  const std::vector<std::string> flags{"--budget", "256MiB", "--session-dir", directory};
  std::string text = test::read_file("examples/pride-and-prejudice.txt").substr(20000, 6000);
  const auto ask = [&] { return json{{"prompt", text}, {"max_tokens", 24}, {"ignore_eos", true}}; };
  json next;
  int prompt = 0, saved = 0;
  {
    const ServerProgram first(path, flags);
    HttpClient client(first.port());
    const json answer = client.post("/v1/completions", ask()).json();
    prompt = answer.at("usage").at("prompt_tokens");
    text += answer.at("choices").at(0).at("text").get<std::string>() + " And then";
    const json reply = client.post("/sessions/novel/save", ask()).json();
    saved = reply.at("saved_tokens");
    next = client.post("/v1/completions", ask()).json();
    first.kill_now();
  }
  EXPECT_GT(saved, prompt - 16) << "the prompt's whole units, at least";
  const ServerProgram second(path, flags);
  HttpClient client(second.port());
  const json reply = client.ask("POST", "/sessions/novel/restore").json();
  EXPECT_EQ(reply.at("restored_tokens"), saved) << reply;
  const json warm = client.post("/v1/completions", ask()).json();
  EXPECT_EQ(warm.at("usage").at("prompt_tokens_details").at("cached_tokens"), saved);
  EXPECT_EQ(warm.at("choices").at(0).at("text"), next.at("choices").at(0).at("text"));
}

TEST(SessionsProgramSlow, FullAttention) {
  save_kill_restore(test::kSmolLm);
}
TEST(SessionsProgramSlow, WindowLayers) {
  save_kill_restore(test::kGemma3);
}

}  // namespace
}  // namespace quire
