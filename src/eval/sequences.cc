#include "eval/sequences.h"

#include <algorithm>

#include "engine/prompt_roles.h"
#include "quire/check.h"

namespace quire::eval {

Result<Held> Held::start(Cache& cache, const Needs& needs) {
  const Result<SequenceId> id = cache.start(needs);
  if (!id.ok()) return id.status();
  return Held(cache, *id);
}

Result<Held> Held::fork() const {
  const Result<SequenceId> child = cache_->fork(id_);
  if (!child.ok()) return child.status();
  return Held(*cache_, *child);
}

void Held::drop() {
  if (cache_ == nullptr) return;
  QUIRE_CHECK(cache_->drop(id_).ok());
  cache_ = nullptr;
}

Status read(model::Model& model, const Held& sequence, std::span<const model::Token> tokens,
            const ReadOptions& options) {
  const auto last = [&](std::uint32_t rows) {
    return tokens.size() - std::min<std::size_t>(tokens.size(), rows);
  };
  const std::size_t window_begin = last(options.window_rows), gate_begin = last(options.gate_rows);
  for (std::size_t done = 0; done < tokens.size();) {
    const std::size_t rows = std::min<std::size_t>(options.chunk, tokens.size() - done);
    const std::size_t end = done + rows;
    const model::Chunk chunk{
        .sequence = sequence.id(),
        .tokens = tokens.subspan(done, rows),
        .answer = options.answer,
        .window_rows = static_cast<std::uint32_t>(end - std::clamp(window_begin, done, end)),
        .gate_rows = static_cast<std::uint32_t>(end - std::clamp(gate_begin, done, end))};
    const Status status = model.forward({&chunk, 1}, [](auto...) {});
    if (!status.ok()) return status;
    done = end;
  }
  return {};
}

Status tell_roles(const model::Model& model, Cache& cache, const Held& sequence, const Needs& needs,
                  std::span<const model::Token> tokens) {
  if (!needs.roles) return {};
  return cache.set_roles(sequence.id(), 0, engine::prompt_roles(model, tokens));
}

Prompts::Prompts(model::Model& model, Cache& cache, std::span<const model::Token> document,
                 std::uint32_t chunk)
    : model_(model), cache_(cache), document_(document), chunk_(chunk) {}

std::uint32_t Prompts::window_rows(const Needs& needs) const {
  if (needs.tap != Tap::kLastRows) return 0;
  return std::min(needs.window, static_cast<std::uint32_t>(document_.size()));
}

std::uint32_t Prompts::rows_again(const Needs& needs) const {
  const auto length = static_cast<std::uint32_t>(document_.size());
  return std::max(window_rows(needs), std::min(needs.gate_rows, length));
}

Result<Prompts::Group*> Prompts::group(const Needs& needs) {
  const auto known = std::ranges::find(groups_, needs, &Group::needs);
  if (known != groups_.end()) return &*known;
  const std::uint32_t again = rows_again(needs);
  Result<Held> sequence = Held::start(cache_, needs);
  if (!sequence.ok()) return sequence.status();
  if (Status status = tell_roles(model_, cache_, *sequence, needs, document_); !status.ok()) {
    return status;
  }
  Group made{.needs = needs};
  const auto before = document_.first(document_.size() - again);
  if (Status status = read(model_, *sequence, before, {.chunk = chunk_}); !status.ok()) {
    return status;
  }
  if (again == 0) {
    made.end = *std::move(sequence);
  } else {
    made.before = *std::move(sequence);
    Result<Held> end = made.before.fork();
    if (!end.ok()) return end.status();
    made.end = *std::move(end);
    const ReadOptions options{
        .chunk = chunk_, .window_rows = window_rows(needs), .gate_rows = needs.gate_rows};
    if (Status status = read(model_, made.end, document_.last(again), options); !status.ok()) {
      return status;
    }
  }
  groups_.push_back(std::move(made));
  return &groups_.back();
}

Result<Held> Prompts::blind(const Needs& needs) {
  const Result<Group*> found = group(needs);
  if (!found.ok()) return found.status();
  return (*found)->end.fork();
}

Result<Held> Prompts::aware(const Needs& needs, std::span<const model::Token> question) {
  const Result<Group*> found = group(needs);
  if (!found.ok()) return found.status();
  const std::uint32_t again = rows_again(needs);
  Result<Held> sequence = again == 0 ? (*found)->end.fork() : (*found)->before.fork();
  if (!sequence.ok()) return sequence;
  std::vector<model::Token> rest(document_.end() - again, document_.end());
  rest.insert(rest.end(), question.begin(), question.end());
  std::vector<model::Token> all(document_.begin(), document_.end());
  all.insert(all.end(), question.begin(), question.end());
  if (Status status = tell_roles(model_, cache_, *sequence, needs, all); !status.ok()) {
    return status;
  }
  const ReadOptions options{.chunk = chunk_,
                            .window_rows = needs.tap == Tap::kLastRows ? needs.window : 0,
                            .gate_rows = needs.gate_rows};
  if (Status status = read(model_, *sequence, rest, options); !status.ok()) return status;
  return sequence;
}

}  // namespace quire::eval
