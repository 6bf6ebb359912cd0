#pragma once
// Description: what a text file says of a device, a fact a line. README.md has the words.
#include <infiniband/verbs.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::devices {

// An entry of the port's table. link_local and ipv4 stand for the real port's own.
struct Gid {
  enum class Of : std::uint8_t { link_local, ipv4, literal } of = Of::literal;
  ibv_gid literal{};
  std::uint32_t type = IBV_GID_TYPE_ROCE_V2;
};

// Of the calls after the first `skipped`, so many fail; fewer than 0: all.
struct Failure {
  int error = 0, skipped = 0, count = -1;
};

struct Description {
  std::string name;  // empty: the real one's
  // By the names that the verbs' structures have. They lower what the real device has.
  std::map<std::string, std::int64_t> limits;
  std::map<std::string, Failure> failures;  // by call
  std::map<std::string, int> delays_ms;     // by call
  std::vector<Gid> gids;                    // empty: the real ones
  // Port states, each from so many ms after the description begins.
  std::vector<std::pair<int, ibv_port_state>> port_states;
  std::map<int, ibv_wc_status> completions;  // of sends: the how manieth ends with which status
  int transport = -1, link_layer = -1, atomics = -1;  // the verbs' numbers; -1: the real ones
  bool cuts_inline = false;     // a queue pair with more inline data gets less, without an error
  bool loses_confirms = false;  // rdma_establish() does nothing
  bool reorders = false;        // completions of different queues
  int vanishes_after = -1;      // posts; -1: never
  int holds_posts = 0;          // so many of a queue pair stay until it has another

  std::int64_t limit(const std::string& of, std::int64_t real) const;
};

// Throws std::runtime_error with the line that makes no sense.
Description parse(std::string_view text);
Description load(const std::string& path);

}  // namespace weft::devices
