// Files of the project, for a program that may be started anywhere.
#pragma once

#include <string>

namespace quire::cli {

// The path as given where it exists, else beside a folder that the program lies in, else as given.
std::string located(const std::string& path);

}  // namespace quire::cli
