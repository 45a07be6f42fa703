// The commands: each adds its flags to the app and returns the exit status when it is run.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace quire::cli {

using Command = std::function<int()>;

Command add_run(CLI::App& app);
Command add_batch(CLI::App& app);
Command add_serve(CLI::App& app);
Command add_inspect(CLI::App& app);
Command add_policies(CLI::App& app);
Command add_roles(CLI::App& app);
Command add_matrix(CLI::App& app);
Command add_demo(CLI::App& app);
Command add_bench(CLI::App& app);
Command add_bench_serve(CLI::App& app);
Command add_eval(CLI::App& app);
Command add_tune(CLI::App& app);
Command add_train(CLI::App& app);

}  // namespace quire::cli
