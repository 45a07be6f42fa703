// A directory of sessions: names that stay inside it, files that are whole or not there.
//
// The session NAME of an owner is the file NAME.OWNER.session, so no owner reads, replaces or lists
// what is another's.  It is written beside its place and moved there when all of it is on disk;
// what a process leaves that was killed meanwhile is removed by the next open().  Several processes
// may share a directory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "quire/status.h"
#include "serve/session_file.h"

struct stat;

namespace quire::serve {

struct SessionOptions {
  std::string directory{};                             // empty: there are no sessions
  std::uint64_t most_bytes = std::uint64_t{16} << 30;  // of all together
};

// 1 to 100 of a-z A-Z 0-9 . _ -, the first no dot.  kInvalidArgument.
Status check_session_name(std::string_view name);

class SessionStore {
 public:
  // Makes the directory (mode 0700) if its parent is there.  kInvalidArgument: it is none, or every
  // user of the machine may write to it; kIo.
  static Result<std::unique_ptr<SessionStore>> open(const SessionOptions& options);
  ~SessionStore();
  SessionStore(const SessionStore&) = delete;
  SessionStore& operator=(const SessionStore&) = delete;

  // A session that is being written: not there before keep() succeeds, and otherwise gone with
  // this.
  class Draft {
   public:
    ~Draft();
    Draft(const Draft&) = delete;
    Draft& operator=(const Draft&) = delete;
    Status write(std::span<const std::byte> bytes);
    Status keep();  // replaces what had the name

   private:
    friend class SessionStore;
    Draft(int directory, int file, std::string draft, std::string target)
        : directory_(directory),
          file_(file),
          draft_(std::move(draft)),
          target_(std::move(target)) {}
    const int directory_, file_;
    std::string draft_;  // its name for now; empty: kept
    const std::string target_;
  };

  // All of these REQUIRE a name that check_session_name() accepts, and an owner of 16 letters.
  // kIo, also where all sessions together would have more than the limit.
  Result<std::unique_ptr<Draft>> create(const std::string& owner, const std::string& name,
                                        std::uint64_t bytes);
  // kNotFound.
  Result<std::unique_ptr<SessionSource>> read(const std::string& owner,
                                              const std::string& name) const;
  Status erase(const std::string& owner, const std::string& name);

  struct Entry {
    std::string name;
    std::uint64_t bytes = 0;
    std::int64_t modified = 0;  // seconds since 1970
  };
  Result<std::vector<Entry>> list(const std::string& owner) const;  // by name

 private:
  SessionStore(int directory, std::uint64_t most_bytes)
      : directory_(directory), most_bytes_(most_bytes) {}
  // Calls f for every regular file.
  Status each(const std::function<void(const std::string&, const struct stat&)>& f) const;
  Status remove_abandoned();

  const int directory_;
  const std::uint64_t most_bytes_;
  std::uint64_t drafts_ = 0;
};

}  // namespace quire::serve
