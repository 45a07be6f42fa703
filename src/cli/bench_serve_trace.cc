#include "cli/bench_serve_trace.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

namespace quire::cli {
namespace {

using json = nlohmann::json;

// The standard's distributions differ between libraries; its engines do not.
std::uint64_t below(std::mt19937_64& random, std::uint64_t limit) {
  const std::uint64_t fair = ~std::uint64_t{0} / limit * limit;
  std::uint64_t x = random();
  while (x >= fair) x = random();
  return x % limit;
}

// In (0, 1].
double share(std::mt19937_64& random) {
  return static_cast<double>((random() >> 11) + 1) * 0x1p-53;
}

std::uint32_t draw(std::mt19937_64& random, const Length& length) {
  const std::uint64_t x = below(random, 2 * std::uint64_t{length.spread} + 1);
  return static_cast<std::uint32_t>(length.mean - length.spread + x);
}

bool read_number(std::string_view text, std::uint32_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number <= kMostLength;
}

Status refuse(const std::string& where, const std::string& why) {
  return {Code::kInvalidArgument, where + ": " + why};
}

Status read_tokens(const json& object, const char* field, const std::string& where,
                   std::uint32_t& tokens) {
  const auto found = object.find(field);
  if (found == object.end()) return refuse(where, std::string(field) + " is missing");
  if (!found->is_number_unsigned() || found->get<std::uint64_t>() < 1 ||
      found->get<std::uint64_t>() > kMostLength) {
    return refuse(where, std::string(field) + " is " + found->dump() + ", not a number from 1 to " +
                             std::to_string(kMostLength));
  }
  tokens = found->get<std::uint32_t>();
  return {};
}

Result<Arrival> read_arrival(const json& object, const std::string& where) {
  if (!object.is_object()) return refuse(where, "is not an object");
  const auto time = object.find("time");
  if (time == object.end()) return refuse(where, "time is missing");
  if (!time->is_number() || !(time->get<double>() >= 0) || time->get<double>() > 1e9) {
    return refuse(where, "time is " + time->dump() + ", not seconds from 0 to 1e9");
  }
  Arrival arrival{.seconds = time->get<double>()};
  Status status = read_tokens(object, "prompt_tokens", where, arrival.prompt_tokens);
  if (status.ok()) status = read_tokens(object, "answer_tokens", where, arrival.answer_tokens);
  if (!status.ok()) return status;
  return arrival;
}

}  // namespace

Result<Length> parse_length(std::string_view text) {
  const std::size_t colon = text.find(':');
  Length length;
  const bool read = read_number(text.substr(0, colon), length.mean) &&
                    (colon == text.npos || read_number(text.substr(colon + 1), length.spread));
  if (!read || length.spread >= length.mean || length.mean + length.spread > kMostLength) {
    return refuse("\"" + std::string(text) + "\"",
                  "not TOKENS or MEAN:SPREAD, from 1 to " + std::to_string(kMostLength));
  }
  return length;
}

std::vector<Arrival> closed_trace(const TraceShape& shape) {
  std::mt19937_64 random(shape.seed);
  std::vector<Arrival> trace(shape.requests);
  for (Arrival& arrival : trace) {
    arrival.prompt_tokens = draw(random, shape.prompt);
    arrival.answer_tokens = draw(random, shape.answer);
  }
  return trace;
}

std::vector<Arrival> poisson_trace(const TraceShape& shape, double rate) {
  std::vector<Arrival> trace = closed_trace(shape);
  std::mt19937_64 random(shape.seed ^ 0x9E3779B97F4A7C15ull);  // lengths stay at another rate
  double now = 0;
  for (Arrival& arrival : trace) {
    now += -std::log(share(random)) / rate;
    arrival.seconds = now;
  }
  return trace;
}

Result<std::vector<Arrival>> parse_trace(std::string_view text, const std::string& source) {
  std::vector<Arrival> trace;
  const auto add = [&](const json& object, const std::string& where) {
    const Result<Arrival> arrival = read_arrival(object, where);
    if (arrival.ok()) trace.push_back(*arrival);
    return arrival.ok() ? Status() : arrival.status();
  };
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != text.npos && text[first] == '[') {
    const json list = json::parse(text, nullptr, false);
    if (list.is_discarded()) return refuse(source, "is not JSON");
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Status status = add(list[i], source + ": [" + std::to_string(i) + "]");
      if (!status.ok()) return status;
    }
  } else {
    std::size_t number = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line = text.substr(at, end - at);
      at = end + 1;
      ++number;
      if (line.find_first_not_of(" \t\r") == line.npos) continue;
      const std::string where = source + ": line " + std::to_string(number);
      const json object = json::parse(line, nullptr, false);
      if (object.is_discarded()) return refuse(where, "is not JSON");
      if (const Status status = add(object, where); !status.ok()) return status;
    }
  }
  if (trace.empty()) return refuse(source, "holds no request");
  std::ranges::stable_sort(trace, {}, &Arrival::seconds);
  return trace;
}

std::vector<model::Token> PromptMaker::some(std::uint64_t stream, std::size_t tokens) const {
  std::mt19937_64 random(seed_ + 0xD1B54A32D192ED03ull * stream);
  std::vector<model::Token> some(tokens);
  const std::size_t from = text_.empty() ? 0 : below(random, text_.size());
  for (std::size_t i = 0; i < some.size(); ++i) {
    some[i] =
        text_.empty() ? words_[below(random, words_.size())] : text_[(from + i) % text_.size()];
  }
  return some;
}

std::vector<model::Token> PromptMaker::make(std::size_t request, std::uint32_t tokens) const {
  const std::uint32_t shared = std::min(shared_, tokens);
  std::vector<model::Token> prompt = some(0, shared);
  std::vector<model::Token> own = some(request + 1, tokens - shared);
  if (!own.empty()) own[0] = words_[(seed_ + request) % words_.size()];
  prompt.insert(prompt.end(), own.begin(), own.end());
  return prompt;
}

}  // namespace quire::cli
