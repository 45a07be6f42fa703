// A second view of the same entries.
#include "core/tables.h"

namespace quire {
namespace {

template <typename T>
void copy_items(const PagedList<T>& from, const PagedList<T>& to) {
  from.for_each_run(0, from.size(), [&](std::uint32_t first, const T* items, std::uint32_t count) {
    std::copy(items, items + count, &to[first]);
  });
}

}  // namespace

void Tables::add_fork(const Sequence& parent, Demand& demand) const {
  add_start(demand);
  std::size_t nodes = headroom_of(parent) + PagedList<float>::nodes_for(parent.queries.size()) +
                      PagedList<float>::nodes_for(parent.gate_queries.size());
  for (std::size_t g = 0; g < geometry_.groups.size(); ++g) {
    nodes += PagedList<ExtentRef>::nodes_for(parent.groups()[g].extents.size());
  }
  for (std::uint32_t l = 0; l < geometry_.lanes; ++l) {
    const Lane& lane = parent.lanes(geometry_)[l];
    nodes += PagedList<Row>::nodes_for(lane.rows.size()) +
             PagedList<std::int64_t>::nodes_for(lane.taps.size());
  }
  demand.add_nodes(nodes);
}

Sequence* Tables::fork(const Sequence& parent) {
  QUIRE_CHECK(!growing());
  make_room([&](Demand& demand) { add_fork(parent, demand); });
  Sequence* child = start(parent.needs);
  if (child == nullptr) return nullptr;

  bool room = child->queries.resize(nodes_, parent.queries.size()) &&
              child->gate_queries.resize(nodes_, parent.gate_queries.size()) &&
              child->roles.resize(nodes_, parent.roles.size());
  for (std::size_t g = 0; g < geometry_.groups.size(); ++g) {
    GroupState& state = child->groups()[g];
    room = room && state.extents.resize(nodes_, parent.groups()[g].extents.size());
    state.dense_lanes = parent.groups()[g].dense_lanes;
  }
  for (std::uint32_t l = 0; l < geometry_.lanes; ++l) {
    const Lane& from = parent.lanes(geometry_)[l];
    Lane& to = child->lanes(geometry_)[l];
    room = room && to.rows.resize(nodes_, from.rows.size()) &&
           to.taps.resize(nodes_, from.taps.size());
  }
  if (!room || !settle_headroom()) {
    for (std::size_t g = 0; g < geometry_.groups.size(); ++g) {
      child->groups()[g].extents.resize(nodes_, 0);  // none of them is referenced yet
    }
    erase(*child);
    settle_headroom();
    return nullptr;
  }

  for (std::uint32_t g = 0; g < geometry_.groups.size(); ++g) {
    const PagedList<ExtentRef>& from = parent.groups()[g].extents;
    copy_items(from, child->groups()[g].extents);
    for (std::uint32_t i = 0; i < from.size(); ++i) reference(g, from[i]);
  }
  for (std::uint32_t l = 0; l < geometry_.lanes; ++l) {
    const Lane& from = parent.lanes(geometry_)[l];
    Lane& to = child->lanes(geometry_)[l];
    copy_items(from.rows, to.rows);
    copy_items(from.taps, to.taps);
    for (std::uint32_t i = 0; i < to.rows.size(); ++i) {
      if (to.rows[i].packed()) ++pack_of(to.rows[i]).references;
    }
    to.own = from.own;
    to.live = from.live;
    to.first = from.first;
    to.sparse = from.sparse;
  }
  copy_items(parent.queries, child->queries);
  copy_items(parent.gate_queries, child->gate_queries);
  child->gate_on = parent.gate_on;
  child->gate_rows = parent.gate_rows;
  child->gate_end = parent.gate_end;
  copy_items(parent.roles, child->roles);
  child->structured = parent.structured;
  child->query_rows = parent.query_rows;
  child->length = parent.length;
  child->window_rows = parent.window_rows;
  child->window_end = parent.window_end;
  child->prompt_end = parent.prompt_end;
  child->reviewed = parent.reviewed;
  child->taps = parent.taps;
  child->dropped = parent.dropped;
  child->sparse = parent.sparse;
  return child;
}

}  // namespace quire
