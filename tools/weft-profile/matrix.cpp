#include "matrix.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace weft::profile {
namespace {

constexpr std::size_t kMostSquares = 128;  // in a row
constexpr double kSide = 640, kLeft = 70, kTop = 60;

std::string in_units(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, kUnits[unit]);
}

// Returns a colour from light to dark for a share from 0 to 1.
std::string colour(double share) {
  const auto mix = [share](int light, int dark) {
    return static_cast<int>(light + (dark - light) * share + 0.5);
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(222, 8), mix(235, 48), mix(247, 107));
}

// Escapes a program's name, which may have any byte in it.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c == '<' || c == '>' || c == '&')
      out += fmt::format("&#{};", int{c});
    else
      out += static_cast<unsigned char>(c) < ' ' ? '?' : c;
  return out;
}

}  // namespace

std::string picture(const Matrix& matrix, std::string_view title) {
  const std::size_t ranks_a_square =
      std::max<std::size_t>(1, (matrix.size + kMostSquares - 1) / kMostSquares);
  const std::size_t squares =
      std::max<std::size_t>(1, (matrix.size + ranks_a_square - 1) / ranks_a_square);
  std::vector<double> bytes(squares * squares), messages(squares * squares);
  double all_bytes = 0, all_messages = 0;
  for (const Matrix::Cell& cell : matrix.cells) {
    if (cell.from >= matrix.size || cell.to >= matrix.size) continue;
    const std::size_t at = cell.from / ranks_a_square * squares + cell.to / ranks_a_square;
    bytes[at] += static_cast<double>(cell.bytes);
    messages[at] += static_cast<double>(cell.messages);
    all_bytes += static_cast<double>(cell.bytes);
    all_messages += static_cast<double>(cell.messages);
  }
  const double most = *std::ranges::max_element(bytes);
  const double step = kSide / static_cast<double>(squares);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n"
      "<text x=\"{2}\" y=\"24\" font-size=\"16\">{3}: {4:.0f} messages, {5}</text>\n"
      "<text x=\"{2}\" y=\"48\">to rank</text>\n"
      "<text x=\"14\" y=\"{6}\" transform=\"rotate(-90 14 {6})\">from rank</text>\n",
      kLeft + kSide + 150, kTop + kSide + 30, kLeft, escaped(title), all_messages,
      in_units(all_bytes), kTop + kSide / 2 + 30);
  svg += fmt::format(
      "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#999\"/>\n", kLeft,
      kTop, kSide, kSide);
  for (std::size_t from = 0; from < squares; ++from)
    for (std::size_t to = 0; to < squares; ++to) {
      const std::size_t at = from * squares + to;
      if (messages[at] == 0) continue;
      const double share = most > 1 ? std::log1p(bytes[at]) / std::log1p(most) : 1;
      const auto name = [&](std::size_t square) {
        const std::size_t first = square * ranks_a_square;
        const std::size_t last = std::min(first + ranks_a_square, matrix.size) - 1;
        return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
      };
      svg += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
          "fill=\"{}\"><title>{} "
          "to {}: {:.0f} messages, {}</title></rect>\n",
          kLeft + static_cast<double>(to) * step, kTop + static_cast<double>(from) * step, step,
          step, colour(share), name(from), name(to), messages[at], in_units(bytes[at]));
    }
  // Name about eight ranks on each side.
  const std::size_t every = std::max<std::size_t>(1, squares / 8);
  for (std::size_t i = 0; i < squares; i += every) {
    const double middle = (static_cast<double>(i) + 0.5) * step;
    const std::size_t rank = i * ranks_a_square;
    svg += fmt::format(
        "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n"
        "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        kLeft + middle, kTop + kSide + 18, rank, kLeft - 6, kTop + middle + 4, rank);
  }
  constexpr int kShades = 6;
  for (int i = 0; i <= kShades; ++i) {
    const double share = 1 - static_cast<double>(i) / kShades;
    svg += fmt::format(
        "<rect x=\"{0}\" y=\"{1}\" width=\"20\" height=\"20\" fill=\"{2}\"/>"
        "<text x=\"{3}\" y=\"{4}\">{5}</text>\n",
        kLeft + kSide + 20, kTop + i * 20, colour(share), kLeft + kSide + 48, kTop + i * 20 + 15,
        in_units(std::expm1(share * std::log1p(most))));
  }
  return svg + "</svg>\n";
}

}  // namespace weft::profile
