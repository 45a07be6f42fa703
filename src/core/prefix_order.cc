// Orders of prefix units.
#include <tuple>

#include "core/residency.h"

namespace quire {
namespace {

// A sequence uses its units together, so their ends go before their beginnings.
struct OlderThenDeeper {
  bool operator()(const Resident& a, const Resident& b) const {
    return std::tie(a.last_use, b.depth, a.links.priority) <
           std::tie(b.last_use, a.depth, b.links.priority);
  }
};

class LruOrder final : public Residency {
 public:
  void insert(Resident& item) override { order_.insert(item); }
  void erase(Resident& item) override { order_.erase(item); }
  Resident* victim() const override { return order_.first(); }

 private:
  Tree<Resident, &Resident::links, OlderThenDeeper> order_;
};

}  // namespace

std::unique_ptr<Residency> make_lru_order() {
  return std::make_unique<LruOrder>();
}

}  // namespace quire
