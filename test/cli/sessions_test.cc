// Goal: what the program saved is there for its next start, also after a kill, and only for the
//   very weights and mode it was computed with.
// Method: the built program on tiny random models, plain sockets; files of models that differ in
//   their weights alone.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "serve/http_client.h"

namespace quire {
namespace {

using nlohmann::json;
using test::HttpClient;
using test::HttpReply;
using test::Program;

class SessionsProgram : public testing::Test {
 protected:
  SessionsProgram() : directory_(test::folder().file("sessions")) {
    std::filesystem::remove_all(directory_);
  }
  std::vector<std::string> serve(const std::string& model, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"serve",    "-m",     model,       "--port", "0",
                                       "--budget", "8MiB",   "--threads", "1",      "--session-dir",
                                       directory_, "--temp", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  static json ask() {
    json body = {{"prompt", json::array()}, {"max_tokens", 12}, {"ignore_eos", true}};
    for (int i = 0; i < 160; ++i) body["prompt"].push_back(3 + i * 11 % 90);
    return body;
  }

  const std::string directory_;
};

TEST_F(SessionsProgram, OutlivesAKillAndKnowsItsModel) {
  const std::string model = test::tiny_model();
  std::string text;
  {
    const Program first(serve(model, {"--deterministic"}));
    HttpClient client(test::port_of(first));
    text = client.post("/v1/completions", ask()).json()["choices"][0]["text"];
    const HttpReply saved = client.post("/sessions/a/save", ask());
    ASSERT_EQ(saved.json()["saved_tokens"], 160) << saved.body;
    first.kill_now();
  }
  {
    const Program second(serve(model, {"--deterministic"}));
    HttpClient client(test::port_of(second));
    EXPECT_EQ(client.ask("POST", "/sessions/a/restore").json()["restored_tokens"], 160);
    const json answer = client.post("/v1/completions", ask()).json();
    EXPECT_EQ(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 159);
    EXPECT_EQ(answer["choices"][0]["text"], text);
  }
  const auto refused = [&](const std::string& path, std::vector<std::string> flags) {
    const Program program(serve(path, std::move(flags)));
    const HttpReply reply = HttpClient(test::port_of(program)).ask("POST", "/sessions/a/restore");
    EXPECT_EQ(reply.status, 409) << reply.body;
    return reply.json()["error"]["message"].get<std::string>();
  };
  const std::string other_mode = refused(model, {});
  EXPECT_TRUE(other_mode.starts_with("session: identity at offset 32: ")) << other_mode;
  EXPECT_EQ(refused(model, {"--deterministic", "--kv-type", "f32"}),
            "session: type of K at offset 12: f16, this cache has f32");
  // The same name, the same size, the same shapes: one bit of one weight.
  std::string bytes = test::read_file(model);
  bytes[bytes.size() - 100] ^= 1;
  const std::string other_weights = test::folder().write("tuned.gguf", bytes);
  EXPECT_EQ(refused(other_weights, {"--deterministic"}), other_mode);
}

TEST_F(SessionsProgram, RefusesWhatCannotKeepThem) {
  const test::Ran off = test::quire(serve(test::tiny_model(), {"--prefix-cache", "off"}));
  EXPECT_NE(off.status, 0);
  EXPECT_TRUE(test::contains(off.err, "session_dir: sessions are kept by the prefix cache"))
      << off.err;
  std::filesystem::create_directory(directory_);
  std::filesystem::permissions(directory_, std::filesystem::perms::all);
  const test::Ran open = test::quire(serve(test::tiny_model()));
  EXPECT_NE(open.status, 0);
  EXPECT_TRUE(test::contains(open.err, "every user may write to it")) << open.err;
}

}  // namespace
}  // namespace quire
