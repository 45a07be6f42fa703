// What `quire train roles` says of a probe.

#include <cstdio>

#include "eval/policies_report.h"
#include "eval/probe_eval.h"
#include "roles/roles.h"

namespace quire::eval {
namespace {

using roles::Confusion;

// In falling precedence, as tables show them.
std::vector<Role> falling_roles() {
  std::vector<Role> all;
  for (std::size_t r = kRoles; r-- > 0;) all.push_back(static_cast<Role>(r));
  return all;
}

std::string padded(const std::string& text, int width) {
  char line[128];
  std::snprintf(line, sizeof(line), "%*s", width, text.c_str());
  return line;
}

std::string role_names() {
  std::string line;
  for (const Role role : falling_roles()) line += padded(roles::name_of(role), 11);
  return line + '\n';
}

std::string f1_row(const std::string& name, const Confusion& confusion) {
  std::string line = padded(name, -30);
  for (const Role role : falling_roles()) line += padded(fixed(confusion.f1(role), 3), 11);
  return line + padded(fixed(confusion.accuracy(), 3), 11) + '\n';
}

}  // namespace

Json json_of(const Confusion& confusion) {
  Json f1 = Json::object(), rows = Json::object();
  for (const Role is : falling_roles()) {
    f1[roles::name_of(is)] = number_json(confusion.f1(is));
    for (const Role taken : falling_roles()) {
      rows[roles::name_of(is)][roles::name_of(taken)] = confusion.tokens(is, taken);
    }
  }
  return {{"f1", std::move(f1)},
          {"accuracy", number_json(confusion.accuracy())},
          {"confusion", std::move(rows)}};
}

Json json_of(const ProbeReport& report) {
  Json corpora = Json::array();
  for (const ProbeCorpus& corpus : report.corpora) {
    Json one = {{"corpus", corpus.name},
                {"tokens_learnt", corpus.learnt},
                {"tokens", corpus.own.tokens()},
                {"tokens_merged", corpus.merged}};
    one.update(json_of(corpus.own));
    if (corpus.transfer) one["transfer"] = json_of(*corpus.transfer);
    corpora.push_back(std::move(one));
  }
  Json all = {{"quire_json", 1},
              {"model", report.probe.model},
              {"ids", report.probe.ids.size()},
              {"bytes", report.bytes},
              {"train_seconds", report.train_seconds},
              {"microseconds_per_token",
               {{"probe", report.probe_microseconds}, {"parser", report.parser_microseconds}}}};
  all.update(json_of(report.all));
  all["corpora"] = std::move(corpora);
  return all;
}

std::string table_of(const ProbeReport& report) {
  std::string text = padded("F1 on texts left out", -30);
  text += role_names();
  text.insert(text.size() - 1, padded("agreed", 11));
  for (const ProbeCorpus& corpus : report.corpora) {
    text += f1_row(corpus.name, corpus.own);
    if (corpus.transfer) text += f1_row("  learnt from the others", *corpus.transfer);
  }
  text += f1_row("all", report.all) + '\n' + padded("tokens: is, taken for", -30) + role_names();
  for (const Role is : falling_roles()) {
    text += padded(roles::name_of(is), -30);
    for (const Role taken : falling_roles()) {
      text += padded(std::to_string(report.all.tokens(is, taken)), 11);
    }
    text += '\n';
  }
  return text + '\n' + std::to_string(report.probe.ids.size()) + " ids, " +
         fixed(static_cast<double>(report.bytes) / 1e6, 2) + " MB, trained in " +
         fixed(report.train_seconds, 1) + " s; " + fixed(report.probe_microseconds, 3) +
         " us a token (parser " + fixed(report.parser_microseconds, 3) + ")\n";
}

}  // namespace quire::eval
