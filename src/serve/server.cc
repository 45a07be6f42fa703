// Accepting connections, and going down.

#include "serve/server.h"

#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <chrono>
#include <csignal>
#include <ctime>
#include <vector>

#include "serve/connection.h"

namespace quire::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr int kBacklog = 1024;
constexpr auto kBackOff = std::chrono::milliseconds(50);  // without descriptors
constexpr auto kDrainLook = std::chrono::milliseconds(20);
constexpr auto kLastWords = std::chrono::seconds(1);  // from the last cancel to the end

// A descriptor kept for the case that there is no other: with it a client can be told so.
class Spare {
 public:
  Spare() { take(); }
  ~Spare() { give(); }
  Spare(const Spare&) = delete;
  Spare& operator=(const Spare&) = delete;
  void take() { file_ = file_ < 0 ? ::open("/dev/null", O_RDONLY | O_CLOEXEC) : file_; }
  void give() {
    if (file_ >= 0) ::close(file_);
    file_ = -1;
  }

 private:
  int file_ = -1;
};

void turn_away(tcp::socket& socket, const std::string& why) {
  error_code ignored;
  socket.non_blocking(true, ignored);
  const std::string text =
      reply_text(busy_reply(why, "too_many_connections"), {.keep_alive = false});
  socket.write_some(asio::buffer(text), ignored);
  socket.shutdown(tcp::socket::shutdown_both, ignored);
  socket.close(ignored);
}

class Listener final : public Server {
 public:
  Listener(std::unique_ptr<Service> service, const ServerOptions& options)
      : options_(options),
        service_(std::move(service)),
        acceptor_(io_),
        back_off_(io_),
        drain_end_(io_),
        drain_look_(io_),
        signals_(io_) {}
  ~Listener() override {
    service_->stop();  // its threads call back into io_
  }

  Status listen(const tcp::endpoint& endpoint) {
    error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(kBacklog, error);
    if (!error) acceptor_.non_blocking(true, error);
    if (!error) return {};
    return {Code::kIo, "cannot listen on " + options_.host + ":" + std::to_string(options_.port) +
                           ": " + error.message()};
  }

  std::uint16_t port() const override {
    error_code ignored;
    return acceptor_.local_endpoint(ignored).port();
  }

  void run() override {
    asio::co_spawn(
        io_, [this] { return accept_all(); }, asio::detached);
    if (options_.signals) wait_for_signals();
    io_.run();
  }

  void drain() override {
    asio::post(io_, [this] { begin_drain(); });
  }

 private:
  asio::awaitable<void> accept_all();
  void admit(tcp::socket socket);
  void without_descriptor();
  void wait_for_signals();
  void begin_drain();
  void look_whether_drained();
  std::vector<std::shared_ptr<Connection>> connections();

  const ServerOptions options_;
  const std::unique_ptr<Service> service_;
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer back_off_, drain_end_, drain_look_;
  asio::signal_set signals_;
  Spare spare_;
  std::vector<std::weak_ptr<Connection>> connections_;
};

// --- connections ---

asio::awaitable<void> Listener::accept_all() {
  while (acceptor_.is_open()) {
    error_code error;
    tcp::socket socket =
        co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (error == asio::error::operation_aborted) co_return;
    if (!error) {
      admit(std::move(socket));
      continue;
    }
    if (error == asio::error::no_descriptors) without_descriptor();
    back_off_.expires_after(kBackOff);
    co_await back_off_.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
}

void Listener::admit(tcp::socket socket) {
  if (service_->connections >= service_->limits().connections) {
    return turn_away(socket, "too many connections");
  }
  if (connections_.size() >= 2 * std::size_t{service_->connections} + 64) {
    std::erase_if(connections_, [](const auto& weak) { return weak.expired(); });
  }
  const auto connection = std::make_shared<Connection>(std::move(socket), *service_);
  connections_.push_back(connection);
  connection->start();
}

// The process has none left: the one that waits is told, and others after it.
void Listener::without_descriptor() {
  spare_.give();
  error_code error;
  tcp::socket socket(io_);
  acceptor_.accept(socket, error);
  if (!error) turn_away(socket, "no file descriptor left");
  spare_.take();
}

std::vector<std::shared_ptr<Connection>> Listener::connections() {
  std::vector<std::shared_ptr<Connection>> alive;
  for (const std::weak_ptr<Connection>& weak : connections_) {
    if (std::shared_ptr<Connection> connection = weak.lock()) alive.push_back(connection);
  }
  return alive;
}

// --- the end ---

void Listener::wait_for_signals() {
  error_code ignored;
  signals_.add(SIGTERM, ignored);
  signals_.add(SIGINT, ignored);
  signals_.async_wait([this](const error_code& error, int) {
    if (error) return;
    begin_drain();
    if (!io_.stopped()) wait_for_signals();
  });
}

void Listener::begin_drain() {
  if (service_->draining) {
    io_.stop();
    return;
  }
  service_->draining = true;
  for (const auto& connection : connections()) connection->close_if_idle();
  drain_end_.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(options_.drain_seconds)));
  drain_end_.async_wait([this](const error_code& error) {
    if (error) return;
    for (const auto& connection : connections()) connection->abort();
    drain_end_.expires_after(kLastWords);
    drain_end_.async_wait([this](const error_code&) { io_.stop(); });
  });
  look_whether_drained();
}

void Listener::look_whether_drained() {
  if (service_->busy == 0 && service_->engine().answers() == 0) {
    io_.stop();
    return;
  }
  drain_look_.expires_after(kDrainLook);
  drain_look_.async_wait([this](const error_code& error) {
    if (!error) look_whether_drained();
  });
}

// --- opening ---

Result<tcp::endpoint> endpoint_of(const ServerOptions& options) {
  error_code error;
  const std::string host = options.host == "localhost" ? "127.0.0.1" : options.host;
  const asio::ip::address address = asio::ip::make_address(host, error);
  if (error) {
    return Status(Code::kInvalidArgument, "host: \"" + options.host + "\" is no numeric address");
  }
  if (!address.is_loopback() && options.access.keys.empty() && !options.insecure) {
    return Status(Code::kInvalidArgument,
                  "host: others can reach " + options.host +
                      ", and there is no key: name a file of them (--api-key-file), or say that "
                      "everybody may ask (--insecure)");
  }
  return tcp::endpoint(address, options.port);
}

// Whether chats can be had: kUnsupported when the file's template is one libllama does not know.
Result<bool> has_chat(const model::Model& model) {
  const Result<const model::ChatTemplate*> form = model::chat_template_of(model);
  if (form.ok()) return true;
  if (form.status().code() == Code::kNotFound) return false;
  return Status(Code::kUnsupported,
                form.status().message() + "; choose a known one: --chat-template NAME");
}

Result<Facts> facts_of(const model::Model& model, const Cache& cache,
                       const ServerOptions& options) {
  const model::ModelInfo& info = model.info();
  const Result<bool> chat = has_chat(model);
  if (!chat.ok()) return chat.status();
  const std::uint32_t context = options.defaults.context;
  if (context > info.context) {
    return Status(Code::kInvalidArgument, "context: " + std::to_string(context) +
                                              " is over the model's " +
                                              std::to_string(info.context));
  }
  Facts facts{.model = options.model_name.empty() ? info.name : options.model_name,
              .version = options.version,
              .started = static_cast<std::int64_t>(std::time(nullptr)),
              .vocabulary = info.vocabulary,
              .model_context = info.context,
              .context = context == 0 ? info.context : context,
              .tokens_fit = cache.tokens_that_fit(),
              .budget_bytes = cache.options().budget_bytes,
              .running = options.engine.max_running,
              .answers = options.limits.answers,
              .chat = *chat,
              .prefix_cache = options.engine.prefix_cache && cache.options().prefix.hash != nullptr,
              .sessions = !options.sessions.directory.empty(),
              .defaults = options.defaults,
              .limits = options.limits};
  return facts;
}

}  // namespace

Status Server::check(const ServerOptions& options) {
  return endpoint_of(options).status();
}

Result<std::unique_ptr<Server>> Server::open(model::Model& model, Cache& cache,
                                             ServerOptions options) {
  const Result<tcp::endpoint> endpoint = endpoint_of(options);
  if (!endpoint.ok()) return endpoint.status();
  Result<Facts> facts = facts_of(model, cache, options);
  if (!facts.ok()) return facts.status();
  if (!options.sessions.directory.empty() && !facts->prefix_cache) {
    return Status(Code::kInvalidArgument,
                  "session_dir: sessions are kept by the prefix cache, which is off");
  }
  Service::Options service_options{.facts = *std::move(facts),
                                   .access = options.access,
                                   .engine = {.engine = options.engine,
                                              .answers = options.limits.answers,
                                              .clock = options.clock},
                                   .stall_seconds = options.stall_seconds,
                                   .vllm_names = options.vllm_names,
                                   .rate = options.rate,
                                   .sessions = options.sessions,
                                   .log = options.log};
  service_options.access.remote = !endpoint->address().is_loopback();
  Result<std::unique_ptr<Service>> service =
      Service::start(model, cache, std::move(service_options));
  if (!service.ok()) return service.status();
  auto listener = std::make_unique<Listener>(*std::move(service), options);
  if (Status status = listener->listen(*endpoint); !status.ok()) return status;
  std::unique_ptr<Server> server = std::move(listener);
  return server;
}

}  // namespace quire::serve
