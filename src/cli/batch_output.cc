// Append, fdatasync, and on opening a look at what is there.

#include "cli/batch_output.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "cli/report.h"
#include "serve/json_in.h"

namespace quire::cli {
namespace {

using json = serve::Json;

constexpr std::size_t kLineMost = std::size_t{256} << 20;

// "c" + custom_id, or "i" + id; empty: no line of ours.
std::string key_of(const std::string& line) {
  const Result<json> object = serve::parse_json(line, kLineMost);
  if (!object.ok() || !object->is_object()) return {};
  const json custom_id = object->value("custom_id", json()), id = object->value("id", json());
  if (custom_id.is_string()) return "c" + custom_id.get<std::string>();
  return id.is_string() ? "i" + id.get<std::string>() : std::string();
}

// A new file's name is on disk once its folder is.
void sync_folder(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const int file = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (file < 0) return;
  static_cast<void>(fsync(file));
  ::close(file);
}

}  // namespace

BatchOutput::BatchOutput(BatchOutput&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      torn_(other.torn_),
      done_(std::move(other.done_)) {}

BatchOutput::~BatchOutput() {
  if (file_ >= 0) ::close(file_);
}

Status BatchOutput::system_error(const char* what) const {
  return {Code::kIo, std::string(what) + " " + path_ + ": " + std::strerror(errno)};
}

Result<BatchOutput> BatchOutput::open(const std::string& path) {
  BatchOutput output(path, ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (output.file_ < 0) return output.system_error("cannot write");
  if (flock(output.file_, LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK ? Status(Code::kIo, path + ": another process is writing it")
                                : output.system_error("cannot lock");
  }
  sync_folder(path);
  if (Status status = output.read(); !status.ok()) return status;
  return output;
}

Status BatchOutput::read() {
  std::ifstream file(path_, std::ios::binary);
  if (!file.is_open()) return system_error("cannot read");
  std::size_t number = 0;
  off_t whole = 0;
  for (std::string line; std::getline(file, line);) {
    torn_ = file.eof();  // no newline after it
    if (torn_) break;
    ++number;
    whole += static_cast<off_t>(line.size()) + 1;
    const std::string key = key_of(line);
    if (key.empty()) {
      return {Code::kCorrupt, path_ + ": line " + std::to_string(number) +
                                  " is no result of a batch; move the file away, or name another"};
    }
    done_.insert(key);
  }
  if (torn_ && ftruncate(file_, whole) != 0) return system_error("cannot cut");
  return {};
}

bool BatchOutput::has(const std::string& custom_id, const std::string& id) const {
  return done_.contains(custom_id.empty() ? "i" + id : "c" + custom_id);
}

Status BatchOutput::append(const nlohmann::ordered_json& line) {
  const std::string text = dump(line) + "\n";
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t count = ::write(file_, text.data() + at, text.size() - at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("cannot write");
    at += static_cast<std::size_t>(count);
  }
  // What cannot be synced (a pipe, /dev/stdout) is not resumed either.
  if (fdatasync(file_) != 0 && errno != EINVAL && errno != EROFS)
    return system_error("cannot sync");
  return {};
}

}  // namespace quire::cli
