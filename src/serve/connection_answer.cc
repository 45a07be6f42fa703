// What stands between a request and its reply.

#include <boost/asio/post.hpp>
#include <cstdio>
#include <ctime>
#include <exception>
#include <utility>

#include "serve/connection.h"
#include "serve/json_out.h"

namespace quire::serve {
namespace {

namespace asio = boost::asio;

constexpr double kLong = 3600;  // seconds; a wait that only an event ends
constexpr const char* kPing = ": waiting\n\n";

Reply stream_head() {
  Reply head{.type = "text/event-stream; charset=utf-8"};
  head.fields.emplace_back("X-Accel-Buffering", "no");  // proxies pass events on at once
  return head;
}

Status going_down() {
  return {Code::kCancelled, "the server is going down"};
}

}  // namespace

Connection::Task<void> Connection::answer(Route route) {
  switch (route) {
    case Route::kChat:
      co_await complete(Endpoint::kChat);
      break;
    case Route::kCompletions:
      co_await complete(Endpoint::kCompletions);
      break;
    case Route::kTokenize:
    case Route::kDetokenize:
    case Route::kApplyTemplate:
      co_await answer_of_text(route);
      break;
    case Route::kSessions:
    case Route::kSession:
    case Route::kSessionErase:
      co_await answer_of_sessions(route);
      break;
    default: {
      const Reply reply = service_.reply(route, reader_->head());
      co_await respond(reply);
    }
  }
}

// False: too many others wait for it.
Connection::Task<bool> Connection::on_thread(WorkThread& thread,
                                             const std::function<void()>& work) {
  const auto done = std::make_shared<bool>(false);
  const auto executor = socket_.get_executor();
  const std::weak_ptr<Connection> weak = weak_from_this();
  const bool accepted = thread.run([work, done, executor, weak] {
    try {
      work();
    } catch (const std::exception&) {
      // What it was to fill says so.
    }
    asio::post(executor, [done, weak] {
      *done = true;
      if (const std::shared_ptr<Connection> self = weak.lock()) self->wakeup_.raise();
    });
  });
  while (accepted && !*done) co_await wakeup_.wait(kLong);
  co_return accepted;
}

Connection::Task<void> Connection::answer_of_text(Route route) {
  const auto body = std::make_shared<const std::string>(reader_->take_body());
  const auto reply = std::make_shared<Reply>(error_reply(500, "out of memory", "internal"));
  const std::function<void()> work = [&service = service_, route, body, reply] {
    *reply = service.reply_of_text(route, *body);
  };
  const bool accepted = co_await on_thread(service_.texts(), work);
  if (!accepted) *reply = busy_reply("too many requests", "busy");
  co_await respond(*reply);
}

// Read on the texts' thread, answered on the one of their files.
Connection::Task<void> Connection::answer_of_sessions(Route route) {
  Sessions* const sessions = service_.sessions();
  if (sessions == nullptr) {
    const Reply off = error_reply(501, "sessions are off; start the server with --session-dir DIR",
                                  "sessions_off");
    co_await respond(off);
    co_return;
  }
  const auto body = std::make_shared<const std::string>(reader_->take_body());
  const auto asked = std::make_shared<SessionAsked>();
  asked->refusal = error_reply(500, "out of memory", "internal");
  const std::function<void()> read = [&service = service_, route, path = reader_->head().path, body,
                                      tenant = service_.tenant(reader_->head()), asked] {
    *asked = understand_session(service.facts(), service.model(), route, path, *body, tenant);
  };
  const auto reply = std::make_shared<Reply>(error_reply(500, "out of memory", "internal"));
  const std::function<void()> work = [sessions, asked, reply] {
    *reply = sessions->answer(*asked->ask);
  };
  bool accepted = co_await on_thread(service_.texts(), read);
  if (accepted && !asked->ask) {
    *reply = asked->refusal;
  } else if (service_.draining) {
    *reply = busy_reply("the server is going down", "draining");
  } else {
    if (accepted) accepted = co_await on_thread(sessions->thread(), work);
    if (!accepted) *reply = busy_reply("too many requests", "busy");
  }
  co_await respond(*reply);
}

// --- completions ---

AnswerHead Connection::answer_head(const Question& question, Endpoint endpoint) {
  char id[32];
  std::snprintf(id, sizeof(id), "%016llx", static_cast<unsigned long long>(service_.random()));
  return {.endpoint = endpoint,
          .id = id,
          .model = service_.facts().model,
          .created = static_cast<std::int64_t>(std::time(nullptr)),
          .fingerprint = "quire-" + service_.facts().version,
          .reader = question.reader};
}

std::shared_ptr<AnswerPipe> Connection::ask(Question& question) {
  const auto count = static_cast<std::uint32_t>(question.requests.size());
  const auto executor = socket_.get_executor();
  const std::weak_ptr<Connection> weak = weak_from_this();
  auto pipe = std::make_shared<AnswerPipe>(
      AnswerPipe::Options{.answers = count,
                          .stream = question.stream,
                          .pending_bytes = service_.limits().pending_bytes,
                          .wake = [executor, weak] {
                            asio::post(executor, [weak] {
                              if (const std::shared_ptr<Connection> self = weak.lock())
                                self->wakeup_.raise();
                            });
                          }});
  EngineThread::Job job{.requests = std::move(question.requests),
                        .pipe = pipe,
                        .logprobs = question.logprobs,
                        .top_logprobs = question.top_logprobs};
  question.requests.clear();
  if (!service_.engine().submit(std::move(job))) return nullptr;
  service_.metrics().asked(count);
  service_.add_slot(pipe, question.prompt_tokens);
  return pipe;
}

Connection::Task<void> Connection::complete(Endpoint endpoint) {
  const auto body = std::make_shared<const std::string>(reader_->take_body());
  const auto understood = std::make_shared<Understood>();
  understood->refusal = error_reply(500, "out of memory", "internal");
  const std::string tenant = service_.tenant(reader_->head());
  const std::function<void()> work = [&service = service_, endpoint, body, understood, tenant] {
    *understood = understand(service.facts(), service.model(), endpoint, *body, tenant);
  };
  const bool accepted = co_await on_thread(service_.texts(), work);
  if (!accepted || service_.draining) {
    understood->question.reset();
    understood->refusal = accepted ? busy_reply("the server is going down", "draining")
                                   : busy_reply("too many requests", "busy");
  }
  if (understood->question && over_token_rate(*understood->question)) {
    understood->question.reset();
    understood->refusal = refusal_;
  }
  if (understood->question) {
    pipe_ = ask(*understood->question);
    if (pipe_ == nullptr) {
      service_.metrics().rejected();
      settle(*understood->question);
      understood->question.reset();
      understood->refusal = busy_reply("so many answers wait already", "queue_full");
    }
  }
  if (!understood->question) {
    co_await respond(understood->refusal);
    co_return;
  }
  answering_ = true;
  watch();
  if (understood->question->stream) {
    co_await stream(*understood->question, endpoint);
  } else {
    co_await collect(*understood->question, endpoint);
  }
  if (lost()) service_.metrics().disconnected();
  pipe_->cancel();
  settle(*understood->question);
  pipe_.reset();
  co_await stop_watching();
}

void Connection::note(const AnswerEvents::Piece& piece) {
  if (!piece.ended) return;
  entry_.prompt_tokens = piece.answer.prompt_tokens;
  entry_.cached_tokens = piece.answer.kv.cached_tokens;
  entry_.completion_tokens += piece.answer.completion_tokens;
  entry_.finish = finish_reason(piece.answer.finish);
}

// Why there is no whole answer, if nothing of one was sent yet.
std::optional<Reply> Connection::fault_of(const AnswerPipe::Taken& taken, bool one) const {
  if (!taken.refusal.ok()) return refusal_reply(taken.refusal);
  for (const AnswerEvents::Piece& piece : taken.pieces) {
    if (!piece.ended || !one) continue;
    if (piece.answer.finish == engine::Finish::kError) return refusal_reply(piece.answer.error);
    if (piece.answer.finish == engine::Finish::kCancelled && closing_) {
      return busy_reply(going_down().message(), "draining");
    }
  }
  return {};
}

Connection::Task<void> Connection::collect(const Question& question, Endpoint endpoint) {
  const std::size_t count = pipe_->progress().size();
  std::vector<Choice> choices(count);
  std::optional<Reply> reply;
  while (!reply && !lost()) {
    AnswerPipe::Taken taken = pipe_->take();
    reply = fault_of(taken, true);
    for (AnswerEvents::Piece& piece : taken.pieces) {
      note(piece);
      choices[piece.choice] = {.answer = std::move(piece.answer),
                               .logprobs = std::move(piece.logprobs),
                               .with_logprobs = question.logprobs};
    }
    if (!reply && taken.done) {
      reply.emplace();
      reply->body = dump(completion_json(answer_head(question, endpoint), choices));
    }
    if (!reply) co_await wakeup_.wait(kLong);
  }
  if (reply) co_await respond(*reply);
}

Connection::Task<void> Connection::stream(const Question& question, Endpoint endpoint) {
  const std::size_t count = pipe_->progress().size();
  AnswerEvents events(answer_head(question, endpoint), static_cast<std::uint32_t>(count),
                      question.include_usage, question.logprobs);
  const Reply head = stream_head();
  if (reader_->head().http_1_0) keep_alive_ = false;
  bool begun = false, done = false;
  while (!done && !lost()) {
    AnswerPipe::Taken taken = pipe_->take();
    std::optional<Reply> fault;
    if (!begun) fault = fault_of(taken, count == 1);
    if (fault) {
      co_await respond(*fault);
      co_return;
    }
    std::string body;
    if (!taken.refusal.ok()) body = "data: " + dump(refusal_json(taken.refusal, {})) + "\n\n";
    for (AnswerEvents::Piece& piece : taken.pieces) {
      note(piece);
      const bool cancelled = piece.ended && piece.answer.finish == engine::Finish::kCancelled;
      if (cancelled && piece.answer.error.ok()) piece.answer.error = going_down();
      body += events.piece(piece);
    }
    done = taken.done;
    if (done) body += events.end();
    if (body.empty()) {
      const bool woken = co_await wakeup_.wait(service_.limits().ping_seconds);
      if (woken) continue;
      body = kPing;
    }
    std::string text;
    if (!begun) text = stream_head_text(head, framing());
    text += chunk_text(body, framing());
    if (done) text += last_chunk_text(framing());
    begun = true;
    entry_.status = head.status;
    co_await write(text);
  }
}

}  // namespace quire::serve
