// The one implementation of Model, for the files of this room that need more than its interface.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "model/chat.h"
#include "model/graph_set.h"
#include "model/model.h"
#include "model/text.h"
#include "model/weights.h"

namespace quire::model {

class GgufModel final : public Model {
 public:
  GgufModel(const ModelOptions& options, ModelShape shape, std::unique_ptr<Weights> weights,
            std::unique_ptr<Text> text);

  const ModelInfo& info() const override { return info_; }
  std::uint32_t threads() const override { return threads_.count(); }
  std::uint32_t graphs() const override { return graphs_.created(); }
  Status attach(Cache& cache) override;
  Status forward(std::span<const Chunk> chunks, const OnLogits& on_logits) override;

  std::vector<Token> tokenize(std::string_view text, bool add_special,
                              bool parse_special) const override {
    return text_->tokenize(text, add_special, parse_special);
  }
  std::string piece(Token token, bool special) const override {
    return text_->piece(token, special);
  }
  bool is_end(Token token) const override { return text_->is_end(token); }
  Result<const ChatTemplate*> chat_template() const;
  Result<std::string> chat(
      std::span<const std::pair<std::string, std::string>> messages) const override;
  void run_parts(const PartWork& work) override { threads_.run(work); }
  void pause() override { threads_.pause(); }
  void resume() override { threads_.resume(); }

  const Weights& weights() const { return *weights_; }
  const Text& text() const { return *text_; }
  const llama_vocab* vocab() const { return text_->vocab(); }

 private:
  // A row of the step whose logits are wanted.
  struct WantedRow {
    std::uint32_t step_row;
    std::size_t chunk;
    std::uint32_t row;  // of the chunk
    bool isolate;
  };
  Status plan(std::span<const Chunk> chunks);
  Status run_head(const BodyGraph& body, std::span<const WantedRow> rows,
                  const OnLogits& on_logits);

  ModelShape shape_;
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<Text> text_;
  ModelInfo info_;
  Threads threads_;
  StepView step_;
  std::vector<LayerNode> nodes_;
  GraphSet graphs_;

  // Of the step being computed; kept for their memory.
  std::vector<Segment> segments_;
  std::vector<std::int32_t> tokens_, positions_;
  std::vector<WantedRow> wanted_;

  mutable std::once_flag chat_once_;  // from the first call on
  mutable std::optional<Result<std::unique_ptr<ChatTemplate>>> chat_;
};

}  // namespace quire::model
