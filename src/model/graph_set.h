// Graphs by row count, and the threads and memory they run on.  Row counts are padded to a short
// list, so after each length was seen once nothing is created any more.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "model/graph.h"
#include "quire/gate.h"
#include "quire/status.h"

namespace quire::model {

constexpr std::uint32_t kMaxRows = 512;              // of one step
constexpr std::uint32_t kMaxHeadRows = 32;           // logits computed at a time
std::uint32_t padded_rows(std::uint32_t rows);       // <= kMaxRows
std::uint32_t padded_head_rows(std::uint32_t rows);  // <= kMaxHeadRows

// ggml's threads: asleep between graphs, parked by pause().  The calling thread is one of them.
class Threads {
 public:
  explicit Threads(std::uint32_t count);
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  std::uint32_t count() const { return count_; }
  void run(ggml_cgraph* graph);
  void run(const PartWork& work);
  void pause();
  void resume();

 private:
  std::uint32_t count_;
  ggml_threadpool* pool_;
  std::vector<std::uint8_t> work_;  // ggml's scratch: as large as any graph wanted so far
};

class GraphSet {
 public:
  explicit GraphSet(GraphInputs inputs);

  // Reserves the working memory of steps of up to `rows` rows; graphs made before are dropped.
  Status reserve(std::uint32_t rows);
  const BodyGraph& body(std::uint32_t rows);  // rows: as padded, up to what was reserved
  const HeadGraph& head(std::uint32_t rows);
  std::uint32_t created() const { return created_; }
  std::size_t buffer_bytes() const;

 private:
  template <typename Graph>
  struct Cached {
    ggml_context_ptr context;
    Graph graph;
  };
  template <typename Graph>
  const Graph& get(std::map<std::uint32_t, Cached<Graph>>& cached, ggml_gallocr_t memory,
                   Graph (*build)(ggml_context*, const GraphInputs&, std::uint32_t),
                   std::uint32_t rows);

  GraphInputs inputs_;
  // One buffer per kind: all graphs of a kind lie in it, and only one runs at a time.
  ggml_gallocr_ptr body_memory_, head_memory_;
  std::map<std::uint32_t, Cached<BodyGraph>> bodies_;
  std::map<std::uint32_t, Cached<HeadGraph>> heads_;
  std::uint32_t created_ = 0;
};

}  // namespace quire::model
