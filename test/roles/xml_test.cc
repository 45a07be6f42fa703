// Goal: the XML scanner finds the names and contents that a parser finds, and where a document
// ends. Method: goldens of Python's expat (test/roles/xml_golden.py); small texts a reader can
// check; every
//   prefix of a document is read to its end.
#include <gtest/gtest.h>

#include <fstream>

#include "roles/roles.h"
#include "roles/scanners.h"
#include "roles/shown.h"

namespace quire::roles {
namespace {

using How = Scanned::How;

struct Golden {
  std::string document;
  std::vector<std::string> events;
};

std::vector<Golden> read_goldens() {
  std::vector<Golden> goldens;
  std::ifstream in("test/roles/xml_golden.txt", std::ios::binary);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#")) continue;
    if (!line.starts_with("document ")) {
      goldens.back().events.push_back(line);
      continue;
    }
    Golden golden{.document = std::string(std::stoul(line.substr(9)), ' ')};
    in.read(golden.document.data(), static_cast<std::streamsize>(golden.document.size()));
    in.get();
    goldens.push_back(golden);
  }
  return goldens;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

// As the golden writes a value: without its quotes, entities read, on one line.
std::string plain(std::string text, bool attribute) {
  if (attribute) text = text.substr(1, text.size() - 2);
  replace_all(text, "\\", "\\\\");
  replace_all(text, "\n", "\\n");
  replace_all(text, "&lt;", "<");
  replace_all(text, "&gt;", ">");
  replace_all(text, "&quot;", "\"");
  replace_all(text, "&#65;", "A");
  replace_all(text, "&amp;", "&");
  return text;
}

Scanned scan(std::string_view text, std::vector<Role>& roles) {
  roles.assign(text.size(), Role::kProse);
  return scan_xml(text, roles);
}

TEST(Xml, NamesAndContentsAreThoseOfAParser) {
  const std::vector<Golden> goldens = read_goldens();
  ASSERT_GE(goldens.size(), 40u) << "tests run in the repository root";
  for (const Golden& golden : goldens) {
    std::vector<Role> roles;
    const Scanned scanned = scan(golden.document, roles);
    ASSERT_EQ(scanned.how, How::kWhole) << golden.document;
    std::vector<std::string> events;
    for (const test::Run& run : test::runs(golden.document, roles)) {
      const std::string_view before(golden.document.data(), run.begin);
      if (run.role == Role::kKey && !before.ends_with("</")) events.push_back("key " + run.text);
      if (run.role == Role::kValue) {
        const std::size_t last = before.find_last_not_of(" \n");
        events.push_back("value " + plain(run.text, before[last] == '='));
      }
    }
    std::erase(events, "value ");  // empty attributes
    std::vector<std::string> expected = golden.events;
    std::erase(expected, "value ");
    EXPECT_EQ(events, expected) << golden.document;
  }
}

TEST(Xml, EveryByteHasTheRoleOfItsPart) {
  EXPECT_EQ(test::letters(label_text("<a b=\"c\">\n x y </a>.")), "dk_kdvvvd__vvv_ddkdp");
  EXPECT_EQ(test::letters(label_text("<?xml v?><a/>\nWhy?")),
            "ddddddddd"
            "dkdd"
            "_pppp");
}

TEST(Xml, TagsThatDoNotNestEndTheDocument) {
  EXPECT_EQ(test::letters(label_text("<a><b>x</b></c> y")), "dkddkdvddkdddpppp");
  EXPECT_EQ(test::letters(label_text("<a>x</b> y")), std::string(10, 'p')) << "nothing was closed";
}

TEST(Xml, APrefixIsReadToItsEnd) {
  for (const Golden& golden : read_goldens()) {
    const std::size_t end = golden.document.find_last_of('>');
    for (std::size_t cut = 0; cut < end; ++cut) {
      std::vector<Role> roles;
      const Scanned scanned = scan(std::string_view(golden.document).substr(0, cut), roles);
      ASSERT_EQ(scanned.how, How::kCut) << golden.document.substr(0, cut);
      ASSERT_EQ(scanned.end, cut);
    }
  }
}

TEST(Xml, DepthIsBounded) {
  std::string text;
  for (std::size_t i = 0; i < kTagDepthMost; ++i) text += "<a>";
  std::vector<Role> roles;
  EXPECT_EQ(scan(text, roles).how, How::kCut);
  EXPECT_EQ(scan(text + "<a>", roles).how, How::kBroken);
}

}  // namespace
}  // namespace quire::roles
