#include "roles/probe_train.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>

#include "quire/check.h"

namespace quire::roles {
namespace {

constexpr float kBeta1 = 0.9f, kBeta2 = 0.999f, kTiny = 1e-8f;  // of Adam's paper

std::vector<Token> ids_of(std::span<const Lesson> lessons) {
  std::map<Token, std::uint64_t> count;
  for (const Lesson& lesson : lessons) {
    for (const Token token : lesson.tokens) ++count[token];
  }
  std::vector<std::pair<std::uint64_t, Token>> most(count.size());
  std::ranges::transform(count, most.begin(),
                         [](const auto& c) { return std::pair(c.second, c.first); });
  std::ranges::stable_sort(most, std::greater{}, &std::pair<std::uint64_t, Token>::first);
  most.resize(std::min(most.size(), kProbeIdsMost));
  std::vector<Token> ids;
  for (const auto& [times, id] : most) ids.push_back(id);
  std::ranges::sort(ids);
  return ids;
}

// All lessons behind each other, with what is beyond a text between them.
struct Course {
  std::vector<std::uint32_t> row;
  std::vector<std::uint8_t> state;
  std::vector<Role> role;
  std::vector<std::uint32_t> at;  // where a token is; the rest is beyond a text

  Course(const Probe& probe, std::span<const Lesson> lessons) {
    add_border();
    for (const Lesson& lesson : lessons) {
      QUIRE_CHECK(lesson.states.size() == lesson.tokens.size());
      QUIRE_CHECK(lesson.roles.size() == lesson.tokens.size());
      for (std::size_t i = 0; i < lesson.tokens.size(); ++i) {
        at.push_back(static_cast<std::uint32_t>(row.size()));
        row.push_back(probe.row_of(lesson.tokens[i]));
      }
      state.insert(state.end(), lesson.states.begin(), lesson.states.end());
      role.insert(role.end(), lesson.roles.begin(), lesson.roles.end());
      add_border();
    }
  }

 private:
  void add_border() {
    row.insert(row.end(), kProbeReach, 1);
    state.resize(row.size());
    role.resize(row.size());
  }
};

// Where the weights of a token begin: in Probe::windows, and in Probe::states.
struct Places {
  std::array<std::size_t, kProbeWindow> window;
  std::size_t state;
};
using Sums = std::array<float, kRoles>;

// `hide`: 12 bits an offset; below `hidden` its id is taken for one that nobody saw.
Places places_of(const Probe& probe, const Course& course, std::uint32_t at, std::uint64_t hide,
                 std::uint64_t hidden) {
  Places places{.state = course.state[at] * kRoles};
  for (std::uint32_t o = 0; o < kProbeWindow; ++o) {
    const bool unseen = (hide >> 12 * o & 0xFFF) < hidden;
    const std::uint32_t row = course.row[at + o - kProbeReach];
    places.window[o] = (std::size_t{o} * probe.rows() + (unseen && row != 1 ? 0 : row)) * kRoles;
  }
  return places;
}

// Probabilities of the roles.
Sums softmax(const Probe& probe, const Places& places) {
  Sums p;
  std::copy_n(&probe.states[places.state], kRoles, p.begin());
  for (const std::size_t first : places.window) {
    for (std::size_t r = 0; r < kRoles; ++r) p[r] += probe.windows[first + r];
  }
  const float most = *std::ranges::max_element(p);
  float sum = 0;
  for (float& x : p) sum += x = std::exp(x - most);
  for (float& x : p) x /= sum;
  return p;
}

// Weights of one kind, and what Adam remembers of them.
class Adam {
 public:
  Adam(std::vector<float>& weights, const TrainOptions& options)
      : gradient(weights.size()),
        weights_(weights),
        mean_(weights.size()),
        square_(weights.size()),
        options_(options) {}

  std::vector<float> gradient;  // of the next step; 0 after it

  void step() {
    power1_ *= kBeta1, power2_ *= kBeta2;
    const float grown = std::sqrt(1 - power2_);
    const float rate = options_.rate * grown / (1 - power1_), tiny = kTiny * grown;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      const float g = gradient[i] + options_.decay * weights_[i];
      mean_[i] = kBeta1 * mean_[i] + (1 - kBeta1) * g;
      square_[i] = kBeta2 * square_[i] + (1 - kBeta2) * g * g;
      weights_[i] -= rate * mean_[i] / (std::sqrt(square_[i]) + tiny);
      gradient[i] = 0;
    }
  }

 private:
  std::vector<float>& weights_;
  std::vector<float> mean_, square_;
  const TrainOptions& options_;
  float power1_ = 1, power2_ = 1;
};

class Training {
 public:
  Training(std::span<const Lesson> lessons, Probe& probe, const TrainOptions& options)
      : probe_(probe),
        options_(options),
        hidden_(static_cast<std::uint64_t>(options.hidden * 4096)),
        course_(probe, lessons),
        windows_(probe.windows, options),
        states_(probe.states, options),
        random_(options.seed) {}

  bool run() {
    for (std::uint32_t epoch = 0; epoch < options_.epochs; ++epoch) {
      for (std::size_t i = course_.at.size(); i > 1; --i) {
        std::swap(course_.at[i - 1], course_.at[random_() % i]);
      }
      for (std::size_t begin = 0; begin < course_.at.size(); begin += options_.batch) {
        const std::size_t end = std::min<std::size_t>(begin + options_.batch, course_.at.size());
        learn(begin, end);
        const double part = static_cast<double>(end) / static_cast<double>(course_.at.size());
        if (options_.progress && !options_.progress((epoch + part) / options_.epochs)) return false;
      }
    }
    return true;
  }

 private:
  // A step by the mean gradient of the tokens [begin, end) of the order.
  void learn(std::size_t begin, std::size_t end) {
    const float share = 1 / static_cast<float>(end - begin);
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint32_t at = course_.at[i];
      const Places places = places_of(probe_, course_, at, random_(), hidden_);
      Sums error = softmax(probe_, places);
      error[static_cast<std::size_t>(course_.role[at])] -= 1;
      for (std::size_t r = 0; r < kRoles; ++r) {
        error[r] *= share;
        states_.gradient[places.state + r] += error[r];
        for (const std::size_t first : places.window) windows_.gradient[first + r] += error[r];
      }
    }
    windows_.step();
    states_.step();
  }

  Probe& probe_;
  const TrainOptions& options_;
  const std::uint64_t hidden_;
  Course course_;
  Adam windows_, states_;
  std::mt19937_64 random_;
};

}  // namespace

Result<Probe> train_probe(std::span<const Lesson> lessons, const TrainOptions& options) {
  Probe probe{.ids = ids_of(lessons)};
  if (probe.ids.empty()) return Status(Code::kInvalidArgument, "probe: no token to learn from");
  probe.states.resize(kTextStates * kRoles);
  probe.windows.resize(std::size_t{kProbeWindow} * probe.rows() * kRoles);
  if (!Training(lessons, probe, options).run()) {
    return Status(Code::kCancelled, "probe: training was cancelled");
  }
  return probe;
}

double probe_loss(const Probe& probe, std::span<const Lesson> lessons) {
  const Course course(probe, lessons);
  double sum = 0;
  for (const std::uint32_t at : course.at) {
    const Sums p = softmax(probe, places_of(probe, course, at, 0, 0));
    sum -= std::log(std::max(p[static_cast<std::size_t>(course.role[at])], 1e-30f));
  }
  return sum / static_cast<double>(course.at.size());
}

}  // namespace quire::roles
