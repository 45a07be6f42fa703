// quire inspect: what a model and its cache would be, without running it.

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <tuple>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/open_engine.h"
#include "cli/report.h"
#include "cli/run_flags.h"
#include "cli/terminal.h"
#include "engine/budget.h"
#include "quire/policy.h"

namespace quire::cli {
namespace {

using json = nlohmann::ordered_json;

struct InspectFlags {
  EngineFlags engine;
  bool json = false;
};

// Layers that see and store alike, in the model's order.
struct LayerGroup {
  LayerShape shape;
  std::uint32_t layers = 0;
  std::size_t bytes_per_token = 0;
};

std::vector<LayerGroup> layer_groups(const CacheOptions& options) {
  std::vector<LayerGroup> groups;
  for (const LayerShape& layer : options.layers) {
    const auto key = [](const LayerShape& s) {
      return std::tuple(s.window, s.kv_heads, s.query_heads, s.key_size, s.value_size);
    };
    auto group = std::ranges::find_if(
        groups, [&](const LayerGroup& g) { return key(g.shape) == key(layer); });
    if (group == groups.end()) group = groups.insert(groups.end(), LayerGroup{.shape = layer});
    CacheOptions one = options;
    one.layers = {layer};
    ++group->layers;
    group->bytes_per_token += engine::kv_bytes_per_token(one);
  }
  return groups;
}

// 0.8f as 0.8, not as the double beside it.
double as_written(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  double read = 0;
  std::from_chars(text, end, read);
  return read;
}

json defaults_json() {
  const RunFlags run;
  const Protection protect;
  return {{"budget", "the context's bytes, at most half of the free memory"},
          {"kv_type", run.engine.kv_type},
          {"ctx", "the model's"},
          {"threads", "the machine's cores"},
          {"block_tokens", run.engine.block_tokens},
          {"reclaim", run.engine.reclaim},
          {"chunk", run.engine.chunk},
          {"deterministic", run.engine.deterministic},
          {"max_tokens", run.max_tokens},
          {"policy", run.policy},
          {"keep", "what fits the pool"},
          {"review_every", "block_tokens answer tokens"},
          {"sinks", protect.sinks},
          {"recent", protect.recent},
          {"temp", as_written(run.sampler.temperature)},
          {"top_k", run.sampler.top_k},
          {"top_p", as_written(run.sampler.top_p)},
          {"min_p", as_written(run.sampler.min_p)},
          {"repeat_penalty", as_written(run.sampler.repeat_penalty)},
          {"seed", "random"}};
}

// Which table chooses kernels by row count; null where nothing chooses.
json tuning_of(const Engine& engine) {
  if (engine.cache->chunk_isa() == engine.cache->isa()) return nullptr;
  const Tuning& tuning = engine.tuning;
  return {{"linear_chunk_rows", tuning.linear_chunk_rows},
          {"attend_chunk_rows", tuning.attend_chunk_rows},
          {"source", tuning.source.empty() ? "defaults" : tuning.source},
          {"cpu", tuning.cpu}};
}

json inspect_json(const Engine& engine) {
  const model::ModelInfo& info = engine.model->info();
  const CacheOptions& options = engine.cache->options();
  json groups = json::array();
  for (const LayerGroup& group : layer_groups(options)) {
    groups.push_back({{"layers", group.layers},
                      {"window", group.shape.window},
                      {"kv_heads", group.shape.kv_heads},
                      {"query_heads", group.shape.query_heads},
                      {"key_size", group.shape.key_size},
                      {"value_size", group.shape.value_size},
                      {"bytes_per_token", group.bytes_per_token}});
  }
  json linear = json::array();
  for (const auto& [path, tensors] : info.linear) {
    linear.push_back({{"path", path}, {"tensors", tensors}});
  }
  return {{"quire_json", 1},
          {"model",
           {{"name", info.name},
            {"architecture", info.architecture},
            {"quantization", info.quantization},
            {"parameters", info.parameters},
            {"layers", info.layers},
            {"embedding", info.embedding},
            {"feed_forward", info.feed_forward},
            {"vocabulary", info.vocabulary},
            {"context", info.context},
            {"file_bytes", info.file_bytes},
            {"weights_bytes", info.weights_bytes},
            {"copies_bytes", info.copies_bytes}}},
          {"cache",
           {{"budget_bytes", options.budget_bytes},
            {"tokens_that_fit", engine.cache->tokens_that_fit()},
            {"bytes_per_token", engine::kv_bytes_per_token(options)},
            {"bytes_per_token_past_windows", engine::full_bytes_per_token(options)},
            {"kv_type", options.key_type == KvType::kF32    ? "f32"
                        : options.key_type == KvType::kBF16 ? "bf16"
                                                            : "f16"},
            {"block_tokens", options.block_tokens},
            {"groups", groups}}},
          {"kernels",
           {{"attention", name_of(engine.cache->isa())},
            {"attention_of_chunks", name_of(engine.cache->chunk_isa())},
            {"ggml", info.isa}}},
          {"tune", tuning_of(engine)},
          {"linear", linear},
          {"threads", engine.model->threads()},
          {"defaults", defaults_json()}};
}

std::string plain(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void print_model(const json& model) {
  std::printf("model      %s, %s, %s, %s parameters\n", plain(model["name"]).c_str(),
              plain(model["architecture"]).c_str(), plain(model["quantization"]).c_str(),
              grouped(model["parameters"].get<std::uint64_t>()).c_str());
  std::printf("shape      %s layers, embedding %s, feed-forward %s, vocabulary %s, context %s\n",
              plain(model["layers"]).c_str(), plain(model["embedding"]).c_str(),
              plain(model["feed_forward"]).c_str(), plain(model["vocabulary"]).c_str(),
              plain(model["context"]).c_str());
  std::printf("bytes      file %s, weights used as they are %s, converted copies %s\n",
              readable_bytes(model["file_bytes"]).c_str(),
              readable_bytes(model["weights_bytes"]).c_str(),
              readable_bytes(model["copies_bytes"]).c_str());
}

void print_cache(const json& cache) {
  for (const json& group : cache["groups"]) {
    const std::string sees = group["window"] == 0 ? std::string("all positions")
                                                  : "a window of " + plain(group["window"]);
    std::printf(
        "attention  %s layers see %s: %s KV heads, %s query heads, K %s + V %s values; "
        "%s bytes a token\n",
        plain(group["layers"]).c_str(), sees.c_str(), plain(group["kv_heads"]).c_str(),
        plain(group["query_heads"]).c_str(), plain(group["key_size"]).c_str(),
        plain(group["value_size"]).c_str(),
        grouped(group["bytes_per_token"].get<std::uint64_t>()).c_str());
  }
  const json &all = cache["bytes_per_token"], &full = cache["bytes_per_token_past_windows"];
  const std::string past =
      full == all ? "" : ", " + grouped(full.get<std::uint64_t>()) + " past the windows";
  std::printf(
      "budget     %s holds %s tokens of one sequence (%s bytes a token%s, in %s, blocks of %s "
      "tokens)\n",
      readable_bytes(cache["budget_bytes"]).c_str(),
      grouped(cache["tokens_that_fit"].get<std::uint64_t>()).c_str(),
      grouped(all.get<std::uint64_t>()).c_str(), past.c_str(), plain(cache["kv_type"]).c_str(),
      plain(cache["block_tokens"]).c_str());
}

void print_tuning(const json& tune) {
  if (tune.is_null()) {
    std::printf("chunks     the same kernels for every row count\n");
    return;
  }
  const std::string cpu = plain(tune["cpu"]);
  std::printf("chunks     products from %s rows, attention from %s rows x heads: %s%s\n",
              plain(tune["linear_chunk_rows"]).c_str(), plain(tune["attend_chunk_rows"]).c_str(),
              plain(tune["source"]).c_str(), cpu.empty() ? "" : (", measured on " + cpu).c_str());
}

int inspect(const InspectFlags& flags) {
  const Result<Engine> engine = open_engine(flags.engine);
  if (!engine.ok()) {
    complain(engine.status().message());
    if (flags.json) std::puts(dump(error_json(engine.status())).c_str());
    return kExitFailed;
  }
  const json object = inspect_json(*engine);
  if (flags.json) {
    std::puts(dump(object).c_str());
    return kExitDone;
  }
  print_model(object["model"]);
  print_cache(object["cache"]);
  std::printf("kernels    attention: %s, of chunks: %s; ggml: %s; threads: %s\n",
              plain(object["kernels"]["attention"]).c_str(),
              plain(object["kernels"]["attention_of_chunks"]).c_str(),
              plain(object["kernels"]["ggml"]).c_str(), plain(object["threads"]).c_str());
  print_tuning(object["tune"]);
  for (const json& entry : object["linear"]) {
    std::printf("linear     %s: %s\n", plain(entry["path"]).c_str(),
                plain(entry["tensors"]).c_str());
  }
  std::printf("defaults\n");
  for (const auto& [name, value] : object["defaults"].items()) {
    std::printf("  %-16s %s\n", name.c_str(), plain(value).c_str());
  }
  return kExitDone;
}

}  // namespace

Command add_inspect(CLI::App& app) {
  auto flags = std::make_shared<InspectFlags>();
  add_model_flag(app, flags->engine)->required();
  add_cache_flags(app, flags->engine);
  app.add_flag("--json", flags->json, "One JSON object instead of text");
  return [flags] { return inspect(*flags); };
}

}  // namespace quire::cli
