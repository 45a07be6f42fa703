#include "serve/metric_text.h"

#include <algorithm>
#include <charconv>

namespace quire::serve {
namespace {

std::string number(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return {text, end};
}

}  // namespace

void Histogram::observe(double value) {
  const auto at = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  ++counts_[static_cast<std::size_t>(at)];
  ++count_;
  sum_ += value;
}

std::uint64_t Histogram::up_to(std::size_t i) const {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at <= i; ++at) sum += counts_[at];
  return sum;
}

void MetricText::family(const std::string& name, const char* type, const std::string& help,
                        const Labelled& samples, Also also) {
  for (const char* prefix : {"quire:", "vllm:"}) {
    const bool alias = *prefix == 'v';
    if (alias && (!vllm_ || also != Also::kVllm)) continue;
    text_ += std::string("# HELP ") + prefix + name + " " + help + "\n";
    text_ += std::string("# TYPE ") + prefix + name + " " + type + "\n";
    for (const auto& [rest, value] : samples) {
      const std::string full = rest.empty() || rest.front() == '{' ? name + rest : rest;
      text_ += prefix + full + " " + number(value) + "\n";
    }
  }
}

void MetricText::gauge(const std::string& name, const std::string& help, double value, Also also) {
  family(name, "gauge", help, {{"", value}}, also);
}

void MetricText::gauge(const std::string& name, const std::string& help, const Labelled& values) {
  family(name, "gauge", help, values, Also::kNobody);
}

void MetricText::counter(const std::string& name, const std::string& help, double value,
                         Also also) {
  family(name + "_total", "counter", help, {{"", value}}, also);
}

void MetricText::counter(const std::string& name, const std::string& help, const Labelled& values,
                         Also also) {
  family(name + "_total", "counter", help, values, also);
}

void MetricText::histogram(const std::string& name, const std::string& help,
                           const Histogram& values, Also also) {
  Labelled samples;
  const std::span<const double> bounds = values.bounds();
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    samples.emplace_back(name + "_bucket" + label("le", number(bounds[i])),
                         static_cast<double>(values.up_to(i)));
  }
  samples.emplace_back(name + "_bucket" + label("le", "+Inf"), static_cast<double>(values.count()));
  samples.emplace_back(name + "_sum", values.sum());
  samples.emplace_back(name + "_count", static_cast<double>(values.count()));
  family(name, "histogram", help, samples, also);
}

std::string label(const char* name, const std::string& value) {
  std::string escaped;
  for (const char c : value) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return std::string("{") + name + "=\"" + escaped + "\"}";
}

}  // namespace quire::serve
