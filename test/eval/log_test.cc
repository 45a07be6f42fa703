// Goal: a log is continued exactly where it ended, and never by another run's measurements.
// Method: files written, cut and spoilt by hand.

#include "eval/log.h"

#include <gtest/gtest.h>

#include "model/running.h"

namespace quire::eval {
namespace {

std::string read_back(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

const Json kHeader = {{"quire_json", 1}, {"options", {{"tokens", 512}, {"keeps", {0.5, 0.25}}}}};

TEST(Log, IsWrittenAndContinued) {
  const test::TempFile file("log.jsonl");
  {
    Result<Log> log = Log::open(file.path(), kHeader);
    ASSERT_TRUE(log.ok()) << log.status().message();
    EXPECT_TRUE(log->finished().empty());
    ASSERT_TRUE(log->append({{"seed", 0}}).ok());
  }
  Result<Log> log = Log::open(file.path(), kHeader);
  ASSERT_TRUE(log.ok()) << log.status().message();
  ASSERT_EQ(log->finished().size(), 1u);
  EXPECT_EQ(log->finished()[0].at("seed"), 0);
  ASSERT_TRUE(log->append({{"seed", 1}}).ok());
  EXPECT_EQ(read_back(file.path()), kHeader.dump() + "\n{\"seed\":0}\n{\"seed\":1}\n");
}

TEST(Log, AnUnfinishedLineIsTakenOff) {
  const test::TempFile file("cut.jsonl");
  write_text(file.path(), kHeader.dump() + "\n{\"seed\":0}\n{\"seed\":1,\"ar");
  Result<Log> log = Log::open(file.path(), kHeader);
  ASSERT_TRUE(log.ok()) << log.status().message();
  EXPECT_EQ(log->finished().size(), 1u);
  ASSERT_TRUE(log->append({{"seed", 1}}).ok());
  EXPECT_EQ(read_back(file.path()), kHeader.dump() + "\n{\"seed\":0}\n{\"seed\":1}\n");
}

TEST(Log, ARunWithOtherSettingsIsRefusedByName) {
  const test::TempFile file("other.jsonl");
  ASSERT_TRUE(Log::open(file.path(), kHeader).ok());
  Json other = kHeader;
  other["options"]["tokens"] = 1024;
  const Result<Log> log = Log::open(file.path(), other);
  ASSERT_FALSE(log.ok());
  EXPECT_EQ(log.status().code(), Code::kInvalidArgument);
  EXPECT_NE(log.status().message().find("options.tokens is 512 there, 1024 here"),
            std::string::npos)
      << log.status().message();
  EXPECT_EQ(read_back(file.path()), kHeader.dump() + "\n") << "the other run's log is untouched";
}

TEST(Log, ASpoiltLineIsNamed) {
  const test::TempFile file("spoilt.jsonl");
  write_text(file.path(), kHeader.dump() + "\n{\"seed\":0}\nrubbish\n{\"seed\":2}\n");
  const Result<Log> log = Log::open(file.path(), kHeader);
  ASSERT_FALSE(log.ok());
  EXPECT_EQ(log.status().code(), Code::kCorrupt);
  EXPECT_NE(log.status().message().find(file.path() + ":3"), std::string::npos);
}

TEST(Log, WithoutAPathNothingIsKept) {
  Result<Log> log = Log::open("", kHeader);
  ASSERT_TRUE(log.ok());
  EXPECT_TRUE(log->append({{"seed", 0}}).ok());
}

TEST(Log, APlaceThatCannotBeWrittenIsAnError) {
  EXPECT_EQ(Log::open("/nowhere/at/all.jsonl", kHeader).status().code(), Code::kIo);
}

TEST(Fingerprint, TellsFilesApart) {
  const test::TempFile a("a.bin"), b("b.bin"), c("c.bin");
  write_text(a.path(), std::string(3'000'001, 'x'));
  write_text(b.path(), std::string(3'000'001, 'x'));
  write_text(c.path(), std::string(3'000'000, 'x') + "y");
  EXPECT_EQ(*file_fingerprint(a.path()), *file_fingerprint(b.path()));
  EXPECT_NE(*file_fingerprint(a.path()), *file_fingerprint(c.path()));
  EXPECT_EQ(file_fingerprint("/nowhere").status().code(), Code::kIo);
}

}  // namespace
}  // namespace quire::eval
