#include "serve/session_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace quire::serve {
namespace {

constexpr std::size_t kNameMost = 100, kOwnerLetters = 16;
constexpr std::string_view kEnding = ".session", kDraftEnding = ".draft";

Status system_error(const std::string& what) {
  return {Code::kIo, "session: " + what + ": " + std::strerror(errno)};
}

std::string file_name(const std::string& owner, const std::string& name) {
  QUIRE_CHECK(owner.size() == kOwnerLetters && check_session_name(name).ok());
  return name + "." + owner + std::string(kEnding);
}

// No link is followed, nothing that would block is waited for.
int open_at(int directory, const std::string& name, int flags) {
  return ::openat(directory, name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
}

class OpenFile final : public SessionSource {
 public:
  OpenFile(int file, std::uint64_t size) : file_(file), size_(size) {}
  ~OpenFile() override { ::close(file_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  std::uint64_t size() const override { return size_; }
  Status read(std::uint64_t offset, std::span<std::byte> out) override {
    while (!out.empty()) {
      const ssize_t count = ::pread(file_, out.data(), out.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return system_error("cannot read");
      if (count == 0) return {Code::kCorrupt, "session: it became shorter while it was read"};
      offset += static_cast<std::uint64_t>(count);
      out = out.subspan(static_cast<std::size_t>(count));
    }
    return {};
  }

 private:
  const int file_;
  const std::uint64_t size_;
};

}  // namespace

Status check_session_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  if (!name.empty() && name.size() <= kNameMost && name[0] != '.' &&
      std::ranges::all_of(name, fits)) {
    return {};
  }
  return {Code::kInvalidArgument,
          "name: 1 to 100 of a-z, A-Z, 0-9, '.', '_' and '-', the first no '.'"};
}

// --- the directory ---

Result<std::unique_ptr<SessionStore>> SessionStore::open(const SessionOptions& options) {
  const std::string& directory = options.directory;
  const auto failed = [&] {
    return Status(Code::kIo, "session directory " + directory + ": " + std::strerror(errno));
  };
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return failed();
  const int file = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return failed();
  std::unique_ptr<SessionStore> store(new SessionStore(file, options.most_bytes));
  struct stat found {};
  if (::fstat(file, &found) != 0) return failed();
  if ((found.st_mode & S_IWOTH) != 0) {
    return Status(Code::kInvalidArgument,
                  "session directory " + directory +
                      ": every user may write to it, and so to what others are answered from");
  }
  if (Status status = store->remove_abandoned(); !status.ok()) return status;
  return store;
}

SessionStore::~SessionStore() {
  ::close(directory_);
}

Status SessionStore::each(
    const std::function<void(const std::string&, const struct stat&)>& f) const {
  const int copy = ::openat(directory_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const entries = copy < 0 ? nullptr : ::fdopendir(copy);
  if (entries == nullptr) {
    const Status status = system_error("cannot list");
    if (copy >= 0) ::close(copy);
    return status;
  }
  while (const dirent* entry = ::readdir(entries)) {
    struct stat found {};
    if (::fstatat(directory_, entry->d_name, &found, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISREG(found.st_mode)) f(entry->d_name, found);
  }
  ::closedir(entries);
  return {};
}

// A draft is locked by who writes it, until that process ends.
Status SessionStore::remove_abandoned() {
  return each([this](const std::string& name, const struct stat&) {
    if (!name.starts_with('.') || !name.ends_with(kDraftEnding)) return;
    const int file = open_at(directory_, name, O_RDWR);
    if (file < 0) return;
    if (::flock(file, LOCK_EX | LOCK_NB) == 0) ::unlinkat(directory_, name.c_str(), 0);
    ::close(file);
  });
}

// --- writing ---

Result<std::unique_ptr<SessionStore::Draft>> SessionStore::create(const std::string& owner,
                                                                  const std::string& name,
                                                                  std::uint64_t bytes) {
  const std::string target = file_name(owner, name);
  std::uint64_t others = 0;
  const Status listed = each([&](const std::string& file, const struct stat& found) {
    if (file != target) others += static_cast<std::uint64_t>(found.st_size);
  });
  if (!listed.ok()) return listed;
  if (bytes > most_bytes_ - std::min(others, most_bytes_)) {
    return Status(Code::kIo, "session: it has " + std::to_string(bytes) + " bytes, others " +
                                 std::to_string(others) + ", and all may have " +
                                 std::to_string(most_bytes_) + " (--session-space); erase some");
  }
  std::string draft;
  int file = -1;
  do {  // another process may have the number, in another container
    draft = "." + std::to_string(::getpid()) + "-" + std::to_string(drafts_++) +
            std::string(kDraftEnding);
    file = open_at(directory_, draft, O_WRONLY | O_CREAT | O_EXCL);
  } while (file < 0 && errno == EEXIST);
  if (file < 0) return system_error("cannot write");
  static_cast<void>(::flock(file, LOCK_EX | LOCK_NB));
  return std::unique_ptr<Draft>(new Draft(directory_, file, draft, target));
}

SessionStore::Draft::~Draft() {
  if (!draft_.empty()) ::unlinkat(directory_, draft_.c_str(), 0);
  ::close(file_);
}

Status SessionStore::Draft::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("cannot write");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Status SessionStore::Draft::keep() {
  if (::fsync(file_) != 0) return system_error("cannot sync");
  if (::renameat(directory_, draft_.c_str(), directory_, target_.c_str()) != 0) {
    return system_error("cannot rename");
  }
  draft_.clear();
  return ::fsync(directory_) == 0 ? Status() : system_error("cannot sync");
}

// --- reading ---

Result<std::unique_ptr<SessionSource>> SessionStore::read(const std::string& owner,
                                                          const std::string& name) const {
  const int file = open_at(directory_, file_name(owner, name), O_RDONLY);
  if (file < 0 && (errno == ENOENT || errno == ELOOP)) {
    return Status(Code::kNotFound, "session: there is none of this name");
  }
  if (file < 0) return system_error("cannot open");
  struct stat found {};
  const bool known = ::fstat(file, &found) == 0;
  std::unique_ptr<SessionSource> source =
      std::make_unique<OpenFile>(file, static_cast<std::uint64_t>(found.st_size));
  if (!known) return system_error("cannot read");
  if (!S_ISREG(found.st_mode)) {
    return Status(Code::kNotFound, "session: there is none of this name");
  }
  return source;
}

Status SessionStore::erase(const std::string& owner, const std::string& name) {
  if (::unlinkat(directory_, file_name(owner, name).c_str(), 0) != 0) {
    if (errno == ENOENT) return {Code::kNotFound, "session: there is none of this name"};
    return system_error("cannot erase");
  }
  return ::fsync(directory_) == 0 ? Status() : system_error("cannot sync");
}

Result<std::vector<SessionStore::Entry>> SessionStore::list(const std::string& owner) const {
  const std::string ending = "." + owner + std::string(kEnding);
  std::vector<Entry> entries;
  const Status listed = each([&](const std::string& file, const struct stat& found) {
    if (!file.ends_with(ending)) return;
    std::string name = file.substr(0, file.size() - ending.size());
    if (!check_session_name(name).ok()) return;
    entries.push_back({std::move(name), static_cast<std::uint64_t>(found.st_size),
                       static_cast<std::int64_t>(found.st_mtime)});
  });
  if (!listed.ok()) return listed;
  std::ranges::sort(entries, {}, &Entry::name);
  return entries;
}

}  // namespace quire::serve
