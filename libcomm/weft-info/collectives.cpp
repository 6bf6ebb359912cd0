#include "weft-info/collectives.hpp"

#include <fmt/core.h>
#include <stdio.h>

#include <charconv>
#include <set>
#include <string_view>

#include "coll/selection.hpp"

namespace weft {
namespace {

using coll::Algorithm;
using coll::Collective;

std::string limit(std::size_t value, std::size_t any) {
  return value == any ? "any" : fmt::format("{}", value);
}

bool read_count(const char* text, int& count) {
  if (text == nullptr) return false;
  const std::string_view word = text;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), count);
  return error == std::errc{} && end == word.data() + word.size() && count > 0 &&
         count < coll::kAnySize;
}

// Where the table may change its mind.
std::set<std::size_t> boundaries(Collective collective) {
  std::set<std::size_t> found;
  for (const coll::Rule& rule : coll::rules())
    if (rule.collective == collective) found.insert(rule.max_bytes);
  return found;
}

std::string chosen_text(Collective collective, coll::Situation situation,
                        const coll::Choices& choices) {
  std::string text;
  Algorithm shown[2] = {Algorithm::automatic, Algorithm::automatic};
  std::string line;
  for (const std::size_t bytes : boundaries(collective)) {
    situation.bytes = bytes;
    Algorithm chosen[2];  // for operations that commute, and others
    for (const bool commutes : {true, false}) {
      situation.commutative = commutes;
      chosen[commutes ? 0 : 1] = coll::choose(collective, situation, choices);
    }
    if (chosen[0] != shown[0] || chosen[1] != shown[1]) text += line;
    shown[0] = chosen[0];
    shown[1] = chosen[1];
    line = fmt::format("  {:16} {:>11}  {:20} {}\n", coll::name(collective),
                       limit(bytes, coll::kAnyBytes), coll::name(chosen[0]),
                       chosen[0] == chosen[1] ? "" : coll::name(chosen[1]));
  }
  return text + line;
}

}  // namespace

std::string collectives_text() {
  std::string text =
      "the first rule that applies is taken; WEFT_COLL_ALGORITHMS overrides\n"
      "  collective       up to processes  up to bytes  algorithm            only\n";
  for (const coll::Rule& rule : coll::rules()) {
    std::string only = rule.where == coll::Where::one_host       ? "one host "
                       : rule.where == coll::Where::shared_hosts ? "hosts that members share "
                                                                 : "";
    only += rule.commutative_only ? "commutative " : "";
    only += rule.powers_of_two ? "powers of two" : "";
    text += fmt::format("  {:16} {:>15}  {:>11}  {:20} {}\n", coll::name(rule.collective),
                        limit(static_cast<std::size_t>(rule.max_size), coll::kAnySize),
                        limit(rule.max_bytes, coll::kAnyBytes), coll::name(rule.algorithm), only);
  }
  return text;
}

int print_collectives(const Settings& settings, const char* processes, const char* hosts) {
  int num_processes = 0, num_hosts = 0;
  if (!read_count(processes, num_processes) || !read_count(hosts, num_hosts) ||
      num_hosts > num_processes) {
    fprintf(stderr,
            "weft-info: --collectives takes a number of processes and of their hosts, as in "
            "--collectives 64 4\n");
    return 2;
  }
  coll::Situation situation;
  situation.size = num_processes;
  situation.is_local = num_hosts == 1;
  situation.shared_hosts = num_hosts > 1 && num_hosts < num_processes;
  const coll::Choices choices = coll::Choices::from(settings);
  fmt::print(
      "{} processes on {} host{}; bytes of a reduction's vector, or of one block; "
      "WEFT_COLL_ALGORITHMS overrides\n"
      "  collective       up to bytes  algorithm            where an operation does not commute\n",
      num_processes, num_hosts, num_hosts == 1 ? "" : "s");
  for (std::size_t i = 0; i < coll::kNumCollectives; ++i)
    fputs(chosen_text(static_cast<Collective>(i), situation, choices).c_str(), stdout);
  return 0;
}

}  // namespace weft
