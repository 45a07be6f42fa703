#include "eval/role_corpora.h"

#include <array>

#include "eval/role_tree.h"
#include "quire/check.h"

namespace quire::eval {
namespace {

class Writer {
 public:
  Writer(const Stream& stream, std::span<const std::string> prose)
      : draws_(stream), prose_(prose) {}

  std::string text(const CorpusText& what) {
    const bool mixed = what.corpus == Corpus::kMixed;
    std::string all = mixed || draws_.one_in(2) ? "" : lead();
    while (all.size() < what.bytes) {
      if (mixed) all += prose() + '\n';
      if (what.form != Corpus::kMixed) all += mixed ? fenced(what.form) : document(what.form);
      all += '\n';
    }
    return all + question();
  }

 private:
  std::string document(Corpus form) {
    Wording wording(draws_, prose_);
    switch (form) {
      case Corpus::kJson:
        return json_text(tree(draws_, wording), draws_.one_in(3) ? 4 : 2) + '\n';
      case Corpus::kJsonCompact:
        return json_text(tree(draws_, wording), 0) + '\n';
      case Corpus::kXml:
        return xml_text(tree(draws_, wording), draws_.one_in(2));
      default:
        return table_text(draws_, wording);
    }
  }

  std::string prose() {
    std::string text;
    const std::size_t first = draws_.below(prose_.size());
    for (std::size_t i = 0, count = draws_.between(3, 12); i < count; ++i) {
      text += prose_[(first + i) % prose_.size()];
    }
    return text + '\n';
  }

  // One document in three.
  std::string fenced(Corpus form) {
    if (!draws_.one_in(3)) return document(form);
    const bool json = form == Corpus::kJson || form == Corpus::kJsonCompact;
    const char* info = json ? "json" : form == Corpus::kXml ? "xml" : "";
    return std::string("```") + info + '\n' + document(form) + "```\n";
  }

  std::string lead() {
    constexpr std::array<const char*, 4> kLeads{
        "Read the document and answer the question behind it.\n\n", "Here is the data:\n\n",
        "Document:\n", "You are given some records. Look them up when you are asked.\n\n"};
    return draws_.of(kLeads);
  }

  std::string question() {
    Wording wording(draws_, prose_);
    const std::string name = wording.name();
    switch (draws_.below(4)) {
      case 0:
        return "What is the value of " + name + "? Answer with the value alone.";
      case 1:
        return "Question: What does the document say about " + name + "?\nAnswer:";
      case 2:
        return "Find " + name + " and say what stands beside it, and nothing else.";
      default:
        return prose();
    }
  }

  Draws draws_;
  const std::span<const std::string> prose_;
};

}  // namespace

const char* name_of(Corpus corpus) {
  constexpr std::array<const char*, kCorpora> kNames{"json", "json-compact", "xml", "table",
                                                     "mixed"};
  return kNames[static_cast<std::size_t>(corpus)];
}

std::string corpus_text(const CorpusText& what, const Stream& stream,
                        std::span<const std::string> prose) {
  QUIRE_CHECK(!prose.empty() && (what.corpus == Corpus::kMixed || what.form == what.corpus));
  return Writer(stream.of(static_cast<std::uint64_t>(what.corpus)), prose).text(what);
}

}  // namespace quire::eval
