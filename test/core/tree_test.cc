// Goal: a tree holds the items put into it, in order; an LRU order gives the oldest, then deepest.
// Method: random inserts, erases and searches beside std::set and a search through a list.
#include "core/tree.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "core/residency.h"
#include "support/seed.h"

namespace quire {
namespace {

struct Item {
  std::uint32_t key = 0, serial = 0;
  TreeLinks<Item> links{};
  bool in = false;
};

struct ByKey {
  bool operator()(const Item& a, const Item& b) const {
    return std::pair(a.key, a.serial) < std::pair(b.key, b.serial);
  }
};

TEST(TreeTest, AgreesWithASet) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  std::vector<Item> items(300);
  for (std::uint32_t i = 0; i < items.size(); ++i) {
    items[i].key = static_cast<std::uint32_t>(random() % 100);  // some alike
    items[i].serial = i;
    items[i].links.priority = mix(seed + i);
  }
  Tree<Item, &Item::links, ByKey> tree;
  std::set<std::pair<std::uint32_t, std::uint32_t>> model;
  for (int step = 0; step < 20000; ++step) {
    // Nearly empty and nearly full in turns.
    Item& item = items[random() % (step / 2000 % 2 == 0 ? items.size() : 8)];
    if (item.in) {
      tree.erase(item);
      model.erase({item.key, item.serial});
    } else {
      tree.insert(item);
      model.insert({item.key, item.serial});
    }
    item.in = !item.in;
    ASSERT_EQ(tree.empty(), model.empty());
    ASSERT_EQ(tree.first() == nullptr ? ~0u : tree.first()->serial,
              model.empty() ? ~0u : model.begin()->second);
    const auto key = static_cast<std::uint32_t>(random() % 110);
    const auto before = [&](const Item& other) { return other.key < key; };
    const auto at = model.lower_bound({key, 0});
    const Item *from = tree.first_from(before), *last = tree.last_before(before);
    ASSERT_EQ(from == nullptr, at == model.end());
    if (from != nullptr) {
      ASSERT_EQ(from->serial, at->second);
    }
    ASSERT_EQ(last == nullptr, at == model.begin());
    if (last != nullptr) {
      ASSERT_EQ(last->serial, std::prev(at)->second);
    }
    if (step % 100 != 0) continue;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> order;
    tree.for_each([&](const Item& other) { order.emplace_back(other.key, other.serial); });
    ASSERT_EQ(order, std::vector(model.begin(), model.end()));
  }
}

TEST(PrefixOrderTest, TheOldestGoFirstAndOfThoseTheDeepest) {
  const std::uint64_t seed = test::seed();
  SCOPED_TRACE(testing::Message() << "QUIRE_SEED=" << seed);
  std::mt19937_64 random(seed);
  std::vector<Resident> residents(200);
  std::vector<Resident*> in, out;
  for (std::uint32_t i = 0; i < residents.size(); ++i) {
    residents[i] = {{nullptr, nullptr, mix(i)}, 0, static_cast<std::uint32_t>(random() % 9)};
    out.push_back(&residents[i]);
  }
  const std::unique_ptr<Residency> order = make_lru_order();
  for (std::uint64_t now = 1; now < 5000; ++now) {
    const auto move = [&](std::vector<Resident*>& from, std::vector<Resident*>& to) {
      const std::size_t i = random() % from.size();
      to.push_back(from[i]);
      from.erase(from.begin() + static_cast<std::ptrdiff_t>(i));
      return to.back();
    };
    if (!out.empty() && random() % 2 == 0) {
      Resident* item = move(out, in);
      item->last_use = now / 4;  // several at a time
      order->insert(*item);
    } else if (!in.empty() && random() % 2 == 0) {
      order->touch(*in[random() % in.size()], now / 4);
    } else if (!in.empty()) {
      order->erase(*move(in, out));
    }
    const Resident* victim = order->victim();
    ASSERT_EQ(victim == nullptr, in.empty());
    for (const Resident* other : in) {
      ASSERT_LE(victim->last_use, other->last_use);
      if (victim->last_use == other->last_use) {
        ASSERT_GE(victim->depth, other->depth);
      }
    }
  }
}

}  // namespace
}  // namespace quire
