#include "weft/graph/names.hpp"

#include <functional>

namespace weft::graph {

std::size_t VertexNames::place_of(std::string_view name) const noexcept {
  const std::size_t mask = places_.size() - 1;
  std::size_t place = std::hash<std::string_view>()(name) & mask;
  while (places_[place] != kNoVertex && this->name(places_[place]) != name)
    place = (place + 1) & mask;
  return place;
}

VertexId VertexNames::find(std::string_view name) const noexcept {
  return places_.empty() ? kNoVertex : places_[place_of(name)];
}

VertexId VertexNames::add(std::string_view name) {
  if (places_.size() / 2 <= ends_.size()) grow();
  VertexId& vertex = places_[place_of(name)];
  if (vertex != kNoVertex || ends_.size() >= kNoVertex - std::uint64_t{1}) return vertex;
  vertex = size();
  text_ += name;
  ends_.push_back(text_.size());
  return vertex;
}

void VertexNames::grow() {
  places_.assign(places_.empty() ? 1024 : 2 * places_.size(), kNoVertex);
  for (VertexId v = 0; v < size(); ++v) places_[place_of(name(v))] = v;
}

}  // namespace weft::graph
