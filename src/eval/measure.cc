#include "eval/measure.h"

#include <utility>

#include "eval/examination.h"

namespace quire::eval {

const char* name_of(View view) {
  return view == View::kBlind ? "blind" : view == View::kAware ? "aware" : "second";
}

Examiner::Examiner(model::Model& model, Cache& cache, Shadow& shadow, MeasureOptions options)
    : model_(model), cache_(cache), shadow_(shadow), options_(std::move(options)) {}

Result<InputResult> Examiner::examine(Task task, std::uint32_t seed, const Input& input,
                                      const std::atomic<bool>* cancel,
                                      const Examination::Progress& on_progress) {
  InputResult result{.task = task,
                     .seed = seed,
                     .block_tokens = cache_.options().block_tokens,
                     .tokens = static_cast<std::uint32_t>(input.document.size())};
  Examination examination(model_, cache_, shadow_, options_, input, result, cancel, on_progress);
  if (Status status = examination.run(); !status.ok()) return status;
  return result;
}

}  // namespace quire::eval
