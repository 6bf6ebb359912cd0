#include "mcast/group/job_ranks.hpp"

#include <fmt/core.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <set>

#include "mcast/group/addresses.hpp"

namespace weft::mcast {

namespace {

void check(const Status& status) {
  if (!status) throw Error(status);
}

// Gathers the text of every rank.
std::vector<std::string> gather(transport::Job& job, const std::string& own) {
  std::vector<char> all;
  std::vector<std::size_t> lengths;
  check(job.all_gather(std::span<const char>(own), all, lengths));
  std::vector<std::string> texts;
  std::size_t at = 0;
  for (const std::size_t length : lengths) {
    texts.emplace_back(all.data() + at, length);
    at += length;
  }
  return texts;
}

// The local addresses under which ranks of other hosts reach this one. An address that both hosts
// have, as that of a bridge to containers, leads nowhere and is skipped.
std::set<std::string> addresses_towards_others(transport::Job& job,
                                               const std::vector<std::string>& lists,
                                               const std::vector<std::string>& own) {
  std::set<std::string> found;
  for (int rank = 0; rank < job.size(); ++rank) {
    if (job.same_host(rank, job.rank())) continue;
    std::string_view list = lists[static_cast<std::size_t>(rank)];
    while (!list.empty()) {
      const std::size_t end = std::min(list.find(' '), list.size());
      const std::string address(list.substr(0, end));
      list.remove_prefix(std::min(end + 1, list.size()));
      if (std::ranges::find(own, address) != own.end()) continue;
      const std::string towards = address_towards(address);
      if (std::ranges::find(own, towards) != own.end()) found.insert(towards);
    }
  }
  return found;
}

}  // namespace

NodeSettings settings_of(transport::Job& job, NodeSettings settings) {
  if (settings.name.empty()) settings.name = fmt::format("rank {}", job.rank());
  std::array<unsigned char, 32> random{};
  if (::sodium_init() < 0) throw Error({Code::unsupported, "libsodium does not start"});
  if (job.rank() == 0) ::randombytes_buf(random.data(), random.size());
  std::vector<std::array<unsigned char, 32>> all;
  check(job.all_gather(random, all));
  if (!settings.secret.empty()) return settings;
  char text[2 * random.size() + 1];
  settings.secret = ::sodium_bin2hex(text, sizeof text, all[0].data(), all[0].size());
  return settings;
}

std::vector<JobRank> meet(transport::Job& job, Node& node) {
  const std::vector<std::string> own = own_addresses();
  std::string list;
  for (const std::string& address : own) list += address + ' ';
  const std::vector<std::string> lists = gather(job, list);
  // A failure is reported after the last collective call, so that no rank waits for this one.
  Status status;
  for (const std::string& address : addresses_towards_others(job, lists, own))
    if (status) status = node.listen(address + ":0");
  std::string address;
  if (status) status = node.address(address);
  const std::vector<std::string> addresses = gather(job, status ? address : std::string());
  check(status);
  std::vector<JobRank> ranks;
  for (int rank = 0; rank < job.size(); ++rank) {
    const std::string& text = addresses[static_cast<std::size_t>(rank)];
    if (text.empty())
      throw Error({Code::not_found,
                   fmt::format("{} has no address that other ranks reach", job.describe(rank))});
    int host = rank;
    for (int other = 0; other < rank && host == rank; ++other)
      if (job.same_host(other, rank)) host = other;
    ranks.push_back({text, job.describe(rank), host});
  }
  return ranks;
}

}  // namespace weft::mcast
