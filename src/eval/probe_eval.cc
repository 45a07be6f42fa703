#include "eval/probe_eval.h"

#include <algorithm>
#include <chrono>

#include "engine/prompt_roles.h"
#include "eval/prose_tasks.h"
#include "eval/role_corpora.h"
#include "roles/probe_train.h"

namespace quire::eval {
namespace {

using roles::Lesson;

constexpr std::uint32_t kJudged = 5;    // of so many prompts the last one
constexpr std::size_t kTokenBytes = 3;  // about, in texts half of which are structure
constexpr double kTextsShare = 0.2;     // of the whole work, about

// A prompt with what is known of its tokens.
struct Prompt {
  Lesson lesson;
  std::vector<std::uint8_t> merged;  // 1: covers bytes of more than one role
  std::size_t form = 0;              // of what it holds: the place of the texts that have it alone
};

struct Texts {
  std::string name;
  std::vector<Prompt> learn, judge;
};

std::vector<std::uint8_t> merged_tokens(std::span<const Role> bytes,
                                        std::span<const std::size_t> ends) {
  std::vector<std::uint8_t> merged;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    const auto part = bytes.subspan(begin, end - begin);
    const auto other = std::ranges::adjacent_find(part, std::ranges::not_equal_to{});
    merged.push_back(other != part.end() ? 1 : 0);
    begin = end;
  }
  return merged;
}

Prompt label(const model::Model& model, std::vector<Token> tokens, std::size_t form) {
  const engine::Spelt spelt = engine::spell(model, tokens);
  const std::vector<Role> bytes = roles::label_text(spelt.text);
  Prompt prompt{.merged = merged_tokens(bytes, spelt.ends), .form = form};
  prompt.lesson = {.tokens = std::move(tokens),
                   .states = roles::text_states(spelt.text, spelt.ends),
                   .roles = roles::label_tokens(bytes, spelt.ends)};
  return prompt;
}

template <typename T>
std::vector<T> part_of(const std::vector<T>& all, std::size_t begin, std::size_t end) {
  return {all.begin() + static_cast<std::ptrdiff_t>(begin),
          all.begin() + static_cast<std::ptrdiff_t>(end)};
}

// Of prompts in the order given, which depends on nothing.
Texts split(std::string name, std::vector<Prompt> prompts) {
  Texts texts{.name = std::move(name)};
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    (i % kJudged == kJudged - 1 ? texts.judge : texts.learn).push_back(std::move(prompts[i]));
  }
  return texts;
}

class Trainer {
 public:
  Trainer(const model::Model& model, const ProbeOptions& options)
      : model_(model), options_(options), sentences_(sentences(options.prose)) {}

  Result<ProbeReport> run() {
    if (sentences_.size() < kJudged) {
      return Status(Code::kInvalidArgument, "the prose has fewer than five sentences");
    }
    if (Status status = make_texts(); !status.ok()) return status;
    ProbeReport report;
    const auto begin = std::chrono::steady_clock::now();
    Result<roles::Probe> probe = train(texts_.size());
    if (!probe.ok()) return probe.status();
    report.train_seconds = seconds_since(begin);
    report.probe = *std::move(probe);
    report.probe.vocabulary = engine::vocabulary_of(model_);
    report.probe.model = model_.info().name;
    report.bytes = roles::write_probe(report.probe).size();
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      ProbeCorpus corpus = judged(texts_[i], report.probe, report.all);
      if (options_.transfer) {
        const Result<roles::Probe> other = train(i);
        if (!other.ok()) return other.status();
        roles::Confusion unused;
        corpus.transfer = judged(texts_[i], *other, unused).own;
      }
      report.corpora.push_back(std::move(corpus));
    }
    measure(report);
    return report;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  Status tell(double share, const std::string& doing) {
    if (options_.on_progress) options_.on_progress(share, doing);
    const bool cancelled = options_.cancel != nullptr && options_.cancel->load();
    return cancelled ? Status(Code::kCancelled, "interrupted") : Status();
  }

  Status make_texts() {
    for (std::size_t c = 0; c < kCorpora; ++c) {
      const auto corpus = static_cast<Corpus>(c);
      std::vector<Prompt> prompts;
      for (std::uint32_t i = 0; i < options_.prompts; ++i) {
        const double share = static_cast<double>(c * options_.prompts + i) /
                             static_cast<double>(kCorpora * options_.prompts);
        if (Status status = tell(kTextsShare * share, name_of(corpus)); !status.ok()) return status;
        // Texts left out to judge by have every form, too.
        const std::size_t form = corpus == Corpus::kMixed ? (i + i / kJudged) % kCorpora : c;
        prompts.push_back(label(model_, made(corpus, static_cast<Corpus>(form), i), form));
      }
      texts_.push_back(split(name_of(corpus), std::move(prompts)));
    }
    for (const ProbeOptions::File& file : options_.files) {
      if (Status status = tell(kTextsShare, file.name); !status.ok()) return status;
      if (Status status = add_file(file); !status.ok()) return status;
    }
    return {};
  }

  // Every other prompt as a chat, where the model has a template.
  std::vector<Token> made(Corpus corpus, Corpus form, std::uint32_t i) const {
    const std::span<const std::string> all = sentences_;
    const std::size_t border = all.size() - all.size() / kJudged;
    const bool judge = i % kJudged == kJudged - 1;
    const Stream stream = Stream(options_.seed, "probe").of(i);
    const std::string text = corpus_text({corpus, form, kTokenBytes * options_.tokens}, stream,
                                         judge ? all.subspan(border) : all.first(border));
    if (i % 2 == 1) {
      const std::pair<std::string, std::string> message{"user", text};
      const Result<std::string> chat = model_.chat({&message, 1});
      if (chat.ok()) return model_.tokenize(*chat, true, true);
    }
    return model_.tokenize(text, true, false);
  }

  Status add_file(const ProbeOptions::File& file) {
    const Prompt whole = label(model_, model_.tokenize(file.text, false, false), texts_.size());
    const std::size_t count = whole.lesson.tokens.size();
    if (count < kJudged) return {Code::kInvalidArgument, file.name + " is too short to learn from"};
    const std::size_t each = std::min<std::size_t>(options_.tokens, count / kJudged);
    std::vector<Prompt> prompts;
    for (std::size_t begin = 0; begin < count; begin += each) {
      const std::size_t end = std::min(begin + each, count);
      prompts.push_back({.lesson = {.tokens = part_of(whole.lesson.tokens, begin, end),
                                    .states = part_of(whole.lesson.states, begin, end),
                                    .roles = part_of(whole.lesson.roles, begin, end)},
                         .merged = part_of(whole.merged, begin, end),
                         .form = whole.form});
    }
    texts_.push_back(split(file.name, std::move(prompts)));
    return {};
  }

  // Of all prompts but those of the form, or at the place, `left_out`.
  Result<roles::Probe> train(std::size_t left_out) {
    std::vector<Lesson> lessons;
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      for (const Prompt& prompt : texts_[i].learn) {
        if (i != left_out && prompt.form != left_out) lessons.push_back(prompt.lesson);
      }
    }
    const bool all = left_out == texts_.size();
    const std::string doing = all ? "training" : "without " + texts_[left_out].name;
    const double done = trained_++;
    const double most = options_.transfer ? static_cast<double>(texts_.size() + 1) : 1;
    const auto progress = [&](double share) {
      return tell(kTextsShare + (1 - kTextsShare) * (done + share) / most, doing).ok();
    };
    return roles::train_probe(lessons, {.epochs = options_.epochs,
                                        .hidden = options_.hidden,
                                        .seed = options_.seed,
                                        .progress = progress});
  }

  static ProbeCorpus judged(const Texts& texts, const roles::Probe& probe, roles::Confusion& all) {
    ProbeCorpus corpus{.name = texts.name};
    for (const Prompt& prompt : texts.learn) corpus.learnt += prompt.lesson.tokens.size();
    for (const Prompt& prompt : texts.judge) {
      const Lesson& lesson = prompt.lesson;
      const std::vector<Role> taken = roles::label_tokens(probe, lesson.tokens, lesson.states);
      corpus.own.add(lesson.roles, taken);
      all.add(lesson.roles, taken);
      corpus.merged += static_cast<std::uint64_t>(std::ranges::count(prompt.merged, 1));
    }
    return corpus;
  }

  // Both labellings of what was left out, from its text on.
  void measure(ProbeReport& report) const {
    double probe = 0, parser = 0, tokens = 0;
    for (const Texts& texts : texts_) {
      for (const Prompt& prompt : texts.judge) {
        const engine::Spelt spelt = engine::spell(model_, prompt.lesson.tokens);
        const auto begin = Clock::now();
        const auto states = roles::text_states(spelt.text, spelt.ends);
        static_cast<void>(roles::label_tokens(report.probe, prompt.lesson.tokens, states));
        probe += seconds_since(begin);
        const auto middle = Clock::now();
        static_cast<void>(roles::label_tokens(roles::label_text(spelt.text), spelt.ends));
        parser += seconds_since(middle);
        tokens += static_cast<double>(prompt.lesson.tokens.size());
      }
    }
    report.probe_microseconds = 1e6 * probe / tokens;
    report.parser_microseconds = 1e6 * parser / tokens;
  }

  const model::Model& model_;
  const ProbeOptions& options_;
  const std::vector<std::string> sentences_;
  std::vector<Texts> texts_;
  std::uint32_t trained_ = 0;
};

}  // namespace

Result<ProbeReport> train_role_probe(const model::Model& model, const ProbeOptions& options) {
  return Trainer(model, options).run();
}

}  // namespace quire::eval
