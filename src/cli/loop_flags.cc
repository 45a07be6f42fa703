#include "cli/loop_flags.h"

#include "cli/flags.h"

namespace quire::cli {

void add_loop_flags(CLI::App& app, LoopFlags& flags) {
  add_number(app, "--max-running", flags.max_running, 1u, 4096u,
             "Requests that are computed together, at most");
  app.add_option("--prefix-cache", flags.prefix_cache,
                 "Keep what prompts and answers computed, exactly, for requests that begin alike:\n"
                 "on, off")
      ->type_name("WHEN")
      ->check([](const std::string& text) {
        const bool known = text == "on" || text == "off";
        return known ? std::string() : "\"" + text + "\" is none of on, off";
      })
      ->capture_default_str();
  app.add_option("--queue", flags.queue,
                 "Who of the waiting starts first: fcfs (who came first), cache-aware (whose\n"
                 "prompt is read soonest, waiting counted; :eta=X seconds of reading are worth\n"
                 "one of waiting)")
      ->type_name("ORDER")
      ->check([](const std::string& text) {
        const auto order = engine::make_queue_order(text, 0);
        return order.ok() ? std::string() : order.status().message();
      })
      ->capture_default_str();
  add_number(app, "--step-ms", flags.step_ms, 0.0f, 1e6f,
             "While somebody is answered, prompts are read in pieces with which a step takes\n"
             "about so long, as the steps before tell; 0: by --chunk alone");
}

engine::EngineOptions loop_options(const LoopFlags& flags) {
  engine::EngineOptions options{.max_running = flags.max_running};
  options.prefix_cache = flags.prefix_cache == "on";
  options.order = *engine::make_queue_order(flags.queue, options.ageing_seconds);
  options.step_seconds = static_cast<double>(flags.step_ms) / 1e3;
  return options;
}

}  // namespace quire::cli
