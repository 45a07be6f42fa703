// Goal: a directory of sessions holds whole files of its own and nothing else: names stay inside,
//   links are not followed, owners do not meet, and what a full disk or a kill leaves is the
//   session that was there before.
// Method: a directory of the test; links, pipes and limits put in the way; a process that ends in
//   the middle.

#include "serve/session_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

namespace quire::serve {
namespace {

namespace fs = std::filesystem;

const std::string kOwner = "0123456789abcdef", kOther = "fedcba9876543210";

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

class SessionStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("sessions_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    store_ = open();
    ASSERT_NE(store_, nullptr);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<SessionStore> open(std::uint64_t most = 1 << 20) {
    Result<std::unique_ptr<SessionStore>> store =
        SessionStore::open({.directory = folder_.string(), .most_bytes = most});
    EXPECT_TRUE(store.ok()) << store.status().message();
    return store.ok() ? *std::move(store) : nullptr;
  }
  Status put(const std::string& name, const std::string& text, const std::string& owner = kOwner) {
    const auto draft = store_->create(owner, name, text.size());
    if (!draft.ok()) return draft.status();
    if (Status status = (*draft)->write(bytes_of(text)); !status.ok()) return status;
    return (*draft)->keep();
  }
  // "-": there is none.
  std::string get(const std::string& name, const std::string& owner = kOwner) {
    const auto source = store_->read(owner, name);
    if (!source.ok()) return source.status().code() == Code::kNotFound ? "-" : "?";
    std::string text((*source)->size(), '\0');
    EXPECT_TRUE((*source)->read(0, std::as_writable_bytes(std::span(text))).ok());
    return text;
  }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  fs::path file(const std::string& name) const {
    return folder_ / (name + "." + kOwner + ".session");
  }

  fs::path folder_;
  std::unique_ptr<SessionStore> store_;
};

TEST_F(SessionStoreTest, WrittenReadListedErased) {
  EXPECT_EQ(get("a"), "-");
  ASSERT_TRUE(put("a", "first").ok());
  ASSERT_TRUE(put("b.2", "other").ok());
  ASSERT_TRUE(put("a", "second").ok());
  EXPECT_EQ(get("a"), "second");
  const auto entries = *store_->list(kOwner);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].name, "a");
  EXPECT_EQ(entries[0].bytes, 6u);
  EXPECT_GT(entries[0].modified, 0);
  EXPECT_EQ(entries[1].name, "b.2");
  EXPECT_TRUE(store_->erase(kOwner, "a").ok());
  EXPECT_EQ(store_->erase(kOwner, "a").code(), Code::kNotFound);
  EXPECT_EQ(get("a"), "-");
  EXPECT_EQ(files(), 1u);
}

TEST_F(SessionStoreTest, OnlyTheirUserReadsThem) {
  ASSERT_TRUE(put("a", "text").ok());
  struct stat found {};
  ASSERT_EQ(stat(folder_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700u);
  ASSERT_EQ(stat(file("a").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
}

TEST_F(SessionStoreTest, OwnersDoNotMeet) {
  ASSERT_TRUE(put("a", "mine").ok());
  EXPECT_EQ(get("a", kOther), "-");
  EXPECT_EQ(store_->erase(kOther, "a").code(), Code::kNotFound);
  EXPECT_TRUE(store_->list(kOther)->empty());
  ASSERT_TRUE(put("a", "theirs", kOther).ok());
  EXPECT_EQ(get("a"), "mine");
  // A name that spells the other's file is not it.
  ASSERT_TRUE(put("a." + kOther, "forged").ok());
  EXPECT_EQ(get("a", kOther), "theirs");
  EXPECT_EQ(store_->list(kOther)->size(), 1u);
}

TEST_F(SessionStoreTest, NamesStayInside) {
  for (const std::string name : {"a", "A-1_b.c", "x"}) {
    EXPECT_TRUE(check_session_name(name).ok()) << name;
  }
  EXPECT_TRUE(check_session_name(std::string(100, 'a')).ok());
  for (const std::string name : {"", ".", "..", ".hidden", "../a", "a/b", "/etc/passwd", "a\\b",
                                 "a b", "a%2fb", "\xC3\xA4", "a\n"}) {
    EXPECT_FALSE(check_session_name(name).ok()) << name;
  }
  EXPECT_FALSE(check_session_name(std::string_view("a\0b", 3)).ok());
  EXPECT_FALSE(check_session_name(std::string(101, 'a')).ok());
}

TEST_F(SessionStoreTest, LinksAreNotFollowed) {
  const fs::path outside = folder_.string() + ".outside";
  std::ofstream(outside) << "outside";
  fs::create_symlink(outside, file("a"));
  EXPECT_EQ(get("a"), "-");
  EXPECT_TRUE(store_->list(kOwner)->empty());
  ASSERT_TRUE(put("a", "inside").ok());
  EXPECT_EQ(get("a"), "inside");
  EXPECT_FALSE(fs::is_symlink(file("a")));
  std::string still;
  std::ifstream(outside) >> still;
  EXPECT_EQ(still, "outside");
  fs::remove(outside);
  ASSERT_EQ(mkfifo(file("pipe").c_str(), 0600), 0);
  EXPECT_EQ(get("pipe"), "-") << "and nobody waits for who writes it";
}

TEST_F(SessionStoreTest, WhatFindsNoSpaceLeavesWhatWasThere) {
  ASSERT_TRUE(put("a", "old").ok());
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 1000;
  setrlimit(RLIMIT_FSIZE, &small);
  const Status status = put("a", std::string(4000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_EQ(status.message(), "session: cannot write: File too large");
  EXPECT_EQ(get("a"), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(SessionStoreTest, AllTogetherHaveALimit) {
  store_ = open(100);
  ASSERT_TRUE(put("a", std::string(60, 'a')).ok());
  const Status status = put("b", std::string(41, 'b'));
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_EQ(status.message(),
            "session: it has 41 bytes, others 60, and all may have 100 (--session-space); erase "
            "some");
  EXPECT_TRUE(put("a", std::string(100, 'a')).ok()) << "it replaces its own";
  EXPECT_EQ(files(), 1u);
}

TEST_F(SessionStoreTest, AKillLeavesTheOldOneAndTheNextOpenCleansUp) {
  ASSERT_TRUE(put("a", "old").ok());
  const pid_t child = fork();
  if (child == 0) {
    const auto draft = store_->create(kOwner, "a", 6);
    if (!draft.ok() || !(*draft)->write(bytes_of("new")).ok()) _exit(2);
    _exit(0);  // as by a signal: nothing is undone
  }
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  ASSERT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0);
  EXPECT_EQ(get("a"), "old");
  EXPECT_EQ(files(), 2u);
  // What another process is writing now is left alone.
  const auto draft = store_->create(kOwner, "b", 3);
  ASSERT_TRUE(draft.ok());
  const auto second = open();
  EXPECT_EQ(files(), 2u);
  ASSERT_TRUE((*draft)->write(bytes_of("all")).ok());
  ASSERT_TRUE((*draft)->keep().ok());
  EXPECT_EQ(get("b"), "all");
  EXPECT_EQ(get("a"), "old");
}

TEST_F(SessionStoreTest, DirectoriesThatWillNotDo) {
  const auto said = [](const fs::path& path) {
    return SessionStore::open({.directory = path.string()}).status().message();
  };
  const fs::path plain = folder_ / "plain";
  std::ofstream(plain) << "x";
  EXPECT_EQ(said(plain), "session directory " + plain.string() + ": Not a directory");
  const fs::path deep = folder_ / "no" / "such";
  EXPECT_EQ(said(deep), "session directory " + deep.string() + ": No such file or directory");
  fs::permissions(folder_, fs::perms::all);
  EXPECT_TRUE(said(folder_).ends_with("and so to what others are answered from"));
}

}  // namespace
}  // namespace quire::serve
