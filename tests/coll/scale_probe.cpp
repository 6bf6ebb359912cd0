// Many ranks as threads of one process, on hosts that are theirs by name: every collective, each
// result compared. Prints how long each call took, the barrier behind it included.
//
//   coll_scale HOSTS RANKS_OF_A_HOST [CALL...]
//
// between hosts over loopback. Ranks ask each other for signs of life, which in one process is all
// their work unless the time for it is long.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "ranks.hpp"

namespace {

using namespace weft;
using namespace weft::test;
using Clock = std::chrono::steady_clock;
using Words = std::vector<std::uint64_t>;

std::uint64_t word(int from, int to, std::size_t i) {
  return (static_cast<std::uint64_t>(from) << 40 | static_cast<std::uint64_t>(to) << 20 | i) *
         0x9E3779B97F4A7C15;
}

void sum(const void* first, void* second, std::size_t count, void*) {
  for (std::size_t i = 0; i < count; ++i)
    static_cast<std::uint64_t*>(second)[i] += static_cast<const std::uint64_t*>(first)[i];
}

const coll::Reduction kSum{sum, nullptr, sizeof(std::uint64_t), true};

// What the ranks from 0 up to before `end` add up to, if each has (rank + 1) * (i + 1).
std::uint64_t total(int end, std::size_t i) {
  const auto n = static_cast<std::uint64_t>(end);
  return n * (n + 1) / 2 * (i + 1);
}

// A call among all ranks: whether this one's result is right.
struct Call {
  const char* name;
  std::size_t words;  // of a vector or block
  bool (*make)(coll::Team& team, std::size_t words);
};

int root_of(const coll::Team& team) { return team.size() * 2 / 3; }

Words own_vector(const coll::Team& team, std::size_t words) {
  Words vector(words);
  for (std::size_t i = 0; i < words; ++i)
    vector[i] = (static_cast<std::uint64_t>(team.rank()) + 1) * (i + 1);
  return vector;
}

bool has_total(const Words& vector, int end, std::size_t begin = 0) {
  for (std::size_t i = 0; i < vector.size(); ++i)
    if (vector[i] != total(end, begin + i)) return false;
  return true;
}

bool barrier(coll::Team& team, std::size_t) { return coll::barrier(team).ok(); }

bool bcast(coll::Team& team, std::size_t words) {
  const int root = root_of(team);
  Words data(words);
  if (team.rank() == root)
    for (std::size_t i = 0; i < words; ++i) data[i] = word(root, 0, i);
  if (!coll::bcast(team, data.data(), words * 8, root)) return false;
  for (std::size_t i = 0; i < words; ++i)
    if (data[i] != word(root, 0, i)) return false;
  return true;
}

bool reduce(coll::Team& team, std::size_t words) {
  const bool is_root = team.rank() == root_of(team);
  const Words mine = own_vector(team, words);
  Words result(is_root ? words : 0);
  return coll::reduce(team, mine.data(), result.data(), words, kSum, root_of(team)).ok() &&
         has_total(result, team.size());
}

bool allreduce(coll::Team& team, std::size_t words) {
  const Words mine = own_vector(team, words);
  Words result(words);
  return coll::allreduce(team, mine.data(), result.data(), words, kSum).ok() &&
         has_total(result, team.size());
}

bool reduce_scatter(coll::Team& team, std::size_t words) {
  const auto n = static_cast<std::size_t>(team.size()), me = static_cast<std::size_t>(team.rank());
  std::vector<std::size_t> counts(n, words / n);
  counts[0] += words % n;
  const Words mine = own_vector(team, words);
  Words result(counts[me]);
  return coll::reduce_scatter(team, mine.data(), result.data(), counts.data(), kSum).ok() &&
         has_total(result, team.size(), me == 0 ? 0 : words % n + me * (words / n));
}

bool scan(coll::Team& team, std::size_t words) {
  const Words mine = own_vector(team, words);
  Words result(words);
  return coll::scan(team, mine.data(), result.data(), words, kSum).ok() &&
         has_total(result, team.rank() + 1);
}

bool exscan(coll::Team& team, std::size_t words) {
  const Words mine = own_vector(team, words);
  Words result(words);
  return coll::exscan(team, mine.data(), result.data(), words, kSum).ok() &&
         has_total(result, team.rank());
}

// A block of (from, to), and whether it is that.
void fill(std::uint64_t* block, std::size_t words, int from, int to) {
  for (std::size_t i = 0; i < words; ++i) block[i] = word(from, to, i);
}
bool holds(const std::uint64_t* block, std::size_t words, int from, int to) {
  for (std::size_t i = 0; i < words; ++i)
    if (block[i] != word(from, to, i)) return false;
  return true;
}

// Blocks of all ranks that lie one after the other; the length of each is its rank's own.
struct Layout {
  std::vector<std::size_t> words, bytes;
  std::vector<std::ptrdiff_t> places;  // bytes
  std::size_t all = 0;

  template <class Length>
  Layout(int n, Length&& length) {
    for (int r = 0; r < n; ++r) {
      words.push_back(length(r));
      bytes.push_back(words.back() * 8);
      places.push_back(static_cast<std::ptrdiff_t>(all * 8));
      all += words.back();
    }
  }
  std::uint64_t* block(Words& data, int r) const {
    return data.data() + places[static_cast<std::size_t>(r)] / 8;
  }
  template <class From, class To>
  void fill_all(Words& data, From&& from, To&& to) const {
    for (int r = 0; r < static_cast<int>(words.size()); ++r)
      fill(block(data, r), words[static_cast<std::size_t>(r)], from(r), to(r));
  }
  template <class From, class To>
  bool all_hold(Words& data, From&& from, To&& to) const {
    for (int r = 0; r < static_cast<int>(words.size()); ++r)
      if (!holds(block(data, r), words[static_cast<std::size_t>(r)], from(r), to(r))) return false;
    return true;
  }
};

constexpr auto kEach = [](int r) { return r; };
auto always(int rank) {
  return [rank](int) { return rank; };
}
std::size_t varied(std::size_t words, int r) {
  return words * (static_cast<std::size_t>(r) % 4) / 3;
}

bool gather(coll::Team& team, std::size_t words) {
  const int me = team.rank(), root = root_of(team);
  const Layout layout(me == root ? team.size() : 0, [&](int) { return words; });
  Words mine(words), all(layout.all);
  fill(mine.data(), words, me, root);
  return coll::gather(team, mine.data(), all.data(), words * 8, root).ok() &&
         layout.all_hold(all, kEach, always(root));
}

bool scatter(coll::Team& team, std::size_t words) {
  const int me = team.rank(), root = root_of(team);
  const Layout layout(me == root ? team.size() : 0, [&](int) { return words; });
  Words mine(words), all(layout.all);
  layout.fill_all(all, always(root), kEach);
  return coll::scatter(team, all.data(), mine.data(), words * 8, root).ok() &&
         holds(mine.data(), words, root, me);
}

bool allgather(coll::Team& team, std::size_t words) {
  const int me = team.rank();
  const Layout layout(team.size(), [&](int) { return words; });
  Words mine(words), all(layout.all);
  fill(mine.data(), words, me, 0);
  return coll::allgather(team, mine.data(), all.data(), words * 8).ok() &&
         layout.all_hold(all, kEach, always(0));
}

bool alltoall(coll::Team& team, std::size_t words) {
  const int me = team.rank();
  const Layout layout(team.size(), [&](int) { return words; });
  Words out(layout.all), in(layout.all);
  layout.fill_all(out, always(me), kEach);
  return coll::alltoall(team, out.data(), in.data(), words * 8).ok() &&
         layout.all_hold(in, kEach, always(me));
}

bool gatherv(coll::Team& team, std::size_t words) {
  const int me = team.rank(), root = root_of(team);
  const Layout layout(me == root ? team.size() : 0, [&](int r) { return varied(words, r); });
  const std::size_t own = varied(words, me);
  Words mine(own + 1), all(layout.all);
  fill(mine.data(), own, me, root);
  return coll::gatherv(team, mine.data(), own * 8, all.data(), layout.bytes.data(),
                       layout.places.data(), root)
             .ok() &&
         layout.all_hold(all, kEach, always(root));
}

bool scatterv(coll::Team& team, std::size_t words) {
  const int me = team.rank(), root = root_of(team);
  const Layout layout(me == root ? team.size() : 0, [&](int r) { return varied(words, r); });
  const std::size_t own = varied(words, me);
  Words mine(own + 1), all(layout.all);
  layout.fill_all(all, always(root), kEach);
  return coll::scatterv(team, all.data(), layout.bytes.data(), layout.places.data(), mine.data(),
                        own * 8, root)
             .ok() &&
         holds(mine.data(), own, root, me);
}

bool allgatherv(coll::Team& team, std::size_t words) {
  const int me = team.rank();
  const Layout layout(team.size(), [&](int r) { return varied(words, r); });
  Words mine(words + 1), all(layout.all);
  fill(mine.data(), varied(words, me), me, 0);
  return coll::allgatherv(team, mine.data(), varied(words, me) * 8, all.data(), layout.bytes.data(),
                          layout.places.data())
             .ok() &&
         layout.all_hold(all, kEach, always(0));
}

bool alltoallv(coll::Team& team, std::size_t words) {
  const int me = team.rank();
  const Layout layout(team.size(), [&](int r) { return varied(words, me + r); });
  Words out(layout.all), in(layout.all);
  layout.fill_all(out, always(me), kEach);
  return coll::alltoallv(team, out.data(), layout.bytes.data(), layout.places.data(), in.data(),
                         layout.bytes.data(), layout.places.data())
             .ok() &&
         layout.all_hold(in, kEach, always(me));
}

constexpr std::size_t kShort = 1, kBlock = 128, kLong = 8192;
constexpr Call kCalls[] = {
    {"barrier", 0, barrier},          {"bcast", kShort, bcast},
    {"bcast", kLong, bcast},          {"reduce", kShort, reduce},
    {"reduce", kLong, reduce},        {"allreduce", kShort, allreduce},
    {"allreduce", kLong, allreduce},  {"reduce_scatter", kLong, reduce_scatter},
    {"scan", kShort, scan},           {"scan", kLong, scan},
    {"exscan", kLong, exscan},        {"gather", kShort, gather},
    {"gather", kLong, gather},        {"scatter", kShort, scatter},
    {"scatter", kLong, scatter},      {"allgather", kShort, allgather},
    {"allgather", kBlock, allgather}, {"alltoall", kShort, alltoall},
    {"alltoall", kBlock, alltoall},   {"gatherv", kBlock, gatherv},
    {"gatherv", kLong, gatherv},      {"scatterv", kBlock, scatterv},
    {"scatterv", kLong, scatterv},    {"allgatherv", kBlock, allgatherv},
    {"alltoallv", kShort, alltoallv},
};

}  // namespace

int main(int argc, char** argv) {
  const int num_hosts = argc > 1 ? std::atoi(argv[1]) : 10,
            each = argc > 2 ? std::atoi(argv[2]) : 10;
  std::vector<int> hosts;
  for (int r = 0; r < num_hosts * each; ++r) hosts.push_back(r / each);
  const auto is_wanted = [&](const Call& call) {
    return argc <= 3 || std::any_of(argv + 3, argv + argc, [&](const char* name) {
             return std::strcmp(name, call.name) == 0;
           });
  };
  std::atomic<int> num_wrong{0};
  const auto began = Clock::now();
  const auto seconds = [](Clock::time_point since) {
    return std::chrono::duration<double>(Clock::now() - since).count();
  };
  const auto errors = run_ranks_on(
      hosts, {{"FABRIC", "loopback"}, {"PEER_TIMEOUT_MS", "600000"}},
      [&](coll::Team& team) -> std::vector<std::string> {
        const auto must = [&](bool right, const char* what) {
          if (!right && num_wrong.fetch_add(1) < 8)
            std::printf("rank %d: %s is wrong\n", team.rank(), what);
        };
        must(barrier(team, 0), "the first barrier");
        if (team.rank() == 0)
          std::printf("%zu ranks started after %.2f s\n", hosts.size(), seconds(began));
        for (const Call& call : kCalls) {
          if (!is_wanted(call)) continue;
          const auto start = Clock::now();
          must(call.make(team, call.words), call.name);
          must(barrier(team, 0), "a barrier");
          if (team.rank() == 0)
            std::printf("%-14s %6zu bytes %8.3f s\n", call.name, call.words * 8, seconds(start));
          must(barrier(team, 0), "a barrier");
        }
        return {};
      });
  for (const std::string& error : errors) std::printf("%s\n", error.c_str());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%.1f s, at most %.0f MiB, %d wrong\n", seconds(began),
              static_cast<double>(usage.ru_maxrss) / 1024, num_wrong.load());
  return num_wrong == 0 && errors.empty() ? 0 : 1;
}
