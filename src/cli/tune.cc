// quire tune: from how many rows on this machine's kernels for chunks pay.

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "cli/bench_limits.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/open_engine.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "cli/tuning.h"

namespace quire::cli {
namespace {

using model::TuneCell;

struct TuneFlags {
  EngineFlags engine;
  std::string out;
  bool quick = false;
};

void print_cells(std::span<const TuneCell> cells) {
  std::printf("%-10s %6s %12s %12s %7s\n", "", "rows", "exact us", "chunk us", "ratio");
  for (const TuneCell& cell : cells) {
    std::printf("%-10s %6u %12s %12s %7s\n",
                cell.work == TuneCell::Work::kLinear ? "products" : "attention", cell.rows,
                number(cell.exact_seconds * 1e6, 1).c_str(),
                number(cell.chunk_seconds * 1e6, 1).c_str(), number(cell.ratio, 2).c_str());
  }
}

Status write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << '\n';
  file.close();
  return file.good() ? Status() : Status(Code::kIo, path + ": cannot be written");
}

Status tune(const TuneFlags& flags) {
  const Result<Engine> engine = open_engine(flags.engine);
  if (!engine.ok()) return engine.status();
  ProgressLine progress("tune");
  const Answering answering;
  const Result<std::vector<TuneCell>> cells =
      model::measure_chunks(*engine->model, {.isa = engine->cache->options().isa,
                                             .kv_type = engine->cache->options().key_type,
                                             .quick = flags.quick,
                                             .progress = [&](float share) {
                                               progress.show(share, "both kernels in pairs");
                                               return !answering.interrupted();
                                             }});
  progress.clear();
  if (!cells.ok()) return cells.status();
  if (cells->empty()) complain("this machine has no kernels for chunks (AMX): the defaults stand");
  const nlohmann::ordered_json table = tuning_json(
      {cpu_name(), name_of(engine->cache->chunk_isa()), engine->model->info().name}, *cells);
  if (flags.out.empty()) {
    std::puts(table.dump(1).c_str());
    return {};
  }
  if (Status status = write_file(flags.out, table.dump(1)); !status.ok()) return status;
  print_cells(*cells);
  std::printf("%s: kernels for chunks from %u rows (products), %u rows x heads (attention)\n",
              flags.out.c_str(), table["linear_chunk_rows"].get<unsigned>(),
              table["attend_chunk_rows"].get<unsigned>());
  return {};
}

}  // namespace

Command add_tune(CLI::App& app) {
  auto flags = std::make_shared<TuneFlags>();
  add_model_flag(app, flags->engine)->required();
  app.add_option("-o,--output", flags->out, "Write the table here and print what was measured")
      ->type_name("FILE");
  app.add_flag("--quick", flags->quick, "Fewer pairs and row counts: seconds");
  return [flags] {
    const Status status = tune(*flags);
    if (status.ok()) return kExitDone;
    complain(status.message());
    return status.code() == Code::kCancelled ? kExitInterrupted : kExitFailed;
  };
}

}  // namespace quire::cli
