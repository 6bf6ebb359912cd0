#include "table_text.hpp"

#include <algorithm>
#include <array>

#include "text.hpp"
#include "weft/graph/names.hpp"

namespace weft::graph {

void Fields::pass_blanks() {
  while (at_ < line_.size() && line_[at_] != separator_ && text::is_blank(line_[at_])) ++at_;
}

std::string_view Fields::quoted() {
  const std::size_t begin = ++at_;
  bool has_escapes = false;
  for (; at_ < line_.size(); ++at_) {
    if (line_[at_] != '"') continue;
    if (at_ + 1 == line_.size() || line_[at_ + 1] != '"') break;
    has_escapes = true;
    ++at_;
  }
  is_wrong_ = at_ >= line_.size();
  if (is_wrong_) return {};
  const std::string_view raw = line_.substr(begin, at_++ - begin);
  if (!has_escapes) return raw;
  std::string& text = unescaped_.emplace_back();
  for (std::size_t i = 0; i < raw.size(); ++i) {
    text += raw[i];
    if (raw[i] == '"') ++i;
  }
  return text;
}

bool Fields::next(std::string_view& field) {
  if (is_wrong_) return false;
  pass_blanks();
  // Behind a separator there is a field, which may be empty.
  if (at_ == line_.size() && !is_behind_separator_) return false;
  is_behind_separator_ = false;
  was_quoted_ = at_ < line_.size() && line_[at_] == '"';
  if (was_quoted_) {
    field = quoted();
  } else {
    const std::size_t begin = at_;
    while (at_ < line_.size() && (separator_ == 0 ? line_[at_] != ',' && !text::is_blank(line_[at_])
                                                  : line_[at_] != separator_))
      ++at_;
    field = line_.substr(begin, at_ - begin);
    while (!field.empty() && text::is_blank(field.back())) field.remove_suffix(1);
  }
  pass_blanks();
  if (is_wrong_ || at_ == line_.size()) return !is_wrong_;
  if (line_[at_] == (separator_ == 0 ? ',' : separator_)) {
    ++at_;
    is_behind_separator_ = separator_ != 0;
  } else if (separator_ != 0) {
    is_wrong_ = true;  // behind a quote
  }
  return !is_wrong_;
}

std::vector<std::string> fields_of(std::string_view line, char separator) {
  std::vector<std::string> all;
  Fields fields(line, separator);
  for (std::string_view field; fields.next(field);) all.emplace_back(field);
  return all;
}

char separator_of(std::string_view line) {
  constexpr std::string_view kSeparators = ",;|\t";
  std::array<std::size_t, kSeparators.size()> counts{};
  bool in_quotes = false;
  for (const char c : line) {
    if (c == '"') in_quotes = !in_quotes;
    const std::size_t which = kSeparators.find(c);
    if (!in_quotes && which != std::string_view::npos) ++counts[which];
  }
  const auto most = std::max_element(counts.begin(), counts.end());
  return *most == 0 ? '\0' : kSeparators[static_cast<std::size_t>(most - counts.begin())];
}

Status parse_table_line(std::string_view line, const TextRules& rules, VertexNames* names,
                        EdgeStore& edges) {
  const bool weighted = rules.weighted && edges.weighted();
  const unsigned last = std::max({rules.source, rules.destination, weighted ? rules.weight : 0u});
  Fields fields(line, rules.separator);
  std::string_view ends[2], weight_text;
  unsigned count = 0;
  for (std::string_view field; count <= last && fields.next(field); ++count) {
    if (count == rules.source) ends[0] = field;
    if (count == rules.destination) ends[1] = field;
    if (count == rules.weight) weight_text = field;
  }
  if (fields.is_wrong()) return text::wrong("a quote without its other one", line);
  if (std::string_view more; rules.columns == 2 && edges.weighted() && fields.next(more))
    return text::wrong(
        "more than two columns, where the first edge has no weight (--weights none passes over it)",
        line);
  const bool lacks_weight = weighted && count == last && last == rules.weight;
  if (count <= last && !(lacks_weight && !rules.needs_weights))
    return text::wrong(
        std::to_string(count) + " columns, where " + std::to_string(last + 1) + " are needed",
        line);
  VertexId vertices[2];
  for (int i = 0; i < 2; ++i) {
    if (names != nullptr) {
      if (ends[i].empty()) return text::wrong("a vertex without a name", line);
      vertices[i] = names->add(ends[i]);
      if (vertices[i] == kNoVertex) return text::wrong("more names than vertex ids", line);
      continue;
    }
    std::uint64_t number = 0;
    if (!text::to_whole(ends[i], number) || number >= kNoVertex)
      return text::wrong(not_an_id(), line);
    vertices[i] = static_cast<VertexId>(number);
  }
  Weight weight = rules.weight_form.one();
  if (weighted && !lacks_weight) {
    text::Cursor cursor = text::cursor_of(weight_text);
    if (const Status status = parse_weight(cursor, line, rules.weight_form, weight); !status.ok())
      return status;
    if (!cursor.is_at_end()) return text::wrong("expected a number as the weight", line);
  }
  edges.add(vertices[0], vertices[1], weight);
  return Code::ok;
}

}  // namespace weft::graph
