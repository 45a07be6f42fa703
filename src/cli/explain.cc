// What a policy kept, made visible.

#include "cli/explain.h"

#include <algorithm>
#include <string>

#include "cli/terminal.h"

namespace quire::cli {
namespace {

// Five shades; the first is "in no lane".
constexpr int kShades = 5;
const char* const kColour[kShades] = {"\x1b[38;5;242m", "\x1b[38;5;253;48;5;236m",
                                      "\x1b[38;5;253;48;5;22m", "\x1b[38;5;231;48;5;28m",
                                      "\x1b[38;5;16;48;5;40m"};
const char* const kOpen[kShades] = {"", "{1 ", "{2 ", "{3 ", "{4 "};
const char* const kMeaning[kShades] = {"dropped everywhere", "up to a quarter", "up to half",
                                       "up to three quarters", "more"};

int shade_of(double share) {
  if (share <= 0) return 0;
  return std::clamp(1 + static_cast<int>((share - 1e-9) * 4), 1, kShades - 1);
}

void print_legend(std::FILE* out, bool colour) {
  std::fputs("share of lanes that keep a token: ", out);
  for (int shade = 0; shade < kShades; ++shade) {
    const char* const separator = shade + 1 < kShades ? ", " : "\n\n";
    if (colour) {
      std::fprintf(out, "%s%s\x1b[0m%s", kColour[shade], kMeaning[shade], separator);
    } else if (shade == 0) {
      std::fprintf(out, "bare = %s%s", kMeaning[shade], separator);
    } else {
      std::fprintf(out, "%stext} = %s%s", kOpen[shade], kMeaning[shade], separator);
    }
  }
}

void print_run(std::FILE* out, const std::string& text, int shade, bool colour) {
  if (!colour) {
    std::fprintf(out, "%s%s%s", kOpen[shade], text.c_str(), shade == 0 ? "" : "}");
    return;
  }
  // A background must not run on to the end of the terminal's line.
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::fprintf(out, "%s%s\x1b[0m", kColour[shade], text.substr(begin, end - begin).c_str());
    if (end < text.size()) std::fputc('\n', out);
    begin = end + 1;
  }
}

}  // namespace

Result<std::vector<double>> survival(const Cache& cache, SequenceId sequence, std::uint32_t count,
                                     std::optional<std::uint32_t> layer) {
  const std::vector<LayerShape>& layers = cache.options().layers;
  if (layer && (*layer >= layers.size() || layers[*layer].window != 0)) {
    return Status(Code::kInvalidArgument,
                  "explain: layer " + std::to_string(*layer) + " is not one of the " +
                      std::to_string(layers.size()) + " layers, or has a window");
  }
  std::vector<double> share(count, 0);
  std::uint32_t lanes = 0;
  for (std::uint32_t l = 0; l < layers.size(); ++l) {
    if (layers[l].window != 0 || (layer && l != *layer)) continue;
    for (std::uint32_t head = 0; head < layers[l].kv_heads; ++head, ++lanes) {
      const Result<std::vector<Position>> live = cache.positions(sequence, l, head);
      if (!live.ok()) return live.status();
      for (Position position : *live) {
        if (position < count) share[position] += 1;
      }
    }
  }
  for (double& s : share) s /= std::max(lanes, 1u);
  return share;
}

void print_survival(std::FILE* out, const model::Model& model,
                    const std::vector<model::Token>& tokens, const std::vector<double>& share,
                    bool colour) {
  print_legend(out, colour);
  std::string run;
  int shade = 0;
  for (std::size_t i = 0; i < tokens.size() && i < share.size(); ++i) {
    const std::string piece = model.piece(tokens[i], true);
    // A token that continues a letter stays with the letter's first token.
    const bool continues = !piece.empty() && (static_cast<unsigned char>(piece[0]) & 0xC0) == 0x80;
    if (const int next = shade_of(share[i]); next != shade && !continues) {
      if (!run.empty()) print_run(out, run, shade, colour);
      run.clear();
      shade = next;
    }
    run += piece;
  }
  if (!run.empty()) print_run(out, run, shade, colour);
  std::fputc('\n', out);

  const auto kept = [&](double least) {
    return static_cast<unsigned long long>(
        std::ranges::count_if(share, [&](double s) { return s > least; }));
  };
  std::fprintf(out, "\n%s tokens: %s survive in some lane, %s in most, %s in none\n",
               grouped(share.size()).c_str(), grouped(kept(0)).c_str(), grouped(kept(0.5)).c_str(),
               grouped(share.size() - kept(0)).c_str());
}

}  // namespace quire::cli
