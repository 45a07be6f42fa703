// Random operations on tables beside a naive model: a map from position to a tag per lane.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/tables.h"
#include "support/fake_memory.h"

namespace quire::test {

struct ModelEntry {
  std::uint64_t tag;  // in the block
  std::int64_t tap;
};

// What one sequence should hold.
struct ModelSequence {
  SequenceId id{};
  std::uint32_t length = 0;
  std::vector<std::map<Position, ModelEntry>> lanes;
  std::vector<std::uint32_t> passed;  // [lane] live entries a window has passed
  // Of a rig with a prefix index: what it reads, and whether it never lost an entry.
  std::string salt{};
  std::vector<Token> tokens{};           // [length]
  std::vector<std::uint64_t> text{};     // [length] a hash of salt and tokens up to there
  std::uint32_t script = 0, branch = 0;  // its tokens are the script's before `branch`
  bool exact = true;
  PrefixKeys keys{};
};

class TablesRig {
 public:
  TablesRig(std::uint64_t seed, std::uint32_t block_tokens, std::size_t budget, const Needs& needs,
            Reclaim reclaim, const PrefixNaming& naming = {})
      : random_(seed),
        memory_(budget),
        needs_(needs),
        reclaim_(reclaim),
        prefixes_(naming.hash != nullptr) {
    const LayerShape full{.kv_heads = 2, .query_heads = 4, .key_size = 16, .value_size = 16};
    LayerShape window = full;
    window.window = 21;
    LayerShape wide = full;
    wide.kv_heads = 1;
    wide.query_heads = 3;
    wide.value_size = 48;
    const std::vector<LayerShape> layers{full, window, full, wide, window};
    Geometry geometry = Geometry::of(layers, KvType::kF16, KvType::kF16, block_tokens);
    pool_ = std::make_unique<Pool>(
        memory_, Pool::Options{Pool::slab_bytes_for(budget, geometry.largest_extent(),
                                                    geometry.largest_block())});
    tables_ = std::make_unique<Tables>(*pool_, std::move(geometry), reclaim, naming);
  }

  void step() {
    if (prefixes_ && below(2) == 0) return prefix_step();
    switch (below(15)) {
      case 14:
        return gather();
      case 0:
        return start();
      case 1:
        return fork();
      case 2:
        return drop();
      case 3:
      case 4:
        return evict();
      case 5:
      case 6:
        return plan();
      case 7:
        return copy();
      case 8:
        return install();
      default:
        return grow();
    }
  }

  // One operation that only takes.
  void press() {
    if (model_.empty()) return start();
    grow();
  }

  void drop_all() {
    while (!model_.empty()) drop();
    const PoolBytes bytes = pool_->bytes();
    EXPECT_EQ(bytes.idle, bytes.blocks + bytes.arrays - headroom()) << "units are all there is";
    tables_->forget();
  }

  // Every lane against the model, then every invariant.
  void check() {
    tables_->check_invariants();
    ASSERT_EQ(tables_->sequence_count(), model_.size());
    for (const ModelSequence& model : model_) {
      const Sequence* sequence = tables_->find(model.id);
      ASSERT_NE(sequence, nullptr);
      ASSERT_EQ(sequence->length, model.length);
      for_each_lane([&](LanePlace at, std::uint32_t l) { check_lane(*sequence, at, model, l); });
    }
    for (const SequenceId stale : dropped_) ASSERT_EQ(tables_->find(stale), nullptr);
  }

  Pool& pool() { return *pool_; }
  PrefixStats prefix_stats() const { return tables_->prefix_stats(); }
  std::size_t reused() const { return reused_; }
  std::size_t loaded() const { return loaded_; }
  std::size_t refusals() const { return refusals_; }
  std::size_t planned() const { return planned_; }
  std::size_t installed() const { return installed_; }
  std::size_t emptied() const { return emptied_; }

 private:
  std::uint32_t below(std::size_t n) { return static_cast<std::uint32_t>(random_() % n); }

  template <typename F>
  void for_each_lane(F f) {
    const Geometry& geometry = tables_->geometry();
    for (std::uint32_t g = 0; g < geometry.groups.size(); ++g) {
      for (std::uint32_t l = 0; l < geometry.groups[g].lanes; ++l) {
        f(LanePlace{g, l}, geometry.groups[g].first_lane + l);
      }
    }
  }

  void check_lane(const Sequence& sequence, LanePlace at, const ModelSequence& model,
                  std::uint32_t l) {
    const auto& expected = model.lanes[l];
    ASSERT_EQ(tables_->live(sequence, at), expected.size());
    const Lane& lane = tables_->lane(sequence, at);
    const std::uint32_t stride = tables_->tap_stride(sequence, at);
    auto next = expected.begin();
    tables_->for_each_entry(sequence, at, [&](Position position) {
      ASSERT_NE(next, expected.end());
      ASSERT_EQ(position, next->first);
      ++next;
    });
    ASSERT_EQ(next, expected.end());
    next = expected.begin();
    std::uint32_t rank = 0;
    tables_->for_each_block(sequence, at, 0, sequence.length,
                            [&](BlockId block, std::uint64_t live, Position, Ordinal first) {
                              ASSERT_EQ(first, model.passed[l] + rank);
                              for (; live != 0; live &= live - 1, ++next, ++rank) {
                                const auto slot =
                                    static_cast<std::uint32_t>(std::countr_zero(live));
                                ASSERT_NE(next, expected.end());
                                ASSERT_EQ(tag_at(block, slot), next->second.tag);
                                if (lane.taps.empty()) continue;
                                ASSERT_EQ(lane.taps[rank * stride], next->second.tap);
                              }
                            });
    ASSERT_EQ(next, expected.end());
  }

  std::uint64_t tag_at(BlockId block, std::uint32_t slot) {
    std::uint64_t tag = 0;
    std::memcpy(&tag, pool_->address(block) + slot * sizeof tag, sizeof tag);
    return tag;
  }

  void start() {
    const PoolBytes before = pool_->bytes();
    ModelSequence model;
    model.lanes.resize(tables_->geometry().lanes);
    model.passed.resize(tables_->geometry().lanes);
    model.script = below(3);
    model.branch = below(400);
    model.salt = below(4) == 0 ? "b" : "a";
    const Sequence* sequence = nullptr;
    if (prefixes_ && below(4) != 0) {
      sequence = start_with_prefix(model);
    } else {
      sequence = tables_->start(needs_);
    }
    if (sequence == nullptr) return refused(before);
    model.id = sequence->id;
    model_.push_back(std::move(model));
  }

  void fork() {
    if (model_.empty()) return;
    const ModelSequence parent = model_[below(model_.size())];
    const PoolBytes before = pool_->bytes();
    const Sequence* child = tables_->fork(*tables_->find(parent.id));
    if (child == nullptr) return refused(before);
    if (!prefixes_) {
      ASSERT_EQ(pool_->bytes().blocks, before.blocks);
    }
    model_.push_back(parent);
    model_.back().id = child->id;
  }

  void drop() {
    if (model_.empty()) return;
    const std::uint32_t i = below(model_.size());
    tables_->drop(*tables_->find(model_[i].id));
    dropped_.push_back(model_[i].id);
    model_.erase(model_.begin() + i);
  }

  void evict() {
    if (model_.empty() || (prefixes_ && below(2) == 0)) return;
    ModelSequence& model = model_[below(model_.size())];
    Sequence& sequence = *tables_->find(model.id);
    const PoolBytes before = pool_->bytes();
    const bool one_lane = below(2) == 0;
    const std::uint32_t chosen = below(tables_->geometry().lanes);
    const std::uint32_t percent = below(101);
    for_each_lane([&](LanePlace at, std::uint32_t l) {
      if (one_lane ? l != chosen : tables_->geometry().groups[at.group].window != 0) return;
      std::vector<Ordinal> kept;
      std::map<Position, ModelEntry> remaining;
      std::uint32_t rank = 0;
      const bool clustered = below(2) == 0;
      const std::uint32_t border = below(model.lanes[l].size() + 1);
      for (const auto& [position, entry] : model.lanes[l]) {
        const bool keep = clustered ? rank >= border : below(100) < percent;
        if (keep) {
          kept.push_back(rank);
          remaining[position] = entry;
        }
        ++rank;
      }
      const bool full = tables_->geometry().groups[at.group].window == 0;
      if (tables_->retain(sequence, at, kept)) {
        model.exact = model.exact && kept.size() == model.lanes[l].size();
        model.lanes[l] = remaining;
      } else {
        ASSERT_FALSE(full) << "an eviction from a full-attention lane never lacks memory";
        ASSERT_EQ(pool_->bytes().arrays, before.arrays);
      }
    });
    tables_->settle(sequence);
    ASSERT_LE(pool_->bytes().blocks, before.blocks);
    if (reclaim_ == Reclaim::kNever) {
      ASSERT_EQ(pool_->bytes().blocks, before.blocks);
    }
  }

  // --- repacking ---

  void plan() {
    const RepackOptions options{.waste = below(2) == 0 ? 0.0f : 0.25f,
                                .fullness = below(2) == 0 ? 1.0f : 0.75f,
                                .watermark = below(4) == 0 ? 0.1f : 1.0f,
                                .headroom_bytes = below(3) * 4096};
    const PoolBytes before = pool_->bytes();
    const std::size_t spare = tables_->headroom_bytes();
    const MovesReport planned = below(3) == 0 ? tables_->plan_room(1 + below(20) * 256)
                                              : tables_->plan_moves(options, below(3) * 20000);
    if (reclaim_ != Reclaim::kRepack) {
      ASSERT_EQ(planned.plans, 0u);
      ASSERT_EQ(pool_->bytes().blocks, before.blocks);
    }
    planned_ += planned.plans;
    ASSERT_GE(planned.blocks, planned.plans);
    const bool set_aside =
        tables_->headroom_bytes() != spare || pool_->bytes().arrays != before.arrays;
    if (planned.plans == 0 && !set_aside) same(pool_->bytes(), before);
  }

  // Some of the plans, as a thread that has not come far.
  void copy() {
    for (MovePlan& plan : tables_->moves()) {
      if (plan.copied || below(3) == 0) continue;
      plan.for_each_move(
          [&](std::uint32_t source, std::uint32_t from, std::uint32_t target, std::uint32_t to) {
            if ((plan.wanted[source] >> from & 1) == 0) return;
            std::memcpy(pool_->address(plan.targets[target].block) + to * 8,
                        pool_->address(plan.sources[source].block) + from * 8, 8);
          });
      plan.copied = true;
    }
  }

  void install() {
    const PoolBytes before = pool_->bytes();
    const MovesReport done = tables_->install_moves();
    installed_ += done.plans;
    ASSERT_GE(done.blocks, done.plans);
    ASSERT_LE(pool_->bytes().blocks, before.blocks);
    for (const MovePlan& plan : tables_->moves()) ASSERT_FALSE(plan.copied);
  }

  // Whole blocks move, so that slabs are free; what anybody has stays.
  void gather() {
    const PoolBytes before = pool_->bytes();
    const std::size_t free = pool_->free_slabs(Idle::kThere);
    const std::size_t emptied = tables_->empty_slabs(1 + below(3));
    emptied_ += emptied;
    ASSERT_EQ(pool_->free_slabs(Idle::kThere), free + emptied);
    ASSERT_EQ(pool_->bytes().blocks, before.blocks);
    ASSERT_EQ(pool_->bytes().arrays, before.arrays);
    ASSERT_EQ(pool_->bytes().idle, before.idle);
  }

  void grow() {
    if (model_.empty()) return;
    std::vector<Growth> step;
    std::vector<std::size_t> members;
    for (std::size_t i = 0; i < model_.size(); ++i) {
      if (below(model_.size()) > 1) continue;
      const std::uint32_t rows = 1 + below(below(3) == 0 ? 70 : 4);
      step.push_back({tables_->find(model_[i].id), rows, below(2) == 0 ? 0 : 1u});
      members.push_back(i);
      read_on(model_[i], model_[i].length + rows);
    }
    if (step.empty()) return;
    const PoolBytes before = pool_->bytes();
    const std::size_t needed = tables_->slabs_needed(step).slabs;
    const std::size_t free = pool_->free_slabs(Idle::kGone);
    const std::size_t taken = tables_->slabs_needed(step, Idle::kThere).slabs * pool_->slab_bytes();
    if (!tables_->grow(step)) {
      for (const std::size_t i : members) read_on(model_[i], model_[i].length);
      ASSERT_GT(needed, free);
      return refused(before);
    }
    ASSERT_LE(pool_->bytes().committed, before.committed + taken);
    tables_->check_invariants();
    for (std::size_t s = 0; s < step.size(); ++s) write_rows(step[s], model_[members[s]]);
    if (below(2) == 0) copy();
    if (below(4) == 0) {
      tables_->retract();
      for (const std::size_t i : members) read_on(model_[i], model_[i].length);
      return same(pool_->bytes(), before);
    }
    for (std::size_t s = 0; s < step.size(); ++s) append_model(step[s], model_[members[s]]);
    tables_->publish();
  }

  // What is computed at a position: a function of the text up to there; of a sequence that lost an
  // entry, or where nothing is shared by text, nobody else computes the same.
  std::uint64_t tag_of(const ModelSequence& model, std::uint32_t l, Position position) const {
    const bool own = !prefixes_ || !model.exact;
    return (own ? static_cast<std::uint64_t>(model.id) * 1000003 + position
                : mix(model.text[position])) +
           l * 131071;
  }

  // Makes the model's text so many tokens long: its script's, then others.
  void read_on(ModelSequence& model, std::uint32_t tokens) {
    if (tokens < model.tokens.size()) {
      model.tokens.resize(tokens);
      model.text.resize(tokens);
    }
    while (model.tokens.size() < tokens) {
      const auto p = static_cast<std::uint32_t>(model.tokens.size());
      const Token token = p < model.branch ? static_cast<Token>(mix(model.script * 1000 + p) % 50)
                                           : static_cast<Token>(below(3));
      const std::uint64_t before =
          p > 0 ? model.text.back() : static_cast<unsigned char>(model.salt[0]) * 77ull;
      model.tokens.push_back(token);
      model.text.push_back(mix(before * 31 + static_cast<std::uint32_t>(token) + 1));
    }
  }

  // --- the prefix index ---

  void prefix_step() {
    if (model_.empty()) return start();
    ModelSequence& model = model_[below(model_.size())];
    const PrefixText text{model.tokens, model.salt, below(2) == 0 ? &model.keys : nullptr};
    switch (below(24)) {
      case 20:
      case 21:
        return save_units(model);
      case 22:
      case 23:
        return load_units();
      case 0:
        return tables_->forget(text);
      case 1:
        if (below(4) == 0) tables_->forget();
        return;
      case 2:
      case 3:
        expected_.push_back({model.tokens, model.salt});
        expected_.back().first.resize(tables_->expect(text, true));
        return;
      case 4:
        if (expected_.empty()) return;
        tables_->expect({expected_.back().first, expected_.back().second}, false);
        return expected_.pop_back();
      case 5:
      case 6:
      case 7:
        return start();
      case 8:
      case 9:
      case 10:
        return drop();
      default:
        const std::uint32_t cached = tables_->index(*tables_->find(model.id), text);
        ASSERT_LE(cached, model.length);
        ASSERT_EQ(cached % tables_->geometry().block_tokens, 0u);
    }
  }

  // What was saved is loaded some time later, whatever has been evicted, forgotten or entered
  // since.
  void save_units(ModelSequence& model) {
    const std::uint32_t block_tokens = tables_->geometry().block_tokens;
    const std::uint32_t units = tables_->savable_units({model.tokens, model.salt, &model.keys});
    ASSERT_LE(units, model.tokens.size() / block_tokens);
    if (units == 0) return;
    Saved saved{.tokens = model.tokens, .salt = model.salt, .units = units, .bytes = {}};
    saved.tokens.resize(std::size_t{units} * block_tokens);
    std::size_t bytes = 0;
    for (std::uint32_t i = 0; i < units; ++i) bytes += tables_->unit_bytes(units, i);
    saved.bytes.resize(bytes);
    ASSERT_TRUE(tables_->save_units({saved.tokens, saved.salt}, 0, units, saved.bytes.data()));
    saved_.push_back(std::move(saved));
  }

  void load_units() {
    if (saved_.empty()) return;
    const Saved& saved = saved_[below(saved_.size())];
    const PrefixText text{saved.tokens, saved.salt};
    const std::uint32_t loaded = tables_->load_units(text, 0, saved.units, saved.bytes.data());
    loaded_ += loaded;
    if (loaded == saved.units) {
      ASSERT_EQ(tables_->savable_units(text), saved.units);
    }
    expected_.push_back({saved.tokens, saved.salt});
    expected_.back().first.resize(std::size_t{loaded} * tables_->geometry().block_tokens);
  }

  // A sequence behind what is cached of a text, which is what the model says of such a text.
  const Sequence* start_with_prefix(ModelSequence& model) {
    read_on(model, 1 + below(300));
    const PrefixText text{model.tokens, model.salt, &model.keys};
    const PrefixMatch match = tables_->match_prefix(text, needs_);
    std::uint32_t tokens = 0;
    for (const PrefixSegment& segment : match.segments) {
      EXPECT_EQ(segment.first, tokens);
      tokens += segment.tokens;
    }
    EXPECT_EQ(tokens, model.tokens.size());
    const std::uint32_t most = below(3) == 0 ? below(300) : ~0u;
    PrefixEnd end{};
    const Sequence* sequence = tables_->start_with_prefix(needs_, text, most, end);
    if (sequence == nullptr) return nullptr;
    const std::uint32_t reused = sequence->length;
    EXPECT_LE(reused, std::min(most, match.usable));
    EXPECT_LT(reused, model.tokens.size());
    if (needs_.tap == Tap::kAllRows) {
      EXPECT_EQ(reused, 0u);
    }
    reused_ += reused;
    read_on(model, reused);
    model.length = reused;
    const std::uint32_t block_tokens = tables_->geometry().block_tokens;
    for_each_lane([&](LanePlace at, std::uint32_t l) {
      const std::uint32_t window = tables_->geometry().groups[at.group].window;
      Position first = 0;
      if (window != 0 && reused >= window) {
        first = (reused - window + 1) / block_tokens * block_tokens;
      }
      for (Position p = first; p < reused; ++p) model.lanes[l][p] = {tag_of(model, l, p), 0};
      model.passed[l] = first;
    });
    return sequence;
  }

  void write_rows(const Growth& growth, const ModelSequence& model) {
    const Sequence& sequence = *growth.sequence;
    const std::uint32_t block_tokens = tables_->geometry().block_tokens;
    for_each_lane([&](LanePlace at, std::uint32_t l) {
      for (Position p = sequence.length; p < sequence.length + growth.rows; ++p) {
        const BlockId block = tables_->block_at(sequence, at, p / block_tokens);
        const std::uint64_t tag = tag_of(model, l, p);
        std::memcpy(pool_->address(block) + p % block_tokens * sizeof tag, &tag, sizeof tag);
      }
      const Lane& lane = tables_->lane(sequence, at);
      const std::uint32_t stride = tables_->tap_stride(sequence, at);
      const std::uint32_t live = tables_->live(sequence, at);
      for (std::uint32_t r = 0; r < growth.rows && !lane.taps.empty(); ++r) {
        const std::uint32_t entry = live - growth.rows + r;
        for (std::uint32_t s = 0; s < stride; ++s) {
          ASSERT_EQ(lane.taps[entry * stride + s], 0);
        }
        lane.taps[entry * stride] =
            static_cast<std::int64_t>(tag_of(model, l, sequence.length + r));
      }
    });
  }

  void append_model(const Growth& growth, ModelSequence& model) {
    const Sequence& sequence = *growth.sequence;
    const std::uint32_t block_tokens = tables_->geometry().block_tokens;
    model.length += growth.rows;
    for_each_lane([&](LanePlace at, std::uint32_t l) {
      for (Position p = sequence.length; p < model.length; ++p) {
        const std::uint64_t tag = tag_of(model, l, p);
        model.lanes[l][p] = {tag, static_cast<std::int64_t>(tag)};
      }
      const std::uint32_t window = tables_->geometry().groups[at.group].window;
      for (auto entry = model.lanes[l].begin(); window != 0 && entry != model.lanes[l].end();) {
        // The last position of the entry's extent is out of sight of position model.length, or of
        // the first of its unit.
        const std::uint32_t last = entry->first / block_tokens * block_tokens + block_tokens - 1;
        const std::uint32_t next =
            prefixes_ ? model.length / block_tokens * block_tokens : model.length;
        if (last + window > next) break;
        entry = model.lanes[l].erase(entry);
        ++model.passed[l];
      }
    });
  }

  void refused(const PoolBytes& before) {
    ++refusals_;
    tables_->check_invariants();
    same(pool_->bytes(), before);
  }

  std::size_t headroom() const { return tables_->headroom_bytes(); }

  // Units may go at any time; what only they hold does not count.
  void same(const PoolBytes& a, const PoolBytes& b) {
    ASSERT_EQ(a.blocks + a.arrays - a.idle, b.blocks + b.arrays - b.idle);
    if (prefixes_) return;
    ASSERT_EQ(a.committed, b.committed);
    ASSERT_EQ(a.blocks, b.blocks);
    ASSERT_EQ(a.arrays, b.arrays);
  }

  std::mt19937_64 random_;
  FakeMemory memory_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Tables> tables_;
  Needs needs_;
  std::vector<ModelSequence> model_;
  std::vector<SequenceId> dropped_;
  Reclaim reclaim_;
  bool prefixes_;
  std::vector<std::pair<std::vector<Token>, std::string>> expected_;
  struct Saved {
    std::vector<Token> tokens;
    std::string salt;
    std::uint32_t units;
    std::vector<std::byte> bytes;
  };
  std::vector<Saved> saved_;
  std::size_t loaded_ = 0;  // units
  std::size_t reused_ = 0;
  std::size_t refusals_ = 0, planned_ = 0, installed_ = 0, emptied_ = 0;
};

}  // namespace quire::test
