#include "cache/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>

namespace quire {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

class MappedMemory final : public Memory {
 public:
  // `mapped` bytes from `mapping` on hold the region at `base`, aligned to kHugePage.
  MappedMemory(void* mapping, std::size_t mapped, std::byte* base, std::size_t bytes)
      : mapping_(mapping), mapped_(mapped), base_(base), bytes_(bytes) {}
  ~MappedMemory() override { munmap(mapping_, mapped_); }
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  std::byte* base() const override { return base_; }
  std::size_t bytes() const override { return bytes_; }
  // Whole huge pages, so that the system can use them: attention reads scattered blocks, and the
  // misses of 4 KiB pages cost it a third of its speed.  Never past the region.
  bool commit(std::size_t offset, std::size_t bytes) override {
    const std::size_t begin = offset / kHugePage * kHugePage;
    const std::size_t end =
        std::min((offset + bytes + kHugePage - 1) / kHugePage * kHugePage, bytes_);
    return mprotect(base_ + begin, end - begin, PROT_READ | PROT_WRITE) == 0;
  }
  // Stays accessible: protecting it again would cut the mapping into more pieces than the system
  // allows (vm.max_map_count, 65530) in a large, scattered pool.
  void release(std::size_t offset, std::size_t bytes) override {
    madvise(base_ + offset, bytes, MADV_DONTNEED);
  }

 private:
  void* mapping_;
  std::size_t mapped_;
  std::byte* base_;
  std::size_t bytes_;
};

// A limit file holds one number, or "max".
void lower(MachineLimit& limit, const std::string& path) {
  std::ifstream file(path);
  std::uint64_t bytes = 0;
  if (file >> bytes && bytes < limit.bytes) limit = {static_cast<std::size_t>(bytes), path};
}

// Applies `file` of a control group and of every group above it.
void lower_upwards(MachineLimit& limit, const std::string& root, std::string group,
                   const std::string& file) {
  while (true) {
    lower(limit, root + group + (group.empty() || group.back() != '/' ? "/" : "") + file);
    if (group.empty() || group == "/") return;
    group.erase(group.rfind('/'));
  }
}

}  // namespace

Result<std::unique_ptr<Memory>> map_memory(std::size_t bytes) {
  const std::size_t mapped = bytes + kHugePage;
  void* mapping =
      mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    return Status(Code::kOutOfMemory, "budget_bytes: the system refused " + std::to_string(bytes) +
                                          " bytes of address space");
  }
  const auto address = reinterpret_cast<std::uintptr_t>(mapping);
  std::byte* base =
      static_cast<std::byte*>(mapping) + (kHugePage - address % kHugePage) % kHugePage;
  madvise(base, bytes, MADV_HUGEPAGE);  // refused where the system has none: nothing is lost
  return std::unique_ptr<Memory>(new MappedMemory(mapping, mapped, base, bytes));
}

MachineLimit machine_limit() {
  MachineLimit limit{std::numeric_limits<std::size_t>::max(), "RAM"};
  const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_bytes > 0) {
    limit.bytes = static_cast<std::size_t>(pages) * static_cast<std::size_t>(page_bytes);
  }
  // "0::/group" is version 2; "5:memory:/group" is version 1.
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) lower_upwards(limit, "/sys/fs/cgroup", group, "memory.max");
    if (controllers.find("memory") != std::string::npos) {
      lower_upwards(limit, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
    }
  }
  return limit;
}

}  // namespace quire
