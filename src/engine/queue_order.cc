#include "engine/queue_order.h"

#include <charconv>
#include <cmath>

namespace quire::engine {

Result<std::shared_ptr<const QueueOrder>> make_queue_order(std::string_view text,
                                                           double ageing_seconds) {
  constexpr std::string_view kAware = "cache-aware", kOption = ":eta=";
  const auto refuse = [&] {
    return Status(Code::kInvalidArgument, "\"" + std::string(text.substr(0, 60)) +
                                              "\" is none of fcfs, cache-aware, cache-aware:eta=X "
                                              "with X from 0.001 to 1000");
  };
  if (text == "fcfs") {
    return std::shared_ptr<const QueueOrder>(std::make_shared<FirstCome>(ageing_seconds));
  }
  if (!text.starts_with(kAware)) return refuse();
  double eta = kEta;
  if (std::string_view rest = text.substr(kAware.size()); !rest.empty()) {
    if (!rest.starts_with(kOption)) return refuse();
    rest.remove_prefix(kOption.size());
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), eta);
    const bool whole = error == std::errc{} && end == rest.data() + rest.size();
    if (!whole || !(eta >= 1e-3 && eta <= 1e3)) return refuse();
  }
  return std::shared_ptr<const QueueOrder>(std::make_shared<CacheAware>(ageing_seconds, eta));
}

}  // namespace quire::engine
