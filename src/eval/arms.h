// Arms: what is compared.  A policy at a share of the full cache, behind a gate, and the anchors
// that stand in every table.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "eval/shadow.h"
#include "quire/policy.h"

namespace quire::eval {

// `full` never shrinks.  `oracle` keeps what the full cache's later rows attended to: the best a
// score of attention could know, out of reach of any policy.
inline constexpr const char* kFull = "full";
inline constexpr const char* kOracle = "oracle";

// Of gates (eval/gates.h): the one that lets every review happen.
inline constexpr const char* kOpen = "open";

struct Arm {
  std::string policy;  // kFull, kOracle, or what make_policy reads
  double keep = 1;     // share of the full cache's bytes or of the document's tokens
  std::string gate = kOpen;
  std::string labels{};  // of a policy of roles: a LabelSource (eval/labels.h); empty: the scanners

  std::string label() const;  // the policy, and labels and gate if there are any
  bool operator==(const Arm&) const = default;
};

// Whose roles the arm's policy goes by: "none", "parser" (the scanners), "shuffled" (theirs, dealt
// out anew), or Arm::labels.
std::string labels_of(const Arm& arm);

// "h2o,snapkv:window=32,pool=3,random": commas separate policies, and options of one policy; a
// piece key=value without a colon before it belongs to the policy on its left.
std::vector<std::string> split_policies(const std::string& list);

// Names this build has of full, oracle (where it is asked for), sink-recency, random,
// prompt-random, then `policies`, each once.  kInvalidArgument: one that make_policy refuses.
Result<std::vector<std::string>> with_anchors(const std::vector<std::string>& policies,
                                              bool oracle = true);
bool is_anchor(const std::string& policy);

// Every policy at every share, the full cache once.
std::vector<Arm> cross_arms(const std::vector<std::string>& policies,
                            const std::vector<double>& keeps);

// Attention that later rows paid per [layer][head][position].
using Mass = std::vector<std::vector<std::vector<float>>>;
// Keeps what `mass` ranks highest, with the protection of the other arms; positions beyond it rank
// above all.
Policy oracle_policy(std::shared_ptr<const Mass> mass);
// mass += the tap sums of the sequence's full-attention lanes (Tap::kDecodeRows), live from 0 on.
Status add_mass(const Cache& cache, SequenceId sequence, Mass& mass);
void add_mass(const Mass& more, Mass& mass);

}  // namespace quire::eval
