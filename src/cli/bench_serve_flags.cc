#include "cli/bench_serve_flags.h"

#include "cli/run_flags.h"

namespace quire::cli {
namespace {

constexpr std::uint32_t kRequests = 32, kConcurrency = 8;

std::string check_length(const std::string& text) {
  const Result<Length> length = parse_length(text);
  return length.ok() ? std::string() : length.status().message();
}

void add_arrivals(CLI::App& app, ServeFlags& flags) {
  add_number(app, "--rate", flags.rate, 1e-3f, 1e6f,
             "Requests a second on average, at random (Poisson)");
  add_number(app, "--concurrency", flags.concurrency, 1u, 1u << 20,
             "Closed loop: so many requests at once, the next when one ends (default: 8)");
  app.add_option(
         "--trace", flags.trace,
         "Requests of a file: {\"time\": s, \"prompt_tokens\": n, \"answer_tokens\": n} a line")
      ->type_name("FILE");
  add_number(app, "--requests", flags.requests, 1u, 1u << 20, "Requests in all (default: 32)");
  app.add_option("--prompt", flags.prompt, "Tokens of a prompt: 512, or 512:128 for 384 to 640")
      ->type_name("N[:SPREAD]")
      ->check(check_length)
      ->capture_default_str();
  app.add_option("--answer", flags.answer, "Tokens of an answer, likewise")
      ->type_name("N[:SPREAD]")
      ->check(check_length)
      ->capture_default_str();
  app.add_option("--text", flags.text, "Prompts are pieces of this text (default: random tokens)")
      ->type_name("FILE");
  add_number(app, "--shared", flags.shared, 0u, kMostLength,
             "First tokens that all prompts have in common; a prompt is no longer for it");
  add_number(app, "--seed", flags.seed, 0u, 0xFFFFFFFFu, "Of arrivals, lengths and prompts");
}

void add_serving(CLI::App& app, ServeFlags& flags) {
  add_loop_flags(app, flags.loop);
  add_number(app, "--reserve", flags.reserve, 0u, 1u << 20,
             "Answer tokens that a request must have room for to start");
  app.add_option("--policy", flags.policy,
                 "What to drop when a sequence must shrink; none: nothing")
      ->type_name("NAME")
      ->check(check_policy)
      ->capture_default_str();
  app.add_option("--keep", flags.keep, "What a request keeps after a review: 1024tok, 25%, 16MiB")
      ->type_name("SIZE")
      ->check(check_keep);
}

}  // namespace

void add_serve_flags(CLI::App& app, ServeFlags& flags) {
  add_model_flag(app, flags.engine)->required();
  add_arrivals(app, flags);
  add_serving(app, flags);
  add_cache_flags(app, flags.engine);
  add_number(app, "--limit-ttft", flags.limit_ttft_ms, 1e-3f, 1e9f,
             "Milliseconds to the first token that a good answer takes at most");
  add_number(app, "--limit-tpot", flags.limit_tpot_ms, 1e-3f, 1e9f,
             "Milliseconds a token after it, likewise");
  app.add_flag("--json", flags.json, "One JSON object instead of a table");
  app.add_option("--report", flags.report, "Also write serve.json and plots into this folder")
      ->type_name("DIR");
}

Status check(const ServeFlags& flags) {
  const auto refuse = [](const std::string& text) { return Status(Code::kInvalidArgument, text); };
  const int ways = (flags.rate > 0) + (flags.concurrency > 0) + !flags.trace.empty();
  if (ways > 1) return refuse("--rate, --concurrency, --trace: give one of them");
  if (!flags.trace.empty() && flags.requests > 0) {
    return refuse("--requests: --trace names them all");
  }
  if (flags.policy == "none" && !flags.keep.empty()) {
    return refuse("--keep: without --policy nothing is dropped; name one (`quire policies`)");
  }
  return {};
}

std::uint32_t concurrency_of(const ServeFlags& flags) {
  if (flags.rate > 0 || !flags.trace.empty()) return 0;
  return flags.concurrency > 0 ? flags.concurrency : kConcurrency;
}

Result<std::vector<Arrival>> trace_of(const ServeFlags& flags) {
  if (!flags.trace.empty()) {
    const Result<std::string> text = read_text(flags.trace);
    if (!text.ok()) return text.status();
    return parse_trace(*text, flags.trace);
  }
  const TraceShape shape{.requests = flags.requests > 0 ? flags.requests : kRequests,
                         .prompt = *parse_length(flags.prompt),
                         .answer = *parse_length(flags.answer),
                         .seed = flags.seed};
  return flags.rate > 0 ? poisson_trace(shape, static_cast<double>(flags.rate))
                        : closed_trace(shape);
}

ServeLimits limits_of(const ServeFlags& flags) {
  ServeLimits limits;
  if (flags.limit_ttft_ms > 0) limits.ttft = static_cast<double>(flags.limit_ttft_ms) / 1e3;
  if (flags.limit_tpot_ms > 0) limits.tpot = static_cast<double>(flags.limit_tpot_ms) / 1e3;
  return limits;
}

}  // namespace quire::cli
