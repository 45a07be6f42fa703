#include "serve/service.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <utility>

#include "engine/sha256.h"

namespace quire::serve {
namespace {

std::string time_text(std::int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// What a stranger wrote, fit for a terminal.
std::string plain(const std::string& text) {
  std::string out = text.substr(0, 100);
  for (char& c : out) c = c > ' ' && c < 0x7F ? c : '?';
  return out.empty() ? "-" : out;
}

}  // namespace

std::string log_line(const LogEntry& entry, std::int64_t now) {
  char seconds[32];
  std::snprintf(seconds, sizeof(seconds), "%.3fs", entry.seconds);
  std::string line = time_text(now) + " " + plain(entry.request_id) + " " + plain(entry.method) +
                     " " + plain(entry.path) + " " + std::to_string(entry.status) + " " + seconds;
  if (!entry.finish.empty()) {
    line += " prompt " + std::to_string(entry.prompt_tokens) + " cached " +
            std::to_string(entry.cached_tokens) + " answer " +
            std::to_string(entry.completion_tokens) + " " + entry.finish;
  }
  return line;
}

Service::Service(model::Model& model, Options options)
    : model_(model),
      options_(std::move(options)),
      rates_(options_.rate, std::max<std::size_t>(1, options_.access.keys.size())) {}

Result<std::unique_ptr<Service>> Service::start(model::Model& model, Cache& cache,
                                                Options options) {
  std::unique_ptr<Service> service(new Service(model, std::move(options)));
  Result<std::unique_ptr<EngineThread>> engine =
      EngineThread::start(model, cache, service->metrics_, service->options_.engine);
  if (!engine.ok()) return engine.status();
  service->engine_ = *std::move(engine);
  if (!service->options_.sessions.directory.empty()) {
    Result<std::unique_ptr<Sessions>> sessions =
        Sessions::open(*service->engine_, cache, service->options_.sessions);
    if (!sessions.ok()) return sessions.status();
    service->sessions_ = *std::move(sessions);
  }
  service->texts_ = std::make_unique<WorkThread>(service->limits().connections);
  return service;
}

void Service::stop() {
  texts_.reset();
  sessions_.reset();
  engine_.reset();
}

void Service::log(const LogEntry& entry) const {
  if (options_.log) options_.log(log_line(entry, std::time(nullptr)));
}

std::optional<Reply> Service::refuse(const Head& head) const {
  const Found found = find_route(head.method, head.path);
  const bool open = found.entry != nullptr && found.entry->open;
  if (std::optional<Reply> reply = refuse_access(options_.access, head, open)) return reply;
  if (found.entry == nullptr && !found.allowed.empty()) {
    Reply reply =
        error_reply(405, "this path takes " + found.allowed + " alone", "method_not_allowed");
    reply.fields.emplace_back("Allow", found.allowed);
    return reply;
  }
  if (found.entry == nullptr) return error_reply(404, "there is no such path", "not_found");
  return {};
}

std::string Service::tenant(const Head& head) const {
  if (options_.access.keys.empty()) return {};
  return engine::sha256_hex(key_of(head));
}

Reply Service::slots() {
  std::vector<Slot> slots;
  std::erase_if(slots_, [&](const Answering& answering) {
    const std::shared_ptr<AnswerPipe> pipe = answering.pipe.lock();
    if (pipe == nullptr) return true;
    for (const AnswerPipe::Progress& progress : pipe->progress()) {
      if (progress.ended) continue;
      slots.push_back({answering.id, answering.prompt_tokens, progress});
    }
    return false;
  });
  return slots_reply(facts(), slots);
}

Reply Service::reply(Route route, const Head& head) {
  switch (route) {
    case Route::kModels:
      return models_reply(facts());
    case Route::kModel:
      return model_reply(facts(), percent_decoded(head.path.substr(sizeof("/v1/models/") - 1)));
    case Route::kHealth:
      return health_reply();
    case Route::kReady:
      return ready_reply(draining, engine_->stalled(options_.stall_seconds));
    case Route::kMetrics:
      return {.body = metrics_.text(engine_->state(), connections, options_.vllm_names),
              .type = "text/plain; version=0.0.4; charset=utf-8"};
    case Route::kProps:
      return props_reply(facts());
    case Route::kSlots:
      return slots();
    case Route::kVersion:
      return version_reply(facts());
    default:
      return error_reply(500, "no reply of this route", "internal");
  }
}

Reply Service::reply_of_text(Route route, std::string_view body) const {
  switch (route) {
    case Route::kTokenize:
      return tokenize_reply(facts(), model_, body);
    case Route::kDetokenize:
      return detokenize_reply(facts(), model_, body);
    case Route::kApplyTemplate:
      return template_reply(facts(), model_, body);
    default:
      return error_reply(500, "no reply of this route", "internal");
  }
}

bool Service::reserve_body(std::size_t bytes) {
  if (bytes > limits().bodies_bytes - std::min(bodies_, limits().bodies_bytes)) return false;
  bodies_ += bytes;
  return true;
}

std::uint64_t Service::add_slot(const std::shared_ptr<AnswerPipe>& pipe,
                                std::uint32_t prompt_tokens) {
  std::erase_if(slots_, [](const Answering& answering) { return answering.pipe.expired(); });
  slots_.push_back({next_slot_, prompt_tokens, pipe});
  return next_slot_++;
}

}  // namespace quire::serve
