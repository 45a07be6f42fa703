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

Sequence* Tables::fork(const Sequence& parent) {
  QUIRE_CHECK(!growing());
  Sequence* child = start(parent.needs);
  if (child == nullptr) return nullptr;

  bool room = child->queries.resize(nodes_, parent.queries.size()) &&
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

  for (std::size_t g = 0; g < geometry_.groups.size(); ++g) {
    const PagedList<ExtentRef>& from = parent.groups()[g].extents;
    copy_items(from, child->groups()[g].extents);
    for (std::uint32_t i = 0; i < from.size(); ++i) ++checked(from[i]).references;
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
