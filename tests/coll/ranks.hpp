#pragma once
// Ranks as threads of this process, for tests of collectives.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "coll/coll.hpp"

namespace weft::test {

struct NameValue {
  std::string_view name;
  std::string_view value;
};

// Runs `body` once per rank, each in its own thread with its own engine and a team of all ranks.
// Returns what went wrong, one line each; empty if all is well. `body` returns the same.
std::vector<std::string> run_ranks(
    int n, const std::vector<NameValue>& settings,
    const std::function<std::vector<std::string>(coll::Team&)>& body);

// The same with a rank for each entry of `hosts`, which share memory where these are equal.
std::vector<std::string> run_ranks_on(
    const std::vector<int>& hosts, const std::vector<NameValue>& settings,
    const std::function<std::vector<std::string>(coll::Team&)>& body);

}  // namespace weft::test
