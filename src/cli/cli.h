// The command line: what can be typed, and what the exit status means.
#pragma once

namespace quire::cli {

constexpr int kExitDone = 0;
constexpr int kExitFailed = 1;         // understood, and it did not work
constexpr int kExitUsage = 2;          // the command line is wrong; nothing was tried
constexpr int kExitInterrupted = 130;  // ctrl-C

int program(int argc, char** argv);

}  // namespace quire::cli
