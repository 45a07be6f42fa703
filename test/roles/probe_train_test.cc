// Goal: training lowers the loss by the gradient that it should, learns what can be learnt, and is
// the same every time.
// Method: a slow twin in double precision over one-hot inputs; toys with a rule; made-up tokens of
// made-up JSON, labelled by the scanners.
#include "roles/probe_train.h"

#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <map>
#include <random>

#include "roles/confusion.h"
#include "roles/roles.h"

namespace quire::roles {
namespace {

Lesson random_lesson(std::size_t tokens, std::uint32_t vocabulary, std::mt19937_64& random) {
  Lesson lesson;
  for (std::size_t i = 0; i < tokens; ++i) {
    lesson.tokens.push_back(static_cast<Token>(3 * (random() % vocabulary)));
    lesson.states.push_back(static_cast<std::uint8_t>(random() % kTextStates));
    lesson.roles.push_back(static_cast<Role>(random() % kRoles));
  }
  return lesson;
}

// Softmax regression over one-hot inputs, and Adam as its paper has it, all tokens at every step.
class Twin {
 public:
  Twin(const std::vector<Lesson>& lessons, const Probe& shape, const TrainOptions& options)
      : windows_(shape.windows.size() / kRoles), options_(options) {
    weight.assign(shape.windows.size() + shape.states.size(), 0);
    mean_ = square_ = weight;
    for (const Lesson& lesson : lessons) {
      const auto size = static_cast<std::ptrdiff_t>(lesson.tokens.size());
      for (std::ptrdiff_t i = 0; i < size; ++i) {
        std::vector<std::size_t> inputs = {windows_ + lesson.states[static_cast<std::size_t>(i)]};
        for (std::ptrdiff_t o = -2; o <= 2; ++o) {
          const bool inside = 0 <= i + o && i + o < size;
          const std::uint32_t row =
              inside ? shape.row_of(lesson.tokens[static_cast<std::size_t>(i + o)]) : 1;
          inputs.push_back(static_cast<std::size_t>(o + 2) * shape.rows() + row);
        }
        inputs_.push_back(inputs);
        roles_.push_back(static_cast<std::size_t>(lesson.roles[static_cast<std::size_t>(i)]));
      }
    }
  }

  std::vector<double> weight;  // [inputs][roles]: windows, then states

  void step() {
    std::vector<double> gradient(weight.size(), 0);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      std::vector<double> p(kRoles, 0);
      double sum = 0;
      for (std::size_t r = 0; r < kRoles; ++r) {
        for (const std::size_t input : inputs_[i]) p[r] += weight[input * kRoles + r];
        sum += p[r] = std::exp(p[r]);
      }
      for (std::size_t r = 0; r < kRoles; ++r) {
        const double error = p[r] / sum - (roles_[i] == r ? 1 : 0);
        for (const std::size_t input : inputs_[i]) {
          gradient[input * kRoles + r] += error / static_cast<double>(inputs_.size());
        }
      }
    }
    ++steps_;
    for (std::size_t i = 0; i < weight.size(); ++i) {
      const double g = gradient[i] + options_.decay * weight[i];
      mean_[i] = 0.9 * mean_[i] + 0.1 * g;
      square_[i] = 0.999 * square_[i] + 0.001 * g * g;
      const double mean = mean_[i] / (1 - std::pow(0.9, steps_));
      const double square = square_[i] / (1 - std::pow(0.999, steps_));
      weight[i] -= options_.rate * mean / (std::sqrt(square) + 1e-8);
    }
  }

 private:
  std::size_t windows_;
  TrainOptions options_;
  std::vector<std::vector<std::size_t>> inputs_;
  std::vector<std::size_t> roles_;
  std::vector<double> mean_, square_;
  int steps_ = 0;
};

TEST(ProbeTraining, StepsAsItsSlowTwin) {
  std::mt19937_64 random(3);
  std::vector<Lesson> lessons = {random_lesson(60, 9, random), random_lesson(1, 9, random),
                                 random_lesson(40, 9, random)};
  // Of few states and two roles: else some gradients of the first step are zero but for rounding,
  // and Adam's step is as large whatever their size.
  for (Lesson& lesson : lessons) {
    for (std::uint8_t& state : lesson.states) state %= 3;
    for (Role& role : lesson.roles) role = role > Role::kDelimiter ? Role::kKey : Role::kValue;
  }
  const TrainOptions options{.rate = 0.1f, .decay = 0.01f, .epochs = 3, .hidden = 0};
  const Result<Probe> probe = train_probe(lessons, options);  // a batch holds them all
  ASSERT_TRUE(probe.ok()) << probe.status().message();
  Twin twin(lessons, *probe, options);
  for (std::uint32_t step = 0; step < options.epochs; ++step) twin.step();
  ASSERT_EQ(twin.weight.size(), probe->windows.size() + probe->states.size());
  for (std::size_t i = 0; i < twin.weight.size(); ++i) {
    const bool window = i < probe->windows.size();
    const float weight = window ? probe->windows[i] : probe->states[i - probe->windows.size()];
    EXPECT_NEAR(weight, twin.weight[i], 5e-3) << i;
  }
}

TEST(ProbeTraining, EachStepLowersTheLoss) {
  std::mt19937_64 random(5);
  const std::vector<Lesson> lessons = {random_lesson(300, 20, random)};
  double before = std::log(static_cast<double>(kRoles));
  for (std::uint32_t steps = 1; steps < 12; ++steps) {
    const Result<Probe> probe = train_probe(lessons, {.rate = 0.05f, .epochs = steps, .hidden = 0});
    ASSERT_TRUE(probe.ok());
    const double after = probe_loss(*probe, lessons);
    EXPECT_LT(after, before) << steps;
    before = after;
  }
}

// A token is a key if the next but one is a 7, a header behind the border, else what its state
// says.
Lesson ruled_lesson(std::size_t tokens, std::mt19937_64& random) {
  Lesson lesson = random_lesson(tokens, 8, random);
  for (Token& token : lesson.tokens) token = token == 21 ? 7 : token;
  for (std::size_t i = 0; i < tokens; ++i) {
    const bool key = i + 2 < tokens && lesson.tokens[i + 2] == 7;
    lesson.roles[i] = i == 0                      ? Role::kHeader
                      : key                       ? Role::kKey
                      : lesson.states[i] % 2 == 1 ? Role::kValue
                                                  : Role::kBlank;
  }
  return lesson;
}

TEST(ProbeTraining, LearnsWhatCanBeSeparated) {
  std::mt19937_64 random(7);
  std::vector<Lesson> lessons;
  for (int i = 0; i < 40; ++i) lessons.push_back(ruled_lesson(30, random));
  const Result<Probe> probe = train_probe(lessons, {.batch = 256, .hidden = 0});
  ASSERT_TRUE(probe.ok());
  const Lesson judged = ruled_lesson(400, random);
  EXPECT_EQ(label_tokens(*probe, judged.tokens, judged.states), judged.roles);
}

// Up to three letters, one mark, or blanks: a tokenizer that merges.
class Pieces {
 public:
  Lesson lesson(const std::string& text) {
    Lesson lesson;
    std::vector<std::size_t> ends;
    for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
      const std::size_t most = kind(text[at]) == 0 ? 3 : kind(text[at]) == 1 ? 9 : 1;
      while (end < text.size() && end - at < most && kind(text[end]) == kind(text[at])) ++end;
      const auto next = static_cast<Token>(ids_.size());
      lesson.tokens.push_back(ids_.emplace(text.substr(at, end - at), next).first->second);
      ends.push_back(end);
    }
    lesson.states = text_states(text, ends);
    lesson.roles = label_tokens(label_text(text), ends);
    return lesson;
  }

 private:
  static int kind(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return std::isalnum(byte) != 0 ? 0 : std::isspace(byte) != 0 ? 1 : 2;
  }
  std::map<std::string, Token> ids_;
};

std::string random_word(std::mt19937_64& random) {
  std::string word;
  for (std::uint64_t i = 2 + random() % 8; i > 0; --i) {
    word += static_cast<char>('a' + random() % 26);
  }
  return word;
}

std::string random_json(std::size_t members, std::mt19937_64& random) {
  std::string text = "Here it is:\n\n{";
  for (std::size_t i = 0; i < members; ++i) {
    text += (i > 0 ? ",\n  \"" : "\n  \"") + random_word(random) + "\": \"" + random_word(random) +
            ' ' + random_word(random) + '"';
  }
  return text + "\n}\n\nWhat does " + random_word(random) + " say?";
}

TEST(ProbeTraining, LearnsRolesOfWordsItNeverSaw) {
  std::mt19937_64 random(11);
  Pieces pieces;
  std::vector<Lesson> lessons;
  for (int i = 0; i < 8; ++i) lessons.push_back(pieces.lesson(random_json(60, random)));
  const TrainOptions options{.batch = 512, .hidden = 0.2f, .seed = 3};
  const Result<Probe> probe = train_probe(lessons, options);
  ASSERT_TRUE(probe.ok());
  const Lesson judged = pieces.lesson(random_json(60, random));
  Confusion confusion;
  confusion.add(judged.roles, label_tokens(*probe, judged.tokens, judged.states));
  for (const Role role : {Role::kKey, Role::kValue, Role::kDelimiter, Role::kBlank}) {
    EXPECT_GT(confusion.f1(role), 0.95) << name_of(role);
  }

  EXPECT_EQ(write_probe(*probe), write_probe(*train_probe(lessons, options)));
  TrainOptions other = options;
  other.seed = 4;
  EXPECT_NE(write_probe(*probe), write_probe(*train_probe(lessons, other)));
}

TEST(ProbeTraining, OnlyIdsThatOccurAreStored) {
  const Lesson lesson{
      .tokens = {900, 4, 900}, .states = {0, 1, 2}, .roles = std::vector(3, Role::kKey)};
  const Result<Probe> probe = train_probe({&lesson, 1}, {.epochs = 1});
  ASSERT_TRUE(probe.ok());
  EXPECT_EQ(probe->ids, (std::vector<Token>{4, 900}));
  EXPECT_EQ(probe->windows.size(), std::size_t{kProbeWindow} * 4 * kRoles);
}

TEST(ProbeTraining, NothingToLearnAndACancelAreStatuses) {
  EXPECT_EQ(train_probe({}, {}).status().code(), Code::kInvalidArgument);
  const Lesson lesson{.tokens = {1, 2}, .states = {0, 0}, .roles = {Role::kKey, Role::kValue}};
  double share = 0;
  const Result<Probe> cancelled = train_probe({&lesson, 1}, {.progress = [&](double s) {
                                                share = s;
                                                return s < 0.5;
                                              }});
  EXPECT_EQ(cancelled.status().code(), Code::kCancelled);
  EXPECT_DOUBLE_EQ(share, 0.5);
}

}  // namespace
}  // namespace quire::roles
