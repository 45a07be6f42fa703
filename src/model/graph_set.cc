#include "model/graph_set.h"

#include <algorithm>
#include <iterator>

#include "quire/check.h"

namespace quire::model {
namespace {

// Padding costs at most a third of a step, and a fifth on average; both lists together are the 24
// graphs a model may keep.
constexpr std::uint32_t kRowShapes[] = {1,  2,  3,  4,  6,   8,   12,  16,  24,
                                        32, 48, 64, 96, 128, 192, 256, 384, 512};
constexpr std::uint32_t kHeadShapes[] = {1, 2, 4, 8, 16, 32};
static_assert(kRowShapes[std::size(kRowShapes) - 1] == kMaxRows);
static_assert(kHeadShapes[std::size(kHeadShapes) - 1] == kMaxHeadRows);

}  // namespace

std::uint32_t padded_rows(std::uint32_t rows) {
  QUIRE_CHECK(rows > 0 && rows <= kMaxRows);
  return *std::lower_bound(std::begin(kRowShapes), std::end(kRowShapes), rows);
}

std::uint32_t padded_head_rows(std::uint32_t rows) {
  QUIRE_CHECK(rows > 0 && rows <= kMaxHeadRows);
  return *std::lower_bound(std::begin(kHeadShapes), std::end(kHeadShapes), rows);
}

Threads::Threads(std::uint32_t count) : count_(count) {
  ggml_threadpool_params params = ggml_threadpool_params_default(static_cast<int>(count));
  params.poll = 0;  // sleep, not spin, between graphs
  pool_ = ggml_threadpool_new(&params);
  QUIRE_CHECK(pool_ != nullptr);
}

Threads::~Threads() {
  ggml_threadpool_free(pool_);
}

void Threads::run(ggml_cgraph* graph) {
  ggml_cplan plan = ggml_graph_plan(graph, static_cast<int>(count_), pool_);
  if (plan.work_size > work_.size()) work_.resize(plan.work_size);
  plan.work_data = work_.data();
  QUIRE_CHECK(ggml_graph_compute(graph, &plan) == GGML_STATUS_SUCCESS);
}

// A graph of one node, which every thread enters.
void Threads::run(const PartWork& work) {
  ggml_context_ptr context(
      ggml_init({.mem_size = 4 * ggml_tensor_overhead() + ggml_graph_overhead(),
                 .mem_buffer = nullptr,
                 .no_alloc = true}));
  const auto enter = [](ggml_tensor*, int ith, int nth, void* user) {
    (*static_cast<const PartWork*>(user))(static_cast<std::uint32_t>(ith),
                                          static_cast<std::uint32_t>(nth));
  };
  std::byte output[GGML_MEM_ALIGN] = {};
  ggml_tensor* node = ggml_custom_4d(context.get(), GGML_TYPE_I8, 1, 1, 1, 1, nullptr, 0, enter,
                                     GGML_N_TASKS_MAX, const_cast<PartWork*>(&work));
  node->data = output;
  ggml_cgraph* graph = ggml_new_graph(context.get());
  ggml_build_forward_expand(graph, node);
  run(graph);
}

void Threads::pause() {
  ggml_threadpool_pause(pool_);
}

void Threads::resume() {
  ggml_threadpool_resume(pool_);
}

GraphSet::GraphSet(GraphInputs inputs) : inputs_(inputs) {}

Status GraphSet::reserve(std::uint32_t rows) {
  bodies_.clear();
  heads_.clear();
  body_memory_.reset(ggml_gallocr_new(ggml_backend_cpu_buffer_type()));
  head_memory_.reset(ggml_gallocr_new(ggml_backend_cpu_buffer_type()));
  ggml_context_ptr context(ggml_init({.mem_size = 2 * graph_header_bytes(*inputs_.shape),
                                      .mem_buffer = nullptr,
                                      .no_alloc = true}));
  const BodyGraph largest = build_body(context.get(), inputs_, padded_rows(rows));
  const HeadGraph head = build_head(context.get(), inputs_, kMaxHeadRows);
  if (!ggml_gallocr_reserve(body_memory_.get(), largest.graph) ||
      !ggml_gallocr_reserve(head_memory_.get(), head.graph)) {
    return {Code::kOutOfMemory, "no memory for steps of " + std::to_string(rows) + " rows"};
  }
  return {};
}

template <typename Graph>
const Graph& GraphSet::get(std::map<std::uint32_t, Cached<Graph>>& cached, ggml_gallocr_t memory,
                           Graph (*build)(ggml_context*, const GraphInputs&, std::uint32_t),
                           std::uint32_t rows) {
  const auto found = cached.find(rows);
  if (found != cached.end()) return found->second.graph;
  Cached<Graph> made;
  made.context.reset(ggml_init(
      {.mem_size = graph_header_bytes(*inputs_.shape), .mem_buffer = nullptr, .no_alloc = true}));
  made.graph = build(made.context.get(), inputs_, rows);
  // A smaller graph of the same form fits where the largest was placed, so the buffer never moves
  // under the graphs made before.
  const std::size_t before = ggml_gallocr_get_buffer_size(memory, 0);
  QUIRE_CHECK(ggml_gallocr_alloc_graph(memory, made.graph.graph));
  QUIRE_CHECK(ggml_gallocr_get_buffer_size(memory, 0) == before);
  ++created_;
  return cached.emplace(rows, std::move(made)).first->second.graph;
}

const BodyGraph& GraphSet::body(std::uint32_t rows) {
  return get(bodies_, body_memory_.get(), build_body, rows);
}

const HeadGraph& GraphSet::head(std::uint32_t rows) {
  return get(heads_, head_memory_.get(), build_head, rows);
}

std::size_t GraphSet::buffer_bytes() const {
  return ggml_gallocr_get_buffer_size(body_memory_.get(), 0) +
         ggml_gallocr_get_buffer_size(head_memory_.get(), 0);
}

}  // namespace quire::model
