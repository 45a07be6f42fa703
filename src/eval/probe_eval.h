// Training a role probe for a model, and how it does on texts that it did not see.
//
// Source: role-conditional budgets, arXiv 2607.13205: 50 prompts of 8K tokens of each kind of text,
// of every five prompts the last one left out to judge by.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "eval/log.h"
#include "model/model.h"
#include "roles/confusion.h"
#include "roles/probe.h"

namespace quire::eval {

struct ProbeOptions {
  std::uint32_t prompts = 50;   // of each kind that is made (eval/role_corpora.h)
  std::uint32_t tokens = 8192;  // of a prompt, about
  std::uint32_t epochs = 20;
  std::uint64_t seed = 1;
  float hidden = 0.05f;  // roles::TrainOptions
  std::string prose;     // sentences of made texts; the last fifth of them only to judge by
  struct File {
    std::string name, text;
  };
  std::vector<File> files{};  // more kinds of text: labelled as a whole, cut into prompts
  bool transfer = true;       // also train on all kinds but one, for each
  std::function<void(double share, const std::string& doing)> on_progress{};
  const std::atomic<bool>* cancel = nullptr;
};

// A kind of text: all numbers are of the tokens left out.
struct ProbeCorpus {
  std::string name;
  std::uint64_t learnt = 0, merged = 0;        // tokens learnt from; those that cover several roles
  roles::Confusion own;                        // of the probe
  std::optional<roles::Confusion> transfer{};  // of one that saw no text of this kind
};

struct ProbeReport {
  roles::Probe probe;
  std::size_t bytes = 0;  // of its file
  std::vector<ProbeCorpus> corpora;
  roles::Confusion all;
  double train_seconds = 0;                                // of the probe alone
  double probe_microseconds = 0, parser_microseconds = 0;  // a token, its text being known
};

// Labels are those of room roles.  kInvalidArgument: prose without a sentence, a file too short to
// be cut in five; kCancelled.
Result<ProbeReport> train_role_probe(const model::Model& model, const ProbeOptions& options);

// {f1: {key: ...}, accuracy, confusion: {key: {key: tokens, ...}}}, what it is, then taken for.
Json json_of(const roles::Confusion& confusion);
Json json_of(const ProbeReport& report);
std::string table_of(const ProbeReport& report);

}  // namespace quire::eval
