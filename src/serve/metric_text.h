// Prometheus' text format.  Written here, not by a library: all values lie ready in one snapshot,
// and all names and label sets are known where this is compiled.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace quire::serve {

class Histogram {
 public:
  // `bounds`: upper ends of the buckets, ascending; they outlive it.
  explicit Histogram(std::span<const double> bounds)
      : bounds_(bounds), counts_(bounds.size() + 1, 0) {}
  void observe(double value);
  std::span<const double> bounds() const { return bounds_; }
  // Values up to the i-th bound; the last: all.
  std::uint64_t up_to(std::size_t i) const;
  std::uint64_t count() const { return count_; }
  double sum() const { return sum_; }

 private:
  std::span<const double> bounds_;
  std::vector<std::uint64_t> counts_;  // [bucket], the last above all bounds
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

class MetricText {
 public:
  // With `vllm`, what vLLM has under the same name is there twice: as quire: and as vllm:.
  explicit MetricText(bool vllm) : vllm_(vllm) {}

  enum class Also : std::uint8_t { kNobody, kVllm };
  using Labelled = std::vector<std::pair<std::string, double>>;  // "{reason=\"x\"}" -> value

  void gauge(const std::string& name, const std::string& help, double value,
             Also also = Also::kNobody);
  void gauge(const std::string& name, const std::string& help, const Labelled& values);
  // `name` without _total.
  void counter(const std::string& name, const std::string& help, double value,
               Also also = Also::kNobody);
  void counter(const std::string& name, const std::string& help, const Labelled& values,
               Also also = Also::kNobody);
  void histogram(const std::string& name, const std::string& help, const Histogram& values,
                 Also also = Also::kNobody);

  const std::string& text() const { return text_; }

 private:
  void family(const std::string& name, const char* type, const std::string& help,
              const Labelled& samples, Also also);

  const bool vllm_;
  std::string text_;
};

// {name="value"}
std::string label(const char* name, const std::string& value);

}  // namespace quire::serve
