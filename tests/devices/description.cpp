#include "tests/devices/description.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace weft::devices {
namespace {

constexpr const char* kLimits[] = {"max_qp",          "max_qp_wr",
                                   "max_sge",         "max_cq",
                                   "max_cqe",         "max_mr",
                                   "max_mr_size",     "max_qp_rd_atom",
                                   "max_res_rd_atom", "max_srq",
                                   "max_srq_wr",      "max_srq_sge",
                                   "phys_port_cnt",   "local_ca_ack_delay",
                                   "max_inline_data", "max_msg_sz",
                                   "max_mtu",         "active_mtu",
                                   "first_cqe",       "max_qp_init_rd_atom"};

using Words = std::map<std::string, int>;
const Words kErrors = {{"EINVAL", EINVAL}, {"ENOMEM", ENOMEM},         {"EAGAIN", EAGAIN},
                       {"EIO", EIO},       {"EOPNOTSUPP", EOPNOTSUPP}, {"ENOSYS", ENOSYS},
                       {"EPERM", EPERM},   {"EFAULT", EFAULT},         {"ENOSPC", ENOSPC}};
const Words kStates = {{"down", IBV_PORT_DOWN},
                       {"init", IBV_PORT_INIT},
                       {"armed", IBV_PORT_ARMED},
                       {"active", IBV_PORT_ACTIVE}};
const Words kStatuses = {{"LOC_PROT_ERR", IBV_WC_LOC_PROT_ERR},
                         {"REM_ACCESS_ERR", IBV_WC_REM_ACCESS_ERR},
                         {"REM_OP_ERR", IBV_WC_REM_OP_ERR},
                         {"RETRY_EXC_ERR", IBV_WC_RETRY_EXC_ERR},
                         {"RNR_RETRY_EXC_ERR", IBV_WC_RNR_RETRY_EXC_ERR},
                         {"FATAL_ERR", IBV_WC_FATAL_ERR},
                         {"GENERAL_ERR", IBV_WC_GENERAL_ERR}};
const Words kTransports = {{"ib", IBV_TRANSPORT_IB},
                           {"iwarp", IBV_TRANSPORT_IWARP},
                           {"unspecified", IBV_TRANSPORT_UNSPECIFIED}};
const Words kLayers = {{"ethernet", IBV_LINK_LAYER_ETHERNET},
                       {"infiniband", IBV_LINK_LAYER_INFINIBAND}};
const Words kAtomics = {
    {"none", IBV_ATOMIC_NONE}, {"hca", IBV_ATOMIC_HCA}, {"glob", IBV_ATOMIC_GLOB}};
const Words kGidTypes = {
    {"ib", IBV_GID_TYPE_IB}, {"v1", IBV_GID_TYPE_ROCE_V1}, {"v2", IBV_GID_TYPE_ROCE_V2}};

class Line {
 public:
  explicit Line(const std::string& text) : text_(text), words_(text) {}
  bool has_more() { return (words_ >> std::ws).peek() != std::istringstream::traits_type::eof(); }
  std::string word() {
    std::string word;
    if (!(words_ >> word)) fail("a word is missing");
    return word;
  }
  int of(const Words& words) {
    const auto found = words.find(word());
    if (found == words.end()) fail("an unknown word");
    return found->second;
  }
  std::int64_t number() {
    const std::string text = word();
    std::size_t used = 0;
    std::int64_t value = 0;
    try {
      value = std::stoll(text, &used, 0);
    } catch (const std::exception&) {
      fail("no number");
    }
    if (used != text.size() || value < 0) fail("no number");
    return value;
  }
  int count() { return static_cast<int>(std::min<std::int64_t>(number(), INT32_MAX)); }
  [[noreturn]] void fail(const char* why) const {
    throw std::runtime_error("a device's description: '" + text_ + "': " + why);
  }

 private:
  const std::string& text_;
  std::istringstream words_;
};

// "v2:ipv4", "v1:fe80::1", "v2:192.0.2.7", and "v2:300" for so many of the documentation's prefix.
void add_gids(Line& line, std::vector<Gid>& gids) {
  const std::string word = line.word();
  const std::size_t colon = word.find(':');
  const auto type = kGidTypes.find(word.substr(0, colon));
  if (colon == std::string::npos || type == kGidTypes.end()) line.fail("no GID");
  const std::string address = word.substr(colon + 1);
  Gid gid;
  gid.type = static_cast<std::uint32_t>(type->second);
  if (address == "link_local") {
    gid.of = Gid::Of::link_local;
  } else if (address == "ipv4") {
    gid.of = Gid::Of::ipv4;
  } else if (address.find_first_not_of("0123456789") == std::string::npos) {
    for (int i = 1; i <= std::stoi(address); ++i) {
      inet_pton(AF_INET6, ("2001:db8::" + std::to_string(i)).c_str(), gid.literal.raw);
      gids.push_back(gid);
    }
    return;
  } else if (inet_pton(AF_INET, address.c_str(), gid.literal.raw + 12) == 1) {
    gid.literal.raw[10] = gid.literal.raw[11] = 0xff;
  } else if (inet_pton(AF_INET6, address.c_str(), gid.literal.raw) != 1) {
    line.fail("no address");
  }
  gids.push_back(gid);
}

void read_line(Line& line, Description& made) {
  const std::string word = line.word();
  if (std::ranges::find(kLimits, word) != std::end(kLimits)) {
    made.limits[word] = line.number();
  } else if (word == "source" || word == "refused" || word == "except") {
    line.word();  // of the reader and the tests
  } else if (word == "name") {
    made.name = line.word();
  } else if (word == "transport") {
    made.transport = line.of(kTransports);
  } else if (word == "link_layer") {
    made.link_layer = line.of(kLayers);
  } else if (word == "atomic_cap") {
    made.atomics = line.of(kAtomics);
  } else if (word == "gids") {
    while (line.has_more()) add_gids(line, made.gids);
  } else if (word == "port_state") {
    for (int from_ms = 0;; from_ms = line.count()) {
      made.port_states.emplace_back(from_ms, static_cast<ibv_port_state>(line.of(kStates)));
      if (!line.has_more()) break;
    }
  } else if (word == "fails") {
    Failure& failure = made.failures[line.word()];
    failure.error = line.of(kErrors);
    if (line.has_more()) failure.skipped = line.count();
    if (line.has_more()) failure.count = line.count();
  } else if (word == "takes_ms") {
    const std::string call = line.word();
    made.delays_ms[call] = line.count();
  } else if (word == "completion") {
    const int number = line.count();
    made.completions[number] = static_cast<ibv_wc_status>(line.of(kStatuses));
  } else if (word == "cuts_inline") {
    made.cuts_inline = true;
  } else if (word == "loses_confirms") {
    made.loses_confirms = true;
  } else if (word == "reorders") {
    made.reorders = true;
  } else if (word == "vanishes_after") {
    made.vanishes_after = line.count();
  } else if (word == "holds_posts") {
    made.holds_posts = line.count();
  } else {
    line.fail("an unknown word");
  }
  if (word != "source" && word != "refused" && word != "except" && line.has_more())
    line.fail("a word too many");
}

}  // namespace

std::int64_t Description::limit(const std::string& of, std::int64_t real) const {
  const auto found = limits.find(of);
  return found == limits.end() ? real : std::min(real, found->second);
}

Description parse(std::string_view text) {
  Description made;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    line.resize(std::min(line.size(), line.find('#')));
    Line words(line);
    if (words.has_more()) read_line(words, made);
  }
  return made;
}

Description load(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": " + std::strerror(errno));
  return parse(std::string(std::istreambuf_iterator<char>(file), {}));
}

}  // namespace weft::devices
