// A pool that is nothing but a count of blocks, and requests that are nothing but lengths: what a
// scheduler can be simulated on by the thousand.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "engine/scheduler.h"

namespace quire::test {

struct BlockRequest {
  engine::RequestId id{};
  double rank = 0;
  std::uint32_t prompt = 0, answer = 0;
  std::uint32_t keep = 0;  // entries after a review; 0: exact, nothing is ever dropped
  bool by_pool = false;    // cut only for the pool's sake, down to `keep`
  // State.
  std::uint32_t answered = 0, read = 0, held = 0;  // tokens, rows, entries
  bool dropped = false, running = false, done = false, refused = false;
  std::uint32_t preempted = 0, restarted = 0;

  std::uint32_t unread() const { return prompt + answered - read; }
  bool answering() const { return read >= prompt && unread() == 1; }
  engine::Candidate candidate(std::uint32_t chunk) const {
    const std::uint32_t growth = keep == 0 ? std::min(answer - answered, 2 * kBlock) : kBlock;
    return {.id = id,
            .rows = unread(),
            .chunk = answering() ? 1 : std::min(chunk, unread()),
            .reserve = unread() + growth,
            .least = keep == 0 ? unread() : std::min(unread(), prompt),
            .context = held,
            .answering = answering(),
            .exact = !dropped};
  }
  static constexpr std::uint32_t kBlock = 8;
};

class BlockPool final : public engine::Room {
 public:
  explicit BlockPool(std::uint32_t blocks) : blocks_(blocks) {}

  std::map<engine::RequestId, BlockRequest*> requests;

  static std::uint32_t blocks_for(std::uint32_t entries) {
    return (entries + BlockRequest::kBlock - 1) / BlockRequest::kBlock;
  }
  std::uint32_t used() const {
    std::uint32_t blocks = 0;
    for (const auto& [id, request] : requests) blocks += blocks_for(request->held);
    return blocks;
  }
  std::uint32_t capacity() const { return blocks_; }

  bool fits(std::span<const engine::Share> shares) override {
    ++asked;
    std::uint32_t more = 0;
    for (const engine::Share& share : shares) {
      const std::uint32_t held = requests.at(share.id)->held;
      more += blocks_for(held + share.rows) - blocks_for(held);
    }
    return used() + more <= blocks_;
  }
  double spare(engine::RequestId id) override {
    const BlockRequest& request = *requests.at(id);
    if (!request.by_pool || request.read < request.prompt) return 0;
    return request.held > request.keep ? request.held - request.keep : 0;
  }

  std::uint64_t asked = 0;

 private:
  std::uint32_t blocks_;
};

}  // namespace quire::test
