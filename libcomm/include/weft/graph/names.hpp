#pragma once
// VertexNames: the names of vertices that are no numbers from 0 on, and which vertex each is.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/graph/types.hpp"

namespace weft::graph {

// One thread changes it, or any read it.
class VertexNames {
 public:
  VertexId size() const noexcept { return static_cast<VertexId>(ends_.size()); }
  // Valid until the next add().
  std::string_view name(VertexId vertex) const noexcept {
    const std::uint64_t begin = vertex == 0 ? 0 : ends_[vertex - 1];
    return {text_.data() + begin, ends_[vertex] - begin};
  }
  // kNoVertex if there is none of this name.
  VertexId find(std::string_view name) const noexcept;
  // The vertex of this name, which is the next number if there was none; kNoVertex if all are
  // given.
  VertexId add(std::string_view name);

 private:
  std::size_t place_of(std::string_view name) const noexcept;
  void grow();

  std::string text_;                 // all names, one behind the other
  std::vector<std::uint64_t> ends_;  // by vertex, of its name
  std::vector<VertexId> places_;     // a hash table; kNoVertex: empty
};

}  // namespace weft::graph
