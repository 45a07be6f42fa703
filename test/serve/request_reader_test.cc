// Goal: bytes become the request they are, wherever they are cut, and never more than the limits.
// Method: requests written here, whole and cut at every place.

#include "serve/request_reader.h"

#include <gtest/gtest.h>

namespace quire::serve {
namespace {

using Stage = RequestReader::Stage;

// `piece` bytes come at a time; what the reader did not take is left in `rest`.
struct Read {
  Read(std::string bytes, std::size_t piece, Limits limits = {})
      : kept(limits), reader(kept), rest() {
    while (reader.stage() != Stage::kWhole && reader.stage() != Stage::kRefused) {
      const Stage before = reader.stage();
      const std::size_t used = reader.put(rest);
      rest.erase(0, used);
      if (used > 0 || reader.stage() != before) continue;
      if (bytes.empty()) return;
      rest += bytes.substr(0, piece);
      bytes.erase(0, std::min(piece, bytes.size()));
    }
    rest += bytes;
  }
  Limits kept;
  RequestReader reader;
  std::string rest;
};

constexpr char kPost[] =
    "POST /v1/completions?x=1 HTTP/1.1\r\nHost: here:80\r\nAuthorization: Bearer k\r\n"
    "X-Request-Id: my-id\r\nContent-Length: 5\r\n\r\nhello";

TEST(RequestReader, ReadsTheSameHoweverItIsCut) {
  const std::string next = "GET / HTTP/1.1\r\n";
  for (std::size_t piece = 1; piece < sizeof(kPost) + next.size(); ++piece) {
    Read read(kPost + next, piece);
    ASSERT_EQ(read.reader.stage(), Stage::kWhole) << piece;
    const Head& head = read.reader.head();
    EXPECT_EQ(head.method, "POST");
    EXPECT_EQ(head.path, "/v1/completions");
    EXPECT_EQ(head.query, "x=1");
    EXPECT_EQ(head.host, "here:80");
    EXPECT_EQ(head.authorization, "Bearer k");
    EXPECT_EQ(head.request_id, "my-id");
    EXPECT_TRUE(head.keep_alive && head.has_body && !head.http_1_0 && !head.origin);
    EXPECT_EQ(head.body_bytes, 5u);
    EXPECT_EQ(read.reader.take_body(), "hello");
    EXPECT_EQ(read.rest, next) << "the next request is left for the next reader";
  }
}

TEST(RequestReader, ChunksAreOneBody) {
  const std::string text =
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
      "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    Read read(text, piece);
    ASSERT_EQ(read.reader.stage(), Stage::kWhole) << piece;
    EXPECT_TRUE(read.reader.head().expects_continue);
    EXPECT_FALSE(read.reader.head().body_bytes);
    EXPECT_EQ(read.reader.take_body(), "abcde");
  }
}

TEST(RequestReader, RequestsWithoutABodyAreWholeAtOnce) {
  Read read("GET /health HTTP/1.0\r\n\r\n", 1000);
  ASSERT_EQ(read.reader.stage(), Stage::kWhole);
  EXPECT_TRUE(read.reader.head().http_1_0 && !read.reader.head().keep_alive);
  EXPECT_FALSE(read.reader.head().has_body);
  Read empty("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 1000);
  EXPECT_EQ(empty.reader.stage(), Stage::kWhole);
  Read close("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 1000);
  EXPECT_FALSE(close.reader.head().keep_alive);
}

TEST(RequestReader, PastALimitItRefuses) {
  const Limits limits{.header_bytes = 200, .body_bytes = 10};
  const auto status = [&](const std::string& bytes, std::size_t piece) {
    Read read(bytes, piece, limits);
    return read.reader.stage() == Stage::kRefused ? read.reader.refusal().status : 0;
  };
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\n";
  for (const std::size_t piece : {1u, 7u, 10'000u}) {
    EXPECT_EQ(status(head + "Content-Length: 11\r\n\r\n", piece), 413) << piece;
    EXPECT_EQ(status(head + "Content-Length: 10\r\n\r\n0123456789", piece), 0) << piece;
    EXPECT_EQ(status(head + "Transfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n", piece), 413);
    EXPECT_EQ(status(head + "X: " + std::string(300, 'x') + "\r\n\r\n", piece), 431) << piece;
    EXPECT_EQ(status("GET /" + std::string(300, 'x') + " HTTP/1.1\r\n\r\n", piece), 431) << piece;
  }
}

TEST(RequestReader, WhatIsNoRequestIsRefused) {
  const auto status = [&](const std::string& bytes) {
    Read read(bytes, 10'000);
    return read.reader.stage() == Stage::kRefused ? read.reader.refusal().status : 0;
  };
  for (const char* bad :
       {"hello\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "GET http://evil/ HTTP/1.1\r\nHost: a\r\n\r\n", "\x16\x03\x01\x02\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    EXPECT_EQ(status(bad), 400) << bad;
  }
  EXPECT_EQ(status("GET / HTTP/2.0\r\n\r\n"), 505);
}

}  // namespace
}  // namespace quire::serve
