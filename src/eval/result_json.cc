#include "eval/result_json.h"

namespace quire::eval {
namespace {

Json questions_json(const std::vector<QuestionScore>& scores) {
  Json list = Json::array();
  for (const QuestionScore& score : scores) {
    list.push_back({{"right", score.right},
                    {"full_right", score.full_right},
                    {"log_p", score.log_p},
                    {"full_log_p", score.full_log_p},
                    {"kl", score.kl},
                    {"first_kl", score.first_kl}});
  }
  return list;
}

std::vector<QuestionScore> questions_of(const Json& list) {
  std::vector<QuestionScore> scores;
  for (const Json& one : list) {
    scores.push_back({.right = one.at("right"),
                      .full_right = one.at("full_right"),
                      .log_p = one.at("log_p"),
                      .full_log_p = one.at("full_log_p"),
                      .kl = one.at("kl"),
                      .first_kl = one.at("first_kl")});
  }
  return scores;
}

Json arm_json(const ArmResult& arm, Task task) {
  Json object = {{"policy", arm.arm.policy},   {"keep", arm.arm.keep},
                 {"entries", arm.entries},     {"kept_mean", arm.kept_mean},
                 {"bytes", arm.bytes},         {"target", arm.target},
                 {"reachable", arm.reachable}, {"only_protected", arm.only_protected}};
  if (!arm.arm.labels.empty()) object["labels"] = arm.arm.labels;
  if (continues(task)) {
    object["prose"] = {{"nll", arm.prose.nll},
                       {"full_nll", arm.prose.full_nll},
                       {"kl", arm.prose.kl},
                       {"same_top", arm.prose.same_top},
                       {"rows", arm.prose.rows}};
    return object;
  }
  object["blind"] = questions_json(arm.blind);
  object["aware"] = questions_json(arm.aware);
  object["second"] = questions_json(arm.second);
  return object;
}

ArmResult arm_of(const Json& object) {
  ArmResult arm{.arm = {.policy = object.at("policy"), .keep = object.at("keep")},
                .entries = object.at("entries"),
                .kept_mean = object.at("kept_mean"),
                .bytes = object.at("bytes"),
                .target = object.at("target"),
                .reachable = object.at("reachable"),
                .only_protected = object.at("only_protected")};
  arm.arm.labels = object.value("labels", "");
  if (object.contains("prose")) {
    const Json& prose = object.at("prose");
    arm.prose = {.nll = prose.at("nll"),
                 .full_nll = prose.at("full_nll"),
                 .kl = prose.at("kl"),
                 .same_top = prose.at("same_top"),
                 .rows = prose.at("rows")};
  } else {
    arm.blind = questions_of(object.at("blind"));
    arm.aware = questions_of(object.at("aware"));
    arm.second = questions_of(object.at("second"));
  }
  return arm;
}

}  // namespace

Json to_json(const InputResult& result) {
  Json arms = Json::array();
  for (const ArmResult& arm : result.arms) arms.push_back(arm_json(arm, result.task));
  Json line = {{"task", name_of(result.task)},        {"seed", result.seed},
               {"block_tokens", result.block_tokens}, {"tokens", result.tokens},
               {"questions", result.questions},       {"full_bytes", result.full_bytes},
               {"grain_bytes", result.grain_bytes},   {"arms", arms}};
  if (result.document_values) {
    line["document_values"] = *result.document_values;
    line["question_values"] = result.question_values;
  }
  return line;
}

std::optional<InputResult> result_of(const Json& line) {
  try {
    const std::optional<Task> task = parse_task(line.at("task").get<std::string>());
    if (!task) return {};
    InputResult result{.task = *task,
                       .seed = line.at("seed"),
                       .block_tokens = line.at("block_tokens"),
                       .tokens = line.at("tokens"),
                       .questions = line.at("questions"),
                       .full_bytes = line.at("full_bytes"),
                       .grain_bytes = line.at("grain_bytes")};
    for (const Json& arm : line.at("arms")) result.arms.push_back(arm_of(arm));
    if (line.contains("document_values")) {
      result.document_values = line.at("document_values").get<GateValues>();
      result.question_values = line.at("question_values").get<std::vector<GateValues>>();
    }
    return result;
  } catch (const Json::exception&) {
    return {};
  }
}

}  // namespace quire::eval
