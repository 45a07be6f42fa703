// Lines of code of the files of this room, counted by the build (cmake/policy_lines.cmake).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace quire::policies {

struct FileLines {
  std::string_view file;  // src/policies/FILE.cc
  std::uint32_t lines;    // without comments and blank lines
};
extern const std::vector<FileLines> kFileLines;

}  // namespace quire::policies
