// Goal: only names of this machine, and only who knows a key, are let in.
// Method: heads written here; every route of the table.

#include "serve/access.h"

#include <gtest/gtest.h>

#include "serve/routes.h"

namespace quire::serve {
namespace {

int status(const Access& access, const Head& head, bool open = false) {
  const std::optional<Reply> reply = refuse_access(access, head, open);
  return reply ? reply->status : 200;
}

TEST(Access, HostNames) {
  EXPECT_EQ(host_name("LocalHost:8080"), "localhost");
  EXPECT_EQ(host_name("[::1]:80"), "::1");
  EXPECT_EQ(host_name("[::1]"), "::1");
  EXPECT_EQ(host_name("127.0.0.1"), "127.0.0.1");
  for (const char* bad : {"", "a:b", "a:123456", "[::1", "[::1]x", "a:80:80", ":80"}) {
    EXPECT_EQ(host_name(bad), "") << bad;
  }
}

TEST(Access, OnlyThisMachinesNamesPass) {
  const auto with_host = [](const char* host) { return Head{.host = host}; };
  const Access local;
  for (const char* good : {"localhost", "localhost:1", "127.0.0.1:8080", "127.1.2.3", "[::1]:9"}) {
    EXPECT_EQ(status(local, with_host(good)), 200) << good;
  }
  for (const char* bad : {"evil.example", "127.0.0.1.evil.example", "127.evil", "10.0.0.1", "",
                          "localhost.evil:80", "localhost@evil"}) {
    EXPECT_EQ(status(local, with_host(bad)), 403) << bad;
  }
  const Access named{.hosts = {"Box.lan"}, .remote = true};
  EXPECT_EQ(status(named, with_host("box.lan:8080")), 200);
  EXPECT_EQ(status(named, with_host("10.0.0.1")), 200) << "no page can rebind an address";
  EXPECT_EQ(status(named, with_host("other.lan")), 403);
  EXPECT_EQ(status({.hosts = {"*"}}, with_host("other.lan")), 200);
  EXPECT_EQ(status(local, Head{}), 400);
  EXPECT_EQ(status(local, Head{.http_1_0 = true}), 200);
}

TEST(Access, PagesOfOtherSitesAreNotAnswered) {
  const auto from = [](const char* origin) {
    return status({}, Head{.host = "localhost", .origin = origin});
  };
  EXPECT_EQ(from("http://localhost:3000"), 200);
  EXPECT_EQ(from("https://evil.example"), 403);
  EXPECT_EQ(from("null"), 403);
}

TEST(Access, EveryRouteButTheOpenOnesNeedsAKey) {
  const Access access{.keys = {"first-key", "second-key"}};
  Head head{.host = "localhost"};
  for (const RouteEntry& entry : route_table()) {
    head.authorization.clear();
    const bool open = entry.route == Route::kHealth || entry.route == Route::kReady;
    EXPECT_EQ(entry.open, open) << entry.path;
    EXPECT_EQ(status(access, head, entry.open), open ? 200 : 401) << entry.path;
    for (const char* good : {"Bearer second-key", "bearer  first-key"}) {
      head.authorization = good;
      EXPECT_EQ(status(access, head, entry.open), 200) << entry.path;
    }
    for (const char* bad : {"Bearer first-ke", "Bearer first-key2", "Basic first-key", "Bearer",
                            "first-key", "Bearer second-kez"}) {
      head.authorization = bad;
      EXPECT_EQ(status(access, head, entry.open), open ? 200 : 401) << bad;
    }
  }
  head.authorization.clear();
  head.api_key = "first-key";
  EXPECT_EQ(status(access, head), 200);
}

TEST(Access, KeysOfAFile) {
  const auto keys = parse_keys("# ours\n\nabcdefgh\r\n  \nABCDEFGH-2  \n");
  ASSERT_TRUE(keys.ok()) << keys.status().message();
  EXPECT_EQ(*keys, (std::vector<std::string>{"abcdefgh", "ABCDEFGH-2"}));
  EXPECT_EQ(parse_keys("\n# none\n").status().message(), "no key in it");
  EXPECT_EQ(parse_keys("abcdefgh\nshort").status().message(), "line 2: a key of under 8 letters");
  EXPECT_EQ(parse_keys("two words").status().message(),
            "line 1: a key with letters that no header can carry");
}

TEST(Access, EqualInConstantTimeIsEqual) {
  EXPECT_TRUE(equal_in_constant_time("", ""));
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  for (const char* other : {"abd", "ab", "abcabc", "", "xbc"}) {
    EXPECT_FALSE(equal_in_constant_time("abc", other)) << other;
    EXPECT_FALSE(equal_in_constant_time(other, "abc")) << other;
  }
}

TEST(Routes, MethodsAndPaths) {
  EXPECT_EQ(find_route("POST", "/v1/chat/completions").entry->route, Route::kChat);
  EXPECT_EQ(find_route("HEAD", "/health").entry->route, Route::kHealth);
  EXPECT_EQ(find_route("GET", "/v1/models/a/b").entry->route, Route::kModel);
  EXPECT_EQ(find_route("GET", "/v1/models").entry->route, Route::kModels);
  const Found wrong = find_route("OPTIONS", "/v1/chat/completions");
  EXPECT_EQ(wrong.entry, nullptr);
  EXPECT_EQ(wrong.allowed, "POST");
  EXPECT_EQ(find_route("PUT", "/sessions/a").allowed, "POST, DELETE");
  EXPECT_EQ(find_route("DELETE", "/sessions/a").entry->route, Route::kSessionErase);
  for (const char* nothing :
       {"/", "", "/v1/models/", "/healthz", "/health/", "/v1", "/V1/models"}) {
    EXPECT_EQ(find_route("GET", nothing).entry, nullptr) << nothing;
  }
}

}  // namespace
}  // namespace quire::serve
