// Runs the built program as a user would: arguments and environment in, both outputs and the exit
// status back.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/tiny_model.h"

namespace quire::test {

struct Ran {
  int status = -1;  // exit status; 128 + signal when one ended it
  std::string out, err;
};

// A folder of this test process, removed with it.
class Folder {
 public:
  Folder()
      : path_(std::filesystem::path(testing::TempDir()) /
              ("quire_cli_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name), std::ios::binary) << text;
    return file(name);
  }

 private:
  std::filesystem::path path_;
};

inline const Folder& folder() {
  static const Folder one;
  return one;
}

// A random model of two layers whose context is `context` tokens.
inline std::string tiny_model(std::uint32_t context = 1024) {
  const std::string path = folder().file("tiny" + std::to_string(context) + ".gguf");
  if (!std::filesystem::exists(path)) {
    EXPECT_TRUE(write_tiny_model({.context = context}, path));
  }
  return path;
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

constexpr int kPipeBytes = 4096;  // the smallest there is: soon full

// A started program whose stdout is a pipe.
class Program {
 public:
  Program(std::vector<std::string> arguments, const std::string& input = {},
          std::vector<std::string> environment = {}) {
    arguments.insert(arguments.begin(), QUIRE_PROGRAM);
    const std::string in = folder().write("stdin", input);
    folder().write("stderr", "");  // what another program said
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    EXPECT_EQ(fcntl(ends[0], F_SETPIPE_SZ, kPipeBytes), kPipeBytes);
    pid_ = fork();
    if (pid_ == 0) {
      for (std::string& pair : environment) putenv(pair.data());
      const bool ready = std::freopen(in.c_str(), "r", stdin) != nullptr &&
                         std::freopen(folder().file("stderr").c_str(), "w", stderr) != nullptr &&
                         dup2(ends[1], STDOUT_FILENO) >= 0;
      close(ends[0]);
      close(ends[1]);
      std::vector<char*> argv;
      for (std::string& argument : arguments) argv.push_back(argument.data());
      argv.push_back(nullptr);
      if (ready) execv(argv[0], argv.data());
      _exit(99);
    }
    close(ends[1]);
    out_ = ends[0];
  }
  ~Program() {
    if (pid_ > 0 && !waited_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(out_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Blocks until something was printed to stdout, or it ended; what was read is kept.
  void wait_for_output() {
    char buffer[256];
    const ssize_t count = read(out_, buffer, sizeof(buffer));
    if (count > 0) ran_.out.append(buffer, static_cast<std::size_t>(count));
  }
  // Returns when the program's handler has the signal.
  void interrupt() const {
    kill(pid_, SIGINT);
    while (pending(SIGINT)) sched_yield();
  }
  // Ends it at once, as a power cut would.
  void kill_now() const { kill(pid_, SIGKILL); }
  bool has_ended() const { return state() == 'Z'; }
  // Reads nothing until the program sleeps in a write to its full stdout.  REQUIRES: it writes on,
  // in pieces of a few bytes, and computes on one thread.
  void wait_until_blocked() const {
    int filled = 0;
    char now = state();
    while (now != 'Z' && (filled < kPipeBytes - 16 || now != 'S')) {
      sched_yield();
      EXPECT_EQ(ioctl(out_, FIONREAD, &filled), 0);
      now = state();
    }
  }
  const Ran& finish() {
    char buffer[4096];
    for (ssize_t count = 0; (count = read(out_, buffer, sizeof(buffer))) > 0;) {
      ran_.out.append(buffer, static_cast<std::size_t>(count));
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    waited_ = true;
    ran_.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    ran_.err = read_file(folder().file("stderr"));
    return ran_;
  }

  // What the system says about it, in /proc.
  std::string proc(const char* name) const {
    return read_file("/proc/" + std::to_string(pid_) + "/" + name);
  }

 private:
  bool pending(int signal) const {
    const std::string status = proc("status");
    const std::size_t at = status.find("ShdPnd:");
    return at != status.npos &&
           (std::stoull(status.substr(at + 7), nullptr, 16) >> (signal - 1) & 1) != 0;
  }
  // R runs, S sleeps, Z has ended.
  char state() const {
    const std::string stat = proc("stat");  // pid (name) state ...
    const std::size_t name_end = stat.rfind(')');
    return name_end == stat.npos || stat.size() < name_end + 3 ? 'Z' : stat[name_end + 2];
  }

  pid_t pid_ = -1;
  int out_ = -1;
  bool waited_ = false;
  Ran ran_;
};

inline Ran quire(std::vector<std::string> arguments, const std::string& input = {},
                 std::vector<std::string> environment = {}) {
  Program program(std::move(arguments), input, std::move(environment));
  return program.finish();
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Of `quire serve`: the port of its first line on stderr.
inline std::uint16_t port_of(const Program& program) {
  const std::string before = "at http://127.0.0.1:";
  while (!program.has_ended()) {
    const std::string said = read_file(folder().file("stderr"));
    const std::size_t at = said.find(before);
    if (at != std::string::npos && said.find('\n', at) != std::string::npos) {
      return static_cast<std::uint16_t>(std::stoul(said.substr(at + before.size())));
    }
    sched_yield();
  }
  ADD_FAILURE() << read_file(folder().file("stderr"));
  return 0;
}

}  // namespace quire::test
