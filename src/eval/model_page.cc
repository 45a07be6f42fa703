#include "eval/model_page.h"

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

namespace quire::eval {
namespace {

// Each begins with a line of two #.
std::vector<std::string> sections_of(const std::string& page) {
  std::vector<std::string> sections;
  for (std::size_t at = page.find("\n## "); at != std::string::npos;) {
    const std::size_t next = page.find("\n## ", at + 1);
    sections.push_back(page.substr(at + 1, next == std::string::npos ? next : next - at));
    at = next;
  }
  return sections;
}

}  // namespace

std::string model_slug(const std::string& model_file) {
  std::string text;
  for (const char c : std::filesystem::path(model_file).stem().string()) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0) {
      text += static_cast<char>(std::tolower(letter));
    } else if (!text.empty() && text.back() != '-') {
      text += '-';
    }
  }
  while (text.ends_with('-')) text.pop_back();
  return text.empty() ? "model" : text;
}

std::string deeper(const std::string& markdown) {
  std::string text;
  for (std::size_t i = 0; i < markdown.size(); ++i) {
    if (markdown[i] == '#' && (i == 0 || markdown[i - 1] == '\n')) text += '#';
    text += markdown[i];
  }
  return text;
}

std::string model_heading(const PoliciesReport& report) {
  const Json& model = report.header.at("model");
  return "## " + report.model_file + "\n\n" + model.at("name").get<std::string>() + " (" +
         model.at("quantization").get<std::string>() + ", fingerprint " +
         model.at("fingerprint").get<std::string>() + ")";
}

Status write_section(const std::string& path, const std::string& head, const std::string& section) {
  std::string there;
  if (std::ifstream in(path, std::ios::binary); in) {
    there.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  const std::string heading = section.substr(0, section.find('\n') + 1);
  std::string page = head;
  const auto add = [&](std::string text) {
    while (text.ends_with('\n')) text.pop_back();
    page += text + "\n\n";
  };
  bool placed = false;
  for (const std::string& old : sections_of(there)) {
    const bool same = old.starts_with(heading);
    add(same ? section : old);
    placed = placed || same;
  }
  if (!placed) add(section);
  page.pop_back();
  return write_file(path, page);
}

}  // namespace quire::eval
