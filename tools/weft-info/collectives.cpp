#include "tools/weft-info/collectives.hpp"

#include <fmt/core.h>

#include <set>
#include <utility>

#include "coll/select/selection.hpp"
#include "multicast/packet_stream.hpp"

namespace weft {
namespace {

using coll::Algorithm;
using coll::Collective;

std::string limit(std::size_t value, std::size_t any) {
  return value == any ? "any" : fmt::format("{}", value);
}

// The lengths at which the table's choice may change.
std::set<std::size_t> boundaries(Collective collective, const coll::Choices& choices) {
  std::set<std::size_t> found;
  for (const coll::Choice& choice : choices[collective]) {
    found.insert(choice.max_bytes);
    if (choice.algorithm == Algorithm::native) found.insert(coll::kLeastNativeBytes - 1);
  }
  for (const coll::Rule& rule : coll::rules())
    if (rule.collective == collective) found.insert(rule.max_bytes);
  return found;
}

std::string lines_of(Collective collective, coll::Situation situation,
                     const coll::Choices& choices) {
  const bool may_be_copied = situation.may_be_copied;
  const auto chosen = [&](bool commutes) {
    situation.commutative = commutes;
    return coll::choose(collective, situation, choices);
  };
  std::string text, line;
  std::pair<Algorithm, Algorithm> before;
  for (const std::size_t bytes : boundaries(collective, choices)) {
    situation.bytes = bytes;
    situation.may_be_copied = may_be_copied && bytes >= coll::kLeastNativeBytes;
    const std::pair now{chosen(true), chosen(false)};
    if (now != before) text += line;
    before = now;
    line = fmt::format("  {:16} {:>11}  {:20} {}\n", coll::name(collective),
                       limit(bytes, coll::kAnyBytes), coll::name(now.first),
                       now.first == now.second ? "" : coll::name(now.second));
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
    only += rule.commutative_only ? "commutative" : "";
    text += fmt::format("  {:16} {:>15}  {:>11}  {:20} {}\n", coll::name(rule.collective),
                        limit(static_cast<std::size_t>(rule.max_size), coll::kAnySize),
                        limit(rule.max_bytes, coll::kAnyBytes), coll::name(rule.algorithm), only);
  }
  return text;
}

Status chosen_text(const Settings& settings, int num_processes, int num_hosts, std::string& text) {
  if (num_hosts < 1 || num_hosts > num_processes || num_processes >= coll::kAnySize)
    return {Code::bad_argument,
            "--collectives takes a number of processes and of their hosts, as in --collectives 64 "
            "4"};
  coll::Situation situation;
  situation.size = num_processes;
  situation.is_local = num_hosts == 1;
  situation.shared_hosts = num_hosts > 1 && num_hosts < num_processes;
  situation.may_be_copied = num_hosts >= mcast::kLeastCopiedMembers;
  text = fmt::format(
      "{} processes on {} host{}; bytes of a reduction's vector, or of one block; "
      "WEFT_COLL_ALGORITHMS overrides\n"
      "  collective       up to bytes  algorithm            where an operation does not commute\n",
      num_processes, num_hosts, num_hosts == 1 ? "" : "s");
  const coll::Choices choices = coll::Choices::from(settings);
  for (std::size_t i = 0; i < coll::kNumCollectives; ++i)
    text += lines_of(static_cast<Collective>(i), situation, choices);
  return {};
}

}  // namespace weft
