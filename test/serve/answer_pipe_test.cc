// Goal: what an engine says reaches its connection once, in order, in bounded memory.
// Method: both ends called here, from one thread, and from two in the last test.

#include "serve/answer_pipe.h"

#include <gtest/gtest.h>

#include <thread>

#include "serve/mailbox.h"

namespace quire::serve {
namespace {

engine::Answer answer_of(std::string text, engine::Finish finish = engine::Finish::kStop) {
  return {.text = std::move(text), .finish = finish};
}

TEST(AnswerPipe, TextsBetweenTwoTakesAreOnePiece) {
  int woken = 0;
  AnswerPipe pipe({.answers = 1, .stream = true, .wake = [&] { ++woken; }});
  pipe.text(0, "a");
  pipe.text(0, "b");
  EXPECT_EQ(woken, 1) << "not again before it was taken";
  AnswerPipe::Taken taken = pipe.take();
  ASSERT_EQ(taken.pieces.size(), 1u);
  EXPECT_EQ(taken.pieces[0].text, "ab");
  EXPECT_FALSE(taken.done);
  EXPECT_TRUE(pipe.take().pieces.empty());
  pipe.text(0, "c");
  pipe.ended(0, answer_of("abc"));
  EXPECT_EQ(woken, 2);
  taken = pipe.take();
  ASSERT_EQ(taken.pieces.size(), 1u);
  EXPECT_EQ(taken.pieces[0].text, "c");
  EXPECT_TRUE(taken.pieces[0].ended && taken.done);
  EXPECT_TRUE(pipe.take().done);
  EXPECT_TRUE(pipe.take().pieces.empty());
}

TEST(AnswerPipe, AWholeAnswerComesAtItsEnd) {
  AnswerPipe pipe({.answers = 2});
  pipe.text(0, "not kept twice");
  pipe.ended(1, answer_of("second"));
  AnswerPipe::Taken taken = pipe.take();
  ASSERT_EQ(taken.pieces.size(), 1u);
  EXPECT_EQ(taken.pieces[0].choice, 1u);
  EXPECT_EQ(taken.pieces[0].answer.text, "second");
  EXPECT_FALSE(taken.done);
  pipe.ended(0, answer_of("first"));
  taken = pipe.take();
  ASSERT_EQ(taken.pieces.size(), 1u);
  EXPECT_EQ(taken.pieces[0].answer.text, "first");
  EXPECT_TRUE(taken.done);
}

TEST(AnswerPipe, ASlowReaderEndsItsAnswersInBoundedMemory) {
  AnswerPipe pipe({.answers = 2, .stream = true, .pending_bytes = 100});
  for (int i = 0; i < 10; ++i) pipe.text(0, "0123456789");
  EXPECT_FALSE(pipe.slow());
  EXPECT_FALSE(pipe.cancelled()->load());
  pipe.text(1, "x");
  EXPECT_TRUE(pipe.slow());
  EXPECT_TRUE(pipe.cancelled()->load());
  for (int i = 0; i < 1000; ++i) pipe.text(1, "more");
  pipe.ended(0, answer_of("", engine::Finish::kCancelled));
  pipe.ended(1, answer_of("", engine::Finish::kCancelled));
  const AnswerPipe::Taken taken = pipe.take();
  ASSERT_EQ(taken.pieces.size(), 2u);
  EXPECT_EQ(taken.pieces[0].text.size() + taken.pieces[1].text.size(), 101u);
  EXPECT_NE(taken.pieces[0].answer.error.message().find("too slow"), std::string::npos);
  EXPECT_TRUE(taken.done);
}

TEST(AnswerPipe, OneRefusalEndsAll) {
  AnswerPipe pipe({.answers = 3});
  pipe.refused({Code::kInvalidArgument, "first"});
  pipe.refused({Code::kInvalidArgument, "second"});
  EXPECT_TRUE(pipe.cancelled()->load());
  const AnswerPipe::Taken taken = pipe.take();
  EXPECT_TRUE(taken.done);
  EXPECT_EQ(taken.refusal.message(), "first");
}

TEST(AnswerPipe, TwoThreadsLoseNothing) {
  std::atomic<int> woken{0};
  AnswerPipe pipe(
      {.answers = 1, .stream = true, .pending_bytes = 1 << 20, .wake = [&] { ++woken; }});
  std::thread engine([&] {
    for (int i = 0; i < 20'000; ++i) pipe.text(0, std::string(1, static_cast<char>('a' + i % 26)));
    pipe.ended(0, answer_of(""));
  });
  std::string all;
  for (bool done = false; !done;) {
    const AnswerPipe::Taken taken = pipe.take();
    for (const auto& piece : taken.pieces) all += piece.text;
    done = taken.done;
  }
  engine.join();
  ASSERT_EQ(all.size(), 20'000u);
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], 'a' + static_cast<char>(i % 26));
  EXPECT_GT(woken, 0);
}

TEST(Mailbox, IsBoundedAndCloses) {
  Mailbox<int> box(2);
  EXPECT_TRUE(box.push(1));
  EXPECT_TRUE(box.push(2));
  EXPECT_FALSE(box.push(3)) << "full";
  EXPECT_EQ(box.take(true), (std::vector<int>{1, 2}));
  EXPECT_TRUE(box.take(false).empty());
  std::thread waiter([&] { EXPECT_EQ(box.take(true), (std::vector<int>{4})); });
  EXPECT_TRUE(box.push(4));
  waiter.join();
  box.close();
  EXPECT_TRUE(box.take(true).empty()) << "does not wait any more";
  EXPECT_FALSE(box.push(5));
}

}  // namespace
}  // namespace quire::serve
