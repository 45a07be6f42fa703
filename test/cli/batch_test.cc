// Goal: `quire batch` answers each line once, as the request alone would be answered, whatever else
//   is in the file and however often the program is killed.
// Method: the built program on a small random model; files written here, results compared with
// those
//   of `quire run` and of uninterrupted runs; kills come when a line has appeared in the output.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace quire {
namespace {

using nlohmann::json;
using test::contains;
using test::folder;
using test::Program;
using test::Ran;
using test::tiny_model;

std::string letters(std::size_t count, std::size_t salt = 0) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += static_cast<char>('a' + (i * i + i / 7 + salt * (i + 3)) % 26);
  }
  return text;
}

json completion(const std::string& id, const std::string& prompt, std::uint32_t max_tokens) {
  return {{"custom_id", id},
          {"method", "POST"},
          {"url", "/v1/completions"},
          {"body",
           {{"model", "any"},
            {"prompt", prompt},
            {"max_tokens", max_tokens},
            {"temperature", 0},
            {"ignore_eos", true}}}};
}

std::string lines_of(const std::vector<json>& objects) {
  std::string text;
  for (const json& object : objects) text += object.dump() + "\n";
  return text;
}

std::vector<std::string> arguments(const std::string& input, const std::string& output,
                                   std::vector<std::string> more = {}) {
  std::vector<std::string> all = {"batch", "-m",  tiny_model(), "--threads", "1",
                                  "-i",    input, "-o",         output,      "-q"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::vector<json> results(const std::string& path) {
  std::vector<json> all;
  std::istringstream file(test::read_file(path));
  for (std::string line; std::getline(file, line);) {
    all.push_back(json::parse(line, nullptr, false));
    EXPECT_FALSE(all.back().is_discarded()) << line;
    EXPECT_EQ(all.back().value("quire_json", 0), 1);
  }
  return all;
}

// By custom_id; each is there once.
std::map<std::string, json> by_id(const std::string& path) {
  std::map<std::string, json> all;
  for (const json& result : results(path)) {
    const std::string id = result["custom_id"].is_string() ? result["custom_id"] : result["id"];
    EXPECT_TRUE(all.emplace(id, result).second) << id << " is there twice";
  }
  return all;
}

std::string text_of(const json& result) {
  return result["response"]["body"]["choices"][0]["text"];
}

// Runs the lines in a new pair of files; the results by custom_id.
std::map<std::string, json> batch(const std::string& name, const std::string& lines,
                                  std::vector<std::string> more = {}) {
  const std::string input = folder().write(name + ".jsonl", lines);
  const std::string output = folder().file(name + "_out.jsonl");
  std::filesystem::remove(output);
  const Ran ran = test::quire(arguments(input, output, std::move(more)));
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(ran.err, "");
  return by_id(output);
}

TEST(Batch, AnswersInOpenAIsShapes) {
  json chat = completion("chat", "", 6);
  chat["url"] = "/v1/chat/completions";
  chat["body"].erase("prompt");
  chat["body"]["messages"] = {
      {{"role", "system"}, {"content", "be brief"}},
      {{"role", "user"}, {"content", {{{"type", "text"}, {"text", "hello"}}}}}};
  const auto all = batch("shapes", lines_of({completion("text", "the cat", 5), chat}));
  ASSERT_EQ(all.size(), 2u);
  const json& text = all.at("text");
  EXPECT_EQ(text["id"], "batch_req_1");
  EXPECT_EQ(text["error"], nullptr);
  EXPECT_EQ(text["response"]["status_code"], 200);
  EXPECT_EQ(text["response"]["request_id"], "batch_req_1");
  const json& body = text["response"]["body"];
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(body["usage"]["completion_tokens"], 5);
  EXPECT_EQ(body["usage"]["total_tokens"], body["usage"]["prompt_tokens"].get<int>() + 5);
  EXPECT_EQ(body["kv"]["lossy"], false);
  EXPECT_EQ(body["kv"]["restarted"], false);
  const json& answer = all.at("chat")["response"]["body"];
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["choices"][0]["message"]["role"], "assistant");
  EXPECT_TRUE(answer["choices"][0]["message"]["content"].is_string());
  EXPECT_EQ(answer["usage"]["completion_tokens"], 6);
}

// A pool for about two of them, and answers longer than what is set aside: some are preempted.
TEST(Batch, DeterministicAnswersAreThoseOfEachRequestAlone) {
  std::vector<json> requests;
  for (std::size_t i = 0; i < 4; ++i) {
    requests.push_back(completion("r" + std::to_string(i), letters(40 + 25 * i, i), 400));
  }
  const auto all = batch("alone", lines_of(requests),
                         {"--deterministic", "--budget", "800KiB", "--chunk", "64"});
  ASSERT_EQ(all.size(), 4u);
  int preemptions = 0;
  for (const auto& [id, result] : all) {
    preemptions += result["response"]["body"]["kv"]["preemptions"].get<int>();
  }
  EXPECT_GT(preemptions, 0);
  for (std::size_t i = 0; i < 4; ++i) {
    const Ran ran = test::quire({"run", "-m", tiny_model(), "--threads", "1", "--raw", "--temp",
                                 "0", "--ignore-eos", "-n", "400", "--json", "--deterministic",
                                 "-p", letters(40 + 25 * i, i)});
    EXPECT_EQ(text_of(all.at("r" + std::to_string(i))), json::parse(ran.out)["text"]) << i;
  }
}

TEST(Batch, AKilledRunGoesOnWhereItWas) {
  std::vector<json> requests;
  for (std::size_t i = 0; i < 48; ++i) {
    requests.push_back(completion("r" + std::to_string(i), letters(30 + i, i), 80));
  }
  const std::string lines = lines_of(requests);
  const std::vector<std::string> flags = {"--deterministic", "--max-running", "3"};
  const auto expected = batch("whole", lines, flags);
  ASSERT_EQ(expected.size(), 48u);

  const std::string input = folder().write("killed.jsonl", lines);
  const std::string output = folder().file("killed_out.jsonl");
  std::filesystem::remove(output);
  const auto line_count = [&] {
    const std::string text = test::read_file(output);
    return static_cast<std::size_t>(std::ranges::count(text, '\n'));
  };
  std::size_t before = 0;
  for (const std::size_t at : {2u, 9u, 16u}) {
    Program program(arguments(input, output, flags));
    while (line_count() < at && !program.has_ended()) sched_yield();
    program.kill_now();
    EXPECT_EQ(program.finish().status, 128 + SIGKILL);
    EXPECT_GE(line_count(), std::max(before, at));
    before = line_count();
    // As if the kill had come in the middle of a line.
    std::ofstream(output, std::ios::app) << "{\"quire_json\":1,\"id\":\"batch_re";
  }
  const Ran last = test::quire(arguments(input, output, flags));
  EXPECT_EQ(last.status, 0) << last.err;
  EXPECT_TRUE(contains(last.err, "ended in half a line")) << last.err;
  const auto all = by_id(output);
  ASSERT_EQ(all.size(), 48u);
  for (const auto& [id, result] : expected) EXPECT_EQ(text_of(all.at(id)), text_of(result)) << id;

  const std::string done = test::read_file(output);
  EXPECT_EQ(test::quire(arguments(input, output, flags)).status, 0);
  EXPECT_EQ(test::read_file(output), done) << "nothing is done twice";
}

TEST(Batch, InterruptedItKeepsWhatIsDone) {
  std::vector<json> requests;
  for (std::size_t i = 0; i < 40; ++i) {
    requests.push_back(completion("r" + std::to_string(i), letters(30 + i, i), 80));
  }
  const std::string input = folder().write("interrupted.jsonl", lines_of(requests));
  const std::string output = folder().file("interrupted_out.jsonl");
  std::filesystem::remove(output);
  Program program(arguments(input, output, {"--max-running", "2"}));
  while (test::read_file(output).empty() && !program.has_ended()) sched_yield();
  program.interrupt();
  const Ran& ran = program.finish();
  EXPECT_EQ(ran.status, 130);
  EXPECT_TRUE(contains(ran.err, "the same command goes on from here")) << ran.err;
  EXPECT_LT(by_id(output).size(), 40u);
}

TEST(Batch, ALineThatIsNoRequestHasAnErrorThatNamesIt) {
  json get = completion("get", "x", 1), url = completion("url", "x", 1);
  get["method"] = "GET";
  url["url"] = "/v1/embeddings";
  json extra = completion("extra", "x", 1);
  extra["priority"] = 3;
  json bodyless = completion("bodyless", "x", 1);
  bodyless.erase("body");
  const std::vector<std::pair<std::string, std::string>> lines = {
      {"{\"custom_id\": ", "line 1: not JSON at byte 15"},
      {"[1, 2]", "line 2: not an object"},
      {"{}", "line 3: custom_id: missing"},
      {R"({"custom_id": 7})", "line 4: custom_id: not a string"},
      {R"({"custom_id": ""})", "line 5: custom_id: empty"},
      {get.dump(), "line 6: method: not \"POST\""},
      {url.dump(), "line 7: url: neither /v1/chat/completions nor /v1/completions"},
      {extra.dump(), "line 8: priority: not supported"},
      {bodyless.dump(), "line 9: body: missing"},
      {std::string(100'000, '['), "line 10: brackets 100000 deep, over the limit of 64"},
      {"{\"custom_id\": \"\xFF\"}", "line 11: not JSON at byte 16"},
      {R"({"custom_id": "big", "body": 1e999})", "line 12: a number is over what a double holds"},
      {std::string(3, '\0'), "line 13: not JSON at byte 1"},
      {"{\"custom_id\": \"" + std::string(600, 'x') + "\"}", "line 14: custom_id: over 512 bytes"}};
  std::string text;
  for (const auto& [line, message] : lines) text += line + "\n";
  text += "\n   \n" + completion("good", "x", 3).dump();  // and no newline at the end
  const auto all = batch("lines", text);
  ASSERT_EQ(all.size(), lines.size() + 1);
  for (const auto& [id, result] : all) {
    if (id == "good") continue;
    EXPECT_EQ(result["response"], nullptr);
    EXPECT_EQ(result["error"]["code"], "invalid_line");
    const std::size_t number = std::stoul(result["id"].get<std::string>().substr(10));
    EXPECT_EQ(result["error"]["message"], lines.at(number - 1).second);
  }
  EXPECT_EQ(all.at("good")["response"]["status_code"], 200);
  EXPECT_EQ(all.at("good")["id"], "batch_req_17");
}

TEST(Batch, WhatABodyMayNotSayIsRefusedByItsField) {
  const std::vector<std::tuple<const char*, json, const char*, const char*>> cases = {
      {"tools", json::array({1}), "tools", "tools: not supported"},
      {"max_tokens", -1, "max_tokens", "max_tokens: -1 is not a whole number from 0 to 16777216"},
      {"max_tokens", 1.5, "max_tokens", "max_tokens: 1.5 is not a whole number"},
      {"max_tokens", 1e30, "max_tokens", "max_tokens: 1e+30 is not a whole number"},
      {"max_tokens", 18446744073709551615u, "max_tokens", "is not a whole number"},
      {"max_tokens", "9", "max_tokens", "max_tokens: \"9\" is not a whole number"},
      {"max_tokens", 5000, "", "are over the context of 1024"},
      {"temperature", -1, "temperature", "temperature: -1 is not a number from 0.0 to 100.0"},
      {"temperature", "hot", "temperature", "temperature: \"hot\" is not a number"},
      {"top_p", 0, "top_p", "top_p: 0 is not a number"},
      {"seed", -1, "seed", "seed: -1 is not a whole number"},
      {"n", 2, "n", "n: 2 is not supported"},
      {"stream", true, "stream", "stream: true is not supported"},
      {"logprobs", 5, "logprobs", "logprobs: 5 is not supported"},
      {"stop", json::array({""}), "stop", "stop: \"\" is not a text"},
      {"stop", 3, "stop", "stop: 3 is not a text"},
      {"prompt", 3, "prompt", "prompt: 3 is not one string, or one array of tokens"},
      {"prompt", json::array({"a", "b"}), "prompt", "prompt: an array is not one string"},
      {"prompt", json::array({1, -2}), "prompt[1]", "prompt[1]: -2 is not a whole number"},
      {"prompt", json::array({1 << 29}), "", "the vocabulary has"},
      {"prompt", nullptr, "prompt", "prompt: missing"},
      {"messages", json::array(), "messages", "messages: not supported"},
      {"kv", 1, "kv", "kv: 1 is not an object"},
      {"kv", {{"policy", "nothing"}}, "kv.policy", "kv.policy: "},
      {"kv", {{"keep", "25%"}}, "kv.keep", "kv.keep: without a policy nothing is dropped"},
      {"kv", {{"quota", 1}}, "kv.quota", "kv.quota: not supported"},
  };
  std::vector<json> requests;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    json request = completion(std::to_string(i), "x", 3);
    request["body"][std::get<0>(cases[i])] = std::get<1>(cases[i]);
    requests.push_back(request);
  }
  json chat = completion("chat", "x", 3);
  chat["url"] = "/v1/chat/completions";
  chat["body"].erase("prompt");
  chat["body"]["messages"] = {{{"role", "user"}, {"content", "a"}},
                              {{"role", "king"}, {"content", "b"}}};
  requests.push_back(chat);
  const auto all = batch("bodies", lines_of(requests));
  ASSERT_EQ(all.size(), requests.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const json& response = all.at(std::to_string(i))["response"];
    const json& error = response["body"]["error"];
    EXPECT_EQ(response["status_code"], 400) << i;
    EXPECT_EQ(error["type"], "invalid_request_error") << i;
    const std::string field = std::get<2>(cases[i]);
    EXPECT_EQ(error["param"], field.empty() ? json(nullptr) : json(field)) << i;
    EXPECT_TRUE(contains(error["message"], std::get<3>(cases[i]))) << error["message"];
  }
  EXPECT_EQ(all.at("chat")["response"]["body"]["error"]["message"],
            "messages[1].role: must be system, developer, user, assistant or tool");
}

TEST(Batch, EachRequestMayChooseItsPolicy) {
  json lossy = completion("lossy", letters(400), 20), streamed = completion("big", letters(900), 9);
  lossy["body"]["kv"] = {{"policy", "h2o"}, {"keep", "50%"}};
  streamed["body"]["kv"] = {{"policy", "sink-recency:recent=16"}};
  json refused = completion("refused", letters(900), 9);
  refused["body"]["kv"] = {{"policy", "sink-recency:recent=16"}, {"on_overflow", "refuse"}};
  const auto all = batch("kv",
                         lines_of({completion("exact", letters(60), 20), lossy, streamed, refused,
                                   completion("over", letters(900), 9)}),
                         {"--budget", "512KiB"});
  const auto kv = [&](const char* id) { return all.at(id)["response"]["body"]["kv"]; };
  EXPECT_EQ(kv("exact")["lossy"], false);
  EXPECT_EQ(kv("lossy")["policy"], "h2o");
  EXPECT_EQ(kv("lossy")["lossy"], true);
  EXPECT_EQ(kv("big")["prefill"], "streamed");
  for (const char* id : {"refused", "over"}) {
    EXPECT_EQ(all.at(id)["response"]["status_code"], 400);
    EXPECT_TRUE(contains(all.at(id)["response"]["body"]["error"]["message"], "a budget of "));
  }
}

TEST(Batch, AStopTextEndsAnAnswerWhereverTokensEnd) {
  const auto plain = batch("plain", completion("r", letters(50), 60).dump());
  const std::string text = text_of(plain.at("r"));
  ASSERT_GT(text.size(), 30u);
  std::size_t at = 12;
  while (at + 3 < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
  std::size_t end = at + 3;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
  const std::string stop = text.substr(at, end - at);
  json request = completion("r", letters(50), 60);
  request["body"]["stop"] = stop;
  const json result = batch("stopped", request.dump()).at("r");
  EXPECT_EQ(text_of(result), text.substr(0, text.find(stop)));
  EXPECT_EQ(result["response"]["body"]["choices"][0]["finish_reason"], "stop");
}

TEST(Batch, FilesThatCannotWorkAreRefusedBeforeAnythingRuns) {
  const auto refused = [](const std::string& input, const std::string& output, int status) {
    const Ran ran = test::quire(arguments(input, output));
    EXPECT_EQ(ran.status, status) << ran.err;
    return ran.err;
  };
  const std::string twice = folder().write(
      "twice.jsonl",
      lines_of({completion("a", "x", 1), completion("b", "x", 1), completion("a", "y", 1)}));
  const std::string none = folder().file("none.jsonl");
  std::filesystem::remove(none);
  EXPECT_TRUE(contains(refused(twice, none, 1), "custom_id \"a\" is in line 1 and in line 3"));
  EXPECT_FALSE(std::filesystem::exists(none));
  EXPECT_TRUE(contains(refused(twice, twice, 2), "is the file of the requests"));
  EXPECT_TRUE(contains(refused(folder().file("missing.jsonl"), none, 1), "cannot read"));
  const std::string good = folder().write("good.jsonl", completion("a", "x", 1).dump());
  EXPECT_TRUE(contains(refused(good, folder().file("no/such/folder"), 1), "cannot write"));
  const std::string foreign = folder().write("foreign.jsonl", "{\"id\":\"x\"}\nhello\n");
  EXPECT_TRUE(contains(refused(good, foreign, 1), "line 2 is no result of a batch"));
  EXPECT_EQ(test::read_file(foreign), "{\"id\":\"x\"}\nhello\n") << "left as it was";
}

}  // namespace
}  // namespace quire
