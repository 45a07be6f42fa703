#include "cli/eval_texts.h"

#include <filesystem>
#include <iterator>
#include <vector>

#include "cli/located.h"
#include "cli/run_flags.h"

namespace quire::cli {
namespace {

constexpr const char* kTexts[] = {"examples/the-time-machine.txt",
                                  "examples/pride-and-prejudice.txt"};

}  // namespace

Result<EvalText> read_eval_text(const std::string& file) {
  std::vector<std::string> files = {file};
  if (file.empty()) files.assign(std::begin(kTexts), std::end(kTexts));
  EvalText all;
  for (const std::string& path : files) {
    const Result<std::string> text = read_text(located(path));
    if (!text.ok()) {
      return Status(text.status().code(), text.status().message() + " (--text names another)");
    }
    all.text += *text;
    all.name += (all.name.empty() ? "" : ", ") + std::filesystem::path(path).filename().string();
  }
  return all;
}

}  // namespace quire::cli
