#include "serve/sessions.h"

#include <algorithm>
#include <utility>

#include "engine/steady_clock.h"
#include "serve/json_out.h"

namespace quire::serve {
namespace {

using json = nlohmann::ordered_json;

// Of K and V that are copied between two steps: some milliseconds.
constexpr std::size_t kPieceBytes = std::size_t{8} << 20;
constexpr std::size_t kWaitingMost = 64;  // for the thread; others are told to come again

PrefixText first_units(const PrefixText& text, std::uint32_t units, std::uint32_t unit_tokens) {
  return {text.tokens.first(std::size_t{units} * unit_tokens), text.salt, text.keys};
}

// Of a refusal: what is not there, what does not fit together, what is broken.
Reply refusal_of(const Status& status, SessionAsk::Action action) {
  switch (status.code()) {
    case Code::kNotFound:
      return error_reply(404, status.message(), "session_not_found");
    case Code::kUnsupported:
      return error_reply(409, status.message(), "session_mismatch");
    case Code::kCorrupt:
      return error_reply(500, status.message(), "session_corrupt");
    case Code::kOutOfMemory:
      return busy_reply(status.message(), "session_no_room");
    case Code::kCancelled:
      return busy_reply(status.message(), "draining");
    default:
      break;
  }
  const bool save = action == SessionAsk::Action::kSave;
  return error_reply(save ? 507 : 500, status.message(), save ? "session_not_saved" : "session_io");
}

}  // namespace

// Units that are to stay as long as others can go.
class Sessions::Expected {
 public:
  Expected(EngineThread& engine, PrefixText text) : engine_(engine), text_(text) {}
  ~Expected() {
    static_cast<void>(engine_.between_steps([this](Cache& cache) { cache.unexpect(text_); }));
  }
  Expected(const Expected&) = delete;
  Expected& operator=(const Expected&) = delete;
  void set(PrefixText text) { text_ = text; }

 private:
  EngineThread& engine_;
  PrefixText text_;
};

Result<std::unique_ptr<Sessions>> Sessions::open(EngineThread& engine, const Cache& cache,
                                                 const SessionOptions& options) {
  Result<std::unique_ptr<SessionStore>> store = SessionStore::open(options);
  if (!store.ok()) return store.status();
  return std::unique_ptr<Sessions>(new Sessions(engine, cache, *std::move(store)));
}

Sessions::Sessions(EngineThread& engine, const Cache& cache, std::unique_ptr<SessionStore> store)
    : engine_(engine),
      cache_options_(cache.options()),
      layout_(session_layout(cache)),
      store_(std::move(store)),
      thread_(std::make_unique<WorkThread>(kWaitingMost)) {}

Sessions::~Sessions() {
  ended_ = true;
  thread_.reset();
}

Status Sessions::between_steps(const std::function<Status(Cache&)>& work) {
  Status status(Code::kCancelled, "the server is going down");
  if (ended_) return status;
  static_cast<void>(engine_.between_steps([&](Cache& cache) { status = work(cache); }));
  return status;
}

std::uint32_t Sessions::piece_end(std::uint32_t units, std::uint32_t begin) const {
  std::size_t bytes = 0;
  std::uint32_t end = begin;
  while (end < units && bytes < kPieceBytes) {
    bytes += layout_.unit_bytes(units, end, end + 1);
    ++end;
  }
  return end;
}

// --- saving ---

Result<Sessions::Done> Sessions::save(const SessionAsk& ask) {
  PrefixKeys keys;
  const PrefixText asked{ask.tokens, ask.salt, &keys};
  std::uint32_t units = 0;
  const Status found = between_steps([&](Cache& cache) -> Status {
    units = cache.savable_units(asked);
    if (units > 0) {
      cache.expect(first_units(asked, units, layout_.block_tokens));
      return {};
    }
    return {Code::kNotFound, "session: nothing of this text is cached (" +
                                 std::string(name_of(cache.lookup(asked).end)) +
                                 "); answer it first"};
  });
  if (!found.ok()) return found;
  const PrefixText text = first_units(asked, units, layout_.block_tokens);
  const Expected expected(engine_, text);
  const SessionText head{.tokens = {text.tokens.begin(), text.tokens.end()},
                         .salt = keys.units[0].key,
                         .text = keys.units[units].key};
  if (Status status = write(ask, text, head); !status.ok()) return status;
  return Done{.tokens = static_cast<std::uint32_t>(head.tokens.size()),
              .bytes = session_bytes(layout_, units)};
}

Status Sessions::write(const SessionAsk& ask, const PrefixText& text, const SessionText& head) {
  const auto units = static_cast<std::uint32_t>(text.tokens.size() / layout_.block_tokens);
  const auto draft = store_->create(ask.owner, ask.name, session_bytes(layout_, units));
  if (!draft.ok()) return draft.status();
  SessionWriter writer(layout_,
                       [&](std::span<const std::byte> bytes) { return (*draft)->write(bytes); });
  if (Status status = writer.begin(head); !status.ok()) return status;
  std::vector<std::byte> piece;
  for (std::uint32_t begin = 0; begin < units;) {
    const std::uint32_t end = piece_end(units, begin);
    piece.resize(layout_.unit_bytes(units, begin, end));
    const Status copied =
        between_steps([&](Cache& cache) { return cache.save_units(text, begin, end, piece); });
    if (copied.code() == Code::kNotFound) {
      return {Code::kOutOfMemory,
              "session: what it would hold had to make way for requests; save it again "
              "behind the next answer"};
    }
    if (!copied.ok()) return copied;
    if (Status status = writer.add(piece, end - begin); !status.ok()) return status;
    begin = end;
  }
  return (*draft)->keep();
}

// --- restoring ---

Result<Sessions::Done> Sessions::restore(const SessionAsk& ask) {
  Result<std::unique_ptr<SessionSource>> source = store_->read(ask.owner, ask.name);
  if (!source.ok()) return source.status();
  Result<SessionReader> session = SessionReader::open(**source, layout_);
  if (!session.ok()) return session.status();

  PrefixKeys keys;
  const PrefixText text{session->text().tokens, ask.salt, &keys};
  const Status fits = between_steps([&](Cache& cache) -> Status {
    static_cast<void>(cache.savable_units(text));  // makes the keys
    if (keys.units.front().key != session->text().salt) {
      return {Code::kUnsupported,
              "session: salt at offset 64: saved with another key or cache_salt"};
    }
    if (keys.units.back().key != session->text().text) {
      return {Code::kCorrupt, "session: text at offset 96: the tokens are others"};
    }
    return check_room(cache, text);
  });
  if (!fits.ok()) return fits;
  // All of it is sound before any of it is cached; the second reading is from the system's cache.
  if (Status status = check(*session); !status.ok()) return status;
  if (Status status = load(*session, text); !status.ok()) return status;
  return Done{.tokens = static_cast<std::uint32_t>(text.tokens.size()), .bytes = (*source)->size()};
}

Status Sessions::check_room(const Cache& cache, const PrefixText& text) const {
  const auto units = static_cast<std::uint32_t>(text.tokens.size() / layout_.block_tokens);
  std::size_t bytes = 0;
  for (const PrefixSegment& segment : cache.lookup(text).segments) {
    const std::uint32_t first = segment.first / layout_.block_tokens;
    if (segment.cached) continue;
    bytes += layout_.unit_bytes(units, first, first + segment.tokens / layout_.block_tokens);
  }
  if (bytes > cache_options_.budget_bytes) {
    return {Code::kUnsupported, "session: its K and V have " + std::to_string(bytes) +
                                    " bytes, over the budget of " +
                                    std::to_string(cache_options_.budget_bytes)};
  }
  if (bytes <= cache.bytes_free()) return {};
  return {Code::kOutOfMemory, "session: it needs " + std::to_string(bytes) + " bytes, and " +
                                  std::to_string(cache.bytes_free()) +
                                  " of the cache are not in use"};
}

Status Sessions::check(SessionReader& session) {
  std::vector<std::byte> piece;
  for (std::uint32_t begin = 0; begin < session.units();) {
    if (ended_) return {Code::kCancelled, "the server is going down"};
    const std::uint32_t end = piece_end(session.units(), begin);
    if (Status status = session.read(end - begin, piece); !status.ok()) return status;
    begin = end;
  }
  session.rewind();
  return {};
}

Status Sessions::load(SessionReader& session, const PrefixText& text) {
  std::uint32_t loaded = 0;
  Expected expected(engine_, first_units(text, 0, layout_.block_tokens));
  std::vector<std::byte> piece;
  while (loaded < session.units()) {
    const std::uint32_t begin = loaded, end = piece_end(session.units(), begin);
    if (Status status = session.read(end - begin, piece); !status.ok()) return status;
    const Status copied = between_steps([&](Cache& cache) -> Status {
      const Result<std::uint32_t> count = cache.load_units(text, begin, end, piece);
      if (!count.ok()) return count.status();
      loaded += *count;
      return {};
    });
    expected.set(first_units(text, loaded, layout_.block_tokens));
    if (!copied.ok()) return copied;
    if (loaded < end) {
      return {Code::kOutOfMemory, "session: requests need the room; " +
                                      std::to_string(loaded * layout_.block_tokens) + " of " +
                                      std::to_string(text.tokens.size()) + " tokens are back"};
    }
  }
  return {};
}

// --- answers ---

Reply Sessions::answer(const SessionAsk& ask) {
  const double begin = engine::steady_seconds();
  const auto done_reply = [&](const Result<Done>& done, const char* tokens, const char* time) {
    if (!done.ok()) return refusal_of(done.status(), ask.action);
    const double ms = (engine::steady_seconds() - begin) * 1e3;
    return Reply{.body = dump({{"quire_json", 1},
                               {"name", ask.name},
                               {tokens, done->tokens},
                               {"bytes", done->bytes},
                               {"timings", {{time, ms}}}})};
  };
  switch (ask.action) {
    case SessionAsk::Action::kSave:
      return done_reply(save(ask), "saved_tokens", "save_ms");
    case SessionAsk::Action::kRestore:
      return done_reply(restore(ask), "restored_tokens", "restore_ms");
    case SessionAsk::Action::kErase: {
      const Status status = store_->erase(ask.owner, ask.name);
      if (!status.ok()) return refusal_of(status, ask.action);
      return {.body = dump({{"quire_json", 1}, {"name", ask.name}, {"erased", true}})};
    }
    case SessionAsk::Action::kList:
      break;
  }
  const Result<std::vector<SessionStore::Entry>> entries = store_->list(ask.owner);
  if (!entries.ok()) return refusal_of(entries.status(), ask.action);
  json data = json::array();
  for (const SessionStore::Entry& entry : *entries) {
    data.push_back({{"name", entry.name}, {"bytes", entry.bytes}, {"modified", entry.modified}});
  }
  return {.body = dump({{"quire_json", 1}, {"object", "list"}, {"data", std::move(data)}})};
}

}  // namespace quire::serve
