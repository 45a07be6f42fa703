#include "cli/located.h"

#include <filesystem>

namespace quire::cli {

std::string located(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return path;
  std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", ignored);
  for (int up = 0; up < 4 && folder.has_relative_path(); ++up) {
    folder = folder.parent_path();
    if (std::filesystem::exists(folder / path, ignored)) return (folder / path).string();
  }
  return path;
}

}  // namespace quire::cli
