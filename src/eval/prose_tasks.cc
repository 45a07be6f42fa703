#include "eval/prose_tasks.h"

#include <algorithm>

#include "eval/words.h"
#include "quire/check.h"

namespace quire::eval {
namespace {

constexpr std::uint32_t kChainDigits = 5, kChainLength = 4;  // variables
constexpr std::uint32_t kTopics = 3;                         // documents of a drift
constexpr std::uint32_t kQuoteShare = 4;                     // a quote is so much of its document

// Prose with `facts` between its sentences: fact i in the i-th of as many equal parts, at a random
// sentence of it, or a single one at `depth`.
std::string hidden(const Prose& prose, const std::vector<std::string>& facts,
                   std::optional<double> depth, const Stream& stream) {
  std::size_t used = 0;
  for (const std::string& fact : facts) used += prose.count(fact);
  std::vector<std::string_view> parts;
  for (std::size_t i = prose.first; used < prose.tokens || parts.size() < facts.size(); ++i) {
    parts.push_back(prose.filler[i % prose.filler.size()]);
    used += prose.count(parts.back());
  }
  std::string text;
  std::size_t next = 0;
  const auto count = static_cast<double>(facts.size()), all = static_cast<double>(parts.size());
  const auto place = [&](std::size_t fact) {
    const double share = depth.value_or((static_cast<double>(fact) + stream.unit(fact)) / count);
    return std::min(static_cast<std::size_t>(share * all), parts.size() - 1);
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    while (next < facts.size() && place(next) == i) text += facts[next++];
    text += parts[i];
  }
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.pop_back();
  return text;
}

// Whole sentences of about so many tokens, from `at` on, which moves behind them.
std::string passage(const Prose& prose, std::size_t& at, std::size_t tokens) {
  std::string text;
  for (std::size_t used = 0; used < tokens; ++at) {
    const std::string& sentence = prose.filler[at % prose.filler.size()];
    text += sentence;
    used += std::max<std::size_t>(1, prose.count(sentence));
  }
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.pop_back();
  return text;
}

}  // namespace

std::vector<std::string> sentences(std::string_view text) {
  std::vector<std::string> found;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool stop = text[i] == '.' || text[i] == '!' || text[i] == '?';
    const bool border = text[i] == '\n' || (stop && i + 1 < text.size() && text[i + 1] == ' ');
    if (!border) continue;
    const std::size_t end = text[i] == '\n' ? i + 1 : i + 2;
    if (end - begin > 1) found.emplace_back(text.substr(begin, end - begin));
    begin = end;
    i = end - 1;
  }
  if (begin < text.size()) found.emplace_back(text.substr(begin));
  return found;
}

Document needle_document(const Prose& prose, std::uint32_t needles, std::optional<double> depth,
                         const Stream& stream) {
  QUIRE_CHECK(!prose.filler.empty() && needles >= 1 && needles <= needles_most(prose.digits));
  QUIRE_CHECK(prose.digits >= 1 && prose.digits <= kDigitsMost);
  QUIRE_CHECK(!depth || needles == 1);
  Document document{.lead = "\n\n"};
  std::vector<std::string> facts;
  std::set<std::string> used;
  for (const std::size_t thing : drawn(kThings.size(), needles, stream.of(0))) {
    const std::string number = new_number(stream.of(1), facts.size(), prose.digits, used);
    const std::string prompt =
        "The special magic number for " + std::string(kThings[thing]) + " is";
    facts.push_back(prompt + " " + number + ". ");
    document.questions.push_back({prompt, " " + number, ".\n\n"});
  }
  document.text = hidden(prose, facts, depth, stream.of(2));
  return document;
}

Document chain_document(const Prose& prose, std::uint32_t chains, const Stream& stream) {
  QUIRE_CHECK(!prose.filler.empty() && chains >= 2 && chains <= kChainsMost);
  std::vector<std::string> facts, values, last(chains);
  std::set<std::string> used;
  const std::vector<std::size_t> things =
      drawn(kThings.size(), std::size_t{chains} * kChainLength, stream.of(0));
  // What each variable stands for, back to the number: the answer, once the chain is whole.
  for (std::uint32_t c = 0; c < chains; ++c) {
    values.push_back(" " + new_number(stream.of(1), c, kChainDigits, used));
  }
  for (std::uint32_t hop = 0; hop < kChainLength; ++hop) {
    for (std::uint32_t c = 0; c < chains; ++c) {
      const std::string name = "VAR " + std::string(kThings[things[c * kChainLength + hop]]);
      facts.push_back(name + " =" + (hop == 0 ? values[c] : " " + last[c]) + ". ");
      if (hop > 0) values[c] = " " + last[c] + " =" + values[c];
      last[c] = name;
    }
  }
  Document document{.text = hidden(prose, facts, {}, stream.of(2)),
                    .lead = "\n\n" + last[0] + " =" + values[0] + "\n"};
  for (std::uint32_t c = 1; c < chains; ++c) {
    document.questions.push_back({.prompt = last[c] + " =", .answer = values[c]});
  }
  return document;
}

Document drift_document(const Prose& prose) {
  QUIRE_CHECK(!prose.filler.empty());
  const std::size_t each = std::max<std::size_t>(1, prose.tokens / kTopics);
  Document document;
  std::size_t resumed = 0;  // where the first quote of document 1 stopped
  for (std::uint32_t topic = 0; topic < kTopics; ++topic) {
    const std::string name = std::to_string(topic + 1);
    std::size_t at = prose.first + topic * (prose.filler.size() / kTopics), quoted = at;
    document.text += (topic == 0 ? "Document " : "\n\nDocument ") + name + ":\n";
    document.text += passage(prose, at, each);
    document.continuation += "\n\nFrom document " + name + ":\n";
    document.continuation += passage(prose, quoted, each / kQuoteShare);
    if (topic == 0) resumed = quoted;
  }
  document.continuation += "\n\nFrom document 1 again:\n";
  document.scored = passage(prose, resumed, each / kQuoteShare);
  return document;
}

}  // namespace quire::eval
