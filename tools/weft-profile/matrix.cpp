#include "matrix.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace weft::profile {
namespace {

constexpr std::size_t kMostSquares = 128;  // in a row
constexpr double kSide = 640, kLeft = 70, kTop = 60, kWidth = kLeft + kSide + 150;
constexpr double kLeastSeconds = 1e-3;  // the lightest colours

std::string in_units(double value, Panel::Unit unit) {
  constexpr const char* kBytes[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  constexpr const char* kSeconds[] = {"us", "ms", "s"};
  std::size_t at = 0;
  if (unit == Panel::Unit::seconds) {
    for (value *= 1e6; value >= 1000 && at + 1 < std::size(kSeconds); ++at) value /= 1000;
    return fmt::format("{:.1f} {}", value, kSeconds[at]);
  }
  for (; value >= 1024 && at + 1 < std::size(kBytes); ++at) value /= 1024;
  return fmt::format("{:.{}f} {}", value, at == 0 ? 0 : 1, kBytes[at]);
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

// The squares of a panel: each stands for the same number of ranks.
class Squares {
 public:
  Squares(const Panel& panel, std::size_t num_ranks)
      : panel_(panel),
        num_ranks_(num_ranks),
        ranks_a_square_(std::max<std::size_t>(1, (num_ranks + kMostSquares - 1) / kMostSquares)),
        num_(std::max<std::size_t>(1, (num_ranks + ranks_a_square_ - 1) / ranks_a_square_)),
        values_(num_ * num_),
        messages_(num_ * num_) {
    for (const Panel::Cell& cell : panel.cells) {
      if (cell.row >= num_ranks || cell.column >= num_ranks) continue;
      const std::size_t at = cell.row / ranks_a_square_ * num_ + cell.column / ranks_a_square_;
      values_[at] += cell.value;
      messages_[at] += static_cast<double>(cell.messages);
    }
    most_ = *std::ranges::max_element(values_);
  }
  std::string draw() const { return frame() + squares() + ranks() + shades(); }

 private:
  double unit() const { return panel_.unit == Panel::Unit::seconds ? kLeastSeconds : 1; }
  double step() const { return kSide / static_cast<double>(num_); }
  double share(double value) const {
    return most_ > 0 ? std::log1p(value / unit()) / std::log1p(most_ / unit()) : 1;
  }
  std::string name(std::size_t square) const {
    const std::size_t first = square * ranks_a_square_;
    const std::size_t last = std::min(first + ranks_a_square_, num_ranks_) - 1;
    return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
  }
  std::string frame() const {
    return fmt::format(
        "<text x=\"{0}\" y=\"24\" font-size=\"16\">{1}</text>\n"
        "<text x=\"{0}\" y=\"48\">{2}</text>\n"
        "<text x=\"14\" y=\"{3}\" transform=\"rotate(-90 14 {3})\">{4}</text>\n"
        "<rect x=\"{0}\" y=\"{5}\" width=\"{6}\" height=\"{6}\" fill=\"none\" "
        "stroke=\"#999\"/>\n",
        kLeft, escaped(panel_.title), panel_.column_axis, kTop + kSide / 2 + 30, panel_.row_axis,
        kTop, kSide);
  }
  std::string squares() const {
    std::string svg;
    for (std::size_t row = 0; row < num_; ++row)
      for (std::size_t column = 0; column < num_; ++column) {
        const std::size_t at = row * num_ + column;
        if (messages_[at] == 0 && values_[at] == 0) continue;
        const std::string value = in_units(values_[at], panel_.unit);
        const std::string text = panel_.unit == Panel::Unit::seconds
                                     ? fmt::format("{} for {}: {}", name(row), name(column), value)
                                     : fmt::format("{} to {}: {:.0f} messages, {}", name(row),
                                                   name(column), messages_[at], value);
        svg += fmt::format(
            "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
            "fill=\"{}\"><title>{}</title></rect>\n",
            kLeft + static_cast<double>(column) * step(), kTop + static_cast<double>(row) * step(),
            step(), step(), colour(share(values_[at])), text);
      }
    return svg;
  }
  // Names about eight ranks on each side.
  std::string ranks() const {
    std::string svg;
    const std::size_t every = std::max<std::size_t>(1, num_ / 8);
    for (std::size_t i = 0; i < num_; i += every) {
      const double middle = (static_cast<double>(i) + 0.5) * step();
      const std::size_t rank = i * ranks_a_square_;
      svg += fmt::format(
          "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n"
          "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
          kLeft + middle, kTop + kSide + 18, rank, kLeft - 6, kTop + middle + 4, rank);
    }
    return svg;
  }
  std::string shades() const {
    constexpr int kShades = 6;
    std::string svg;
    for (int i = 0; i <= kShades; ++i) {
      const double part = 1 - static_cast<double>(i) / kShades;
      svg += fmt::format(
          "<rect x=\"{0}\" y=\"{1}\" width=\"20\" height=\"20\" fill=\"{2}\"/>"
          "<text x=\"{3}\" y=\"{4}\">{5}</text>\n",
          kLeft + kSide + 20, kTop + i * 20, colour(part), kLeft + kSide + 48, kTop + i * 20 + 15,
          in_units(unit() * std::expm1(part * std::log1p(most_ / unit())), panel_.unit));
    }
    return svg;
  }

  const Panel& panel_;
  std::size_t num_ranks_, ranks_a_square_;
  std::size_t num_;  // in a row
  std::vector<double> values_, messages_;
  double most_ = 0;
};

}  // namespace

Panel panel_of(const Matrix& matrix, std::string_view title) {
  Panel panel;
  panel.row_axis = "from rank";
  panel.column_axis = "to rank";
  double bytes = 0, messages = 0;
  for (const Matrix::Cell& cell : matrix.cells) {
    const auto length = static_cast<double>(cell.bytes);
    panel.cells.push_back({cell.from, cell.to, length, cell.messages});
    bytes += length;
    messages += static_cast<double>(cell.messages);
  }
  panel.title =
      fmt::format("{}: {:.0f} messages, {}", title, messages, in_units(bytes, Panel::Unit::bytes));
  return panel;
}

std::string picture(std::span<const Panel> panels, std::size_t num_ranks) {
  const double width = kWidth * static_cast<double>(panels.size());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      width, kTop + kSide + 30);
  for (std::size_t i = 0; i < panels.size(); ++i)
    svg += fmt::format("<g transform=\"translate({} 0)\">\n{}</g>\n",
                       kWidth * static_cast<double>(i), Squares(panels[i], num_ranks).draw());
  return svg + "</svg>\n";
}

}  // namespace weft::profile
