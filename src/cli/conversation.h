// A chat as tokens: each turn only what the sequence does not hold yet.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/generate.h"
#include "model/model.h"

namespace quire::cli {

class Conversation {
 public:
  // `raw`: no template, every turn is its text.
  Conversation(const model::Model& model, bool raw) : model_(model), raw_(raw) {}

  struct Turn {
    std::vector<model::Token> tokens;
    bool restart = false;  // the sequence's history does not continue: forget it first
  };
  // The user's next message.  kNotFound when the model has no template.
  Result<Turn> ask(const std::string& message);
  // What came of it.  An answer that never began takes its question with it.
  void answered(const engine::Answer& answer);
  // The message was refused and the sequence is as it was before.
  void refused();
  void clear();

 private:
  const model::Model& model_;
  const bool raw_;
  std::vector<std::pair<std::string, std::string>> messages_;  // role, text
  std::string rendered_;         // the text the sequence holds, up to the newest answer
  std::string rendered_before_;  // likewise, before the newest message
  bool restart_ = false;
};

}  // namespace quire::cli
