// Sequences that are dropped when their holder goes, and prompts that many arms share.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "model/model.h"
#include "quire/cache.h"

namespace quire::eval {

// Owns one sequence of a cache.  Never destroyed between begin() and commit().
class Held {
 public:
  Held() = default;
  Held(Cache& cache, SequenceId id) : cache_(&cache), id_(id) {}
  ~Held() { drop(); }
  Held(Held&& other) noexcept : cache_(std::exchange(other.cache_, nullptr)), id_(other.id_) {}
  Held& operator=(Held&& other) noexcept {
    if (this != &other) {
      drop();
      cache_ = std::exchange(other.cache_, nullptr);
      id_ = other.id_;
    }
    return *this;
  }
  SequenceId id() const { return id_; }

  static Result<Held> start(Cache& cache, const Needs& needs);
  Result<Held> fork() const;

 private:
  void drop();

  Cache* cache_ = nullptr;
  SequenceId id_{};
};

struct ReadOptions {
  std::uint32_t chunk = 512;      // rows of a step, at most
  std::uint32_t window_rows = 0;  // the last so many are among the prompt's last
  bool answer = false;            // Tap::kDecodeRows counts them
  std::uint32_t gate_rows = 0;    // of the last so many the queries are kept
};
// Appends tokens without asking for logits.
Status read(model::Model& model, const Held& sequence, std::span<const model::Token> tokens,
            const ReadOptions& options);

// Tells a sequence the roles of its first tokens, where its needs name them.
Status tell_roles(const model::Model& model, Cache& cache, const Held& sequence, const Needs& needs,
                  std::span<const model::Token> tokens);

// One document, read once for each kind of needs.  Reading shows a policy what it asked for, so
// policies with equal needs can share a reading, and only they.
class Prompts {
 public:
  // All borrowed.
  Prompts(model::Model& model, Cache& cache, std::span<const model::Token> document,
          std::uint32_t chunk);

  // A fork at the document's end.
  Result<Held> blind(const Needs& needs);
  // A fork at the end of the document and `question`; the last rows of both are the window's.
  Result<Held> aware(const Needs& needs, std::span<const model::Token> question);
  // Rows that Tap::kLastRows has summed at the document's end.
  std::uint32_t window_rows(const Needs& needs) const;

 private:
  struct Group {
    Needs needs;
    Held before, end;  // before the rows_again() (empty id without them), and at the end
  };
  // Of the document, read again for each question: those, or the queries a gate takes.
  std::uint32_t rows_again(const Needs& needs) const;
  Result<Group*> group(const Needs& needs);

  model::Model& model_;
  Cache& cache_;
  const std::span<const model::Token> document_;
  const std::uint32_t chunk_;
  std::vector<Group> groups_;
};

}  // namespace quire::eval
