#include "eval/tasks_eval.h"

#include <utility>

namespace quire::eval {
namespace {

const char* name_of(KvType type) {
  return type == KvType::kF32 ? "f32" : type == KvType::kBF16 ? "bf16" : "f16";
}

std::string kv_type_of(const CacheOptions& like) {
  const std::string key = name_of(like.key_type), value = name_of(like.value_type);
  return key == value ? key : key + "/" + value;
}

}  // namespace

void arrange(TasksOptions& options) {
  options.quality.equal = Equal::kTokens;
  options.quality.second = options.quality.aware;
  options.quality.blocks = {16};
  if (options.gates.empty()) options.gates = {kOpen};
}

Result<TasksReport> evaluate_tasks(model::Model& model, const CacheOptions& like,
                                   const TasksOptions& options) {
  std::vector<Gate> gates;
  for (const std::string& name : options.gates) {
    Result<Gate> gate = make_gate(name);
    if (!gate.ok()) return gate.status();
    gates.push_back(*std::move(gate));
  }
  Result<PoliciesReport> quality = evaluate_policies(model, like, options.quality);
  if (!quality.ok()) return quality.status();
  TasksReport report{.quality = *std::move(quality), .kv_type = kv_type_of(like)};
  apply_gates(gates, report.quality.results);
  report.quality.summary = summarise(report.quality.results);
  // Entries are equal here, and bytes are what they are; an oracle may not have been asked for.
  std::erase_if(report.quality.summary.checks, [&](const Check& check) {
    return check.name == kBytesCheck || (check.name == kOracleCheck && !options.quality.oracle);
  });
  return report;
}

}  // namespace quire::eval
