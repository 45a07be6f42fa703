// The region of a cache: address space now, memory as slabs are taken.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/pool.h"
#include "quire/status.h"

namespace quire {

// Anonymous memory of the system.  kOutOfMemory when the address space cannot be had.
Result<std::unique_ptr<Memory>> map_memory(std::size_t bytes);

// The most memory this process may use: physical RAM or a limit of its control groups.
struct MachineLimit {
  std::size_t bytes = 0;
  std::string source;  // "RAM", or the file that says so
};
MachineLimit machine_limit();

}  // namespace quire
