#include "eval/log.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <utility>

namespace quire::eval {
namespace {

Status io_error(const char* what, const std::string& path) {
  return {Code::kIo, std::string("cannot ") + what + " " + path + ": " + std::strerror(errno)};
}

std::string line_of(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Status other_header(const std::string& path, const Json& there, const Json& here,
                    const std::string& at = {}) {
  for (const auto& [key, value] : here.items()) {
    const Json other = there.is_object() && there.contains(key) ? there.at(key) : Json();
    if (other == value) continue;
    const std::string name = at.empty() ? key : at + "." + key;
    if (value.is_object() && other.is_object()) return other_header(path, other, value, name);
    return {Code::kInvalidArgument, path + " is the log of another run: " + name + " is " +
                                        other.dump() + " there, " + value.dump() +
                                        " here; name another log, or use the same settings"};
  }
  return {Code::kInvalidArgument, path +
                                      " is the log of another run: its first line has more keys "
                                      "than this program writes; name another log"};
}

}  // namespace

Result<Log> Log::open(const std::string& path, const Json& header) {
  Log log;
  log.path_ = path;
  if (path.empty()) return log;
  std::string text;
  if (std::ifstream in(path, std::ios::binary); in) {
    text.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    if (in.bad()) return io_error("read", path);
  }
  std::size_t begin = 0, number = 0;
  for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const Json line = Json::parse(text.substr(begin, end - begin), nullptr, false);
    if (++number; !line.is_object()) {
      return Status(Code::kCorrupt,
                    path + ":" + std::to_string(number) +
                        ": not a JSON object; name another log, or remove the line");
    }
    if (number > 1) {
      log.finished_.push_back(line);
    } else if (line != header) {
      return other_header(path, line, header);
    }
  }
  if (begin < text.size()) {
    std::error_code error;
    std::filesystem::resize_file(path, begin, error);
    if (error) {
      return Status(Code::kIo,
                    "cannot take the unfinished line off " + path + ": " + error.message());
    }
  }
  log.out_.open(path, std::ios::binary | std::ios::app);
  if (!log.out_) return io_error("write", path);
  if (number == 0) {
    if (Status status = log.append(header); !status.ok()) return status;
  }
  return log;
}

Status Log::append(const Json& line) {
  if (path_.empty()) return {};
  out_ << line_of(line) << std::flush;
  return out_ ? Status() : io_error("write", path_);
}

Result<std::string> file_fingerprint(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return io_error("read", path);
  // FNV-1a over words of 8 bytes, folded once more so that high bits reach low ones.
  std::uint64_t hash = 0xCBF29CE484222325u;
  std::vector<char> buffer(std::size_t{1} << 20);
  while (in) {
    in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    const auto count = static_cast<std::size_t>(in.gcount());
    for (std::size_t i = 0; i < count; i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, buffer.data() + i, std::min<std::size_t>(8, count - i));
      hash = (hash ^ word) * 0x100000001B3u;
      hash ^= hash >> 29;
    }
  }
  if (in.bad()) return io_error("read", path);
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(hash));
  return std::string(text);
}

}  // namespace quire::eval
