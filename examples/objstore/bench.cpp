// The benchmark of the paper (section 4.3) as an MPI program: rank 0 gathers ids and fetches their
// objects from the stores of all others; the last rank measures its own host's store. Beside them
// the same of Redis, in rounds that alternate. The results are medians of rounds.
//
//   weftrun --hosts a,b,c objstore_bench --json points.json
//
// Ranks of one host, or of hosts with one file system, are given stores of their own by --sockets.
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <thread>

#include "bench_redis.hpp"
#include "tools/cli/cli.hpp"
#include "weft/object_store.hpp"

namespace {

using weft::Object;
using weft::ObjectId;
using weft::ObjectStore;
using Clock = std::chrono::steady_clock;

struct Options {
  std::vector<std::string> sockets, what = {"local", "fetch", "mix"};
  std::vector<std::size_t> sizes;
  std::vector<int> clients = {1}, reads = {50, 90, 99};
  int rounds = 3;
  std::size_t batch_bytes = 64 << 20, most = 200;
  std::string redis, redis_local, json;
  bool does(const char* word) const {
    return std::find(what.begin(), what.end(), word) != what.end();
  }
};

int rank, num_ranks;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "bench: rank %d: %s\n", rank, what.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}
void check(const weft::Status& status) {
  if (!status) fail(status.text());
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}
double percentile(std::vector<double> values, double part) {
  const auto at = static_cast<std::size_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<long>(at), values.end());
  return values[at];
}

// --- Ids and contents

ObjectId id_of(const std::string& text) {
  ObjectId id;
  if (!ObjectId::parse(text, id)) fail("no id: " + text);
  return id;
}
// Letters that say who made it in which batch.
std::vector<ObjectId> new_ids(std::size_t num) {
  static std::uint64_t next = 0;
  std::vector<ObjectId> ids;
  for (std::size_t i = 0; i < num; ++i)
    ids.push_back(id_of("b" + std::to_string(rank) + "-" + std::to_string(next++)));
  return ids;
}
// The first and the last bytes of an object, so that it is recognised.
void mark(std::vector<std::byte>& data, const ObjectId& id) {
  const std::uint64_t word = std::hash<ObjectId>()(id);
  const std::size_t bytes = std::min(sizeof word, data.size());
  std::memcpy(data.data(), &word, bytes);
  std::memcpy(data.data() + data.size() - bytes, &word, bytes);
}
void check_mark(std::span<const std::byte> data, const ObjectId& id, std::size_t bytes) {
  const std::uint64_t word = std::hash<ObjectId>()(id);
  const std::size_t part = std::min(sizeof word, bytes);
  if (data.size() != bytes || std::memcmp(data.data(), &word, part) != 0 ||
      std::memcmp(data.data() + bytes - part, &word, part) != 0)
    fail("an object has other contents than were put");
}
volatile std::uint64_t sink;
void read_all(std::span<const std::byte> data) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i + 8 <= data.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, data.data() + i, 8);
    total += word;
  }
  sink = total;
}

// --- Measuring

// The results of many rounds for one point.
struct Series {
  std::vector<double> us, p99_us, per_second;
};
std::map<std::string, Series> all_series;  // by what it is, as JSON

// Clients at once, each of which does `work(client, i)` for its i of [0, num). Threads are
// made before and end after what is timed.
void measure(const nlohmann::json& what, int num_clients, std::size_t num, bool counts,
             const std::function<void(int, std::size_t)>& work) {
  std::vector<std::vector<double>> us(static_cast<std::size_t>(num_clients));
  // Of each client: this thread may not get a core before they are through.
  std::vector<Clock::time_point> begins(us.size()), ends(us.size());
  std::vector<std::thread> threads;
  std::barrier gate(num_clients);
  std::atomic<bool> has_failed{false};
  for (int client = 0; client < num_clients; ++client)
    threads.emplace_back([&, client] {
      auto& mine = us[static_cast<std::size_t>(client)];
      mine.reserve(num / static_cast<std::size_t>(num_clients) + 1);
      gate.arrive_and_wait();
      begins[static_cast<std::size_t>(client)] = Clock::now();
      try {
        for (auto i = static_cast<std::size_t>(client); i < num;
             i += static_cast<std::size_t>(num_clients)) {
          const auto begin = Clock::now();
          work(client, i);
          mine.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
        }
      } catch (const std::exception& error) {
        std::fprintf(stderr, "bench: rank %d: %s\n", rank, error.what());
        has_failed = true;
      }
      ends[static_cast<std::size_t>(client)] = Clock::now();
    });
  for (std::thread& thread : threads) thread.join();
  const double seconds =
      std::chrono::duration<double>(*std::max_element(ends.begin(), ends.end()) -
                                    *std::min_element(begins.begin(), begins.end()))
          .count();
  if (has_failed) MPI_Abort(MPI_COMM_WORLD, 1);
  if (!counts) return;
  std::vector<double> together;
  for (const auto& mine : us) together.insert(together.end(), mine.begin(), mine.end());
  if (together.empty()) return;
  Series& series = all_series[what.dump()];
  series.us.push_back(median(together));
  series.p99_us.push_back(percentile(together, 0.99));
  series.per_second.push_back(static_cast<double>(num) / seconds);
}

nlohmann::json points() {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& [what, series] : all_series) {
    nlohmann::json point = nlohmann::json::parse(what);
    point["us"] = median(series.us);
    point["p99_us"] = median(series.p99_us);
    point["per_second"] = median(series.per_second);
    point["rounds"] = series.us.size();
    all.push_back(std::move(point));
  }
  return all;
}

struct Clients {
  Clients(const std::string& socket, const std::string& redis_address, int num) {
    for (int i = 0; i < num; ++i) {
      stores.push_back(std::make_unique<ObjectStore>(
          weft::ObjectStoreSettings{.socket = socket, .name = "bench"}));
      if (!redis_address.empty()) redis.push_back(std::make_unique<bench::Redis>(redis_address));
    }
  }
  ObjectStore& store(int client) { return *stores[static_cast<std::size_t>(client)]; }
  bench::Redis& server(int client) { return *redis[static_cast<std::size_t>(client)]; }
  std::vector<std::unique_ptr<ObjectStore>> stores;
  std::vector<std::unique_ptr<bench::Redis>> redis;
};

// --- Local: figures 2.6 and 4.2

void measure_local(const Options& options, const std::string& socket, std::size_t bytes,
                   int num_clients, std::size_t num, bool counts) {
  const std::vector<ObjectId> ids = new_ids(num);
  std::vector<std::byte> data(bytes);
  Clients writers(socket, options.redis_local, num_clients);
  Clients readers(socket, {}, num_clients);  // who have not seen the objects yet
  const auto run = [&](const char* what, const std::function<void(int, std::size_t)>& work) {
    measure({{"what", what}, {"bytes", bytes}, {"clients", num_clients}}, num_clients, num, counts,
            work);
  };
  run("put", [&](int client, std::size_t i) { check(writers.store(client).put(ids[i], data)); });
  run("get", [&](int client, std::size_t i) {
    Object object;
    check(readers.store(client).get(ids[i], object));
  });
  run("read", [&](int client, std::size_t i) {
    Object object;
    check(readers.store(client).get(ids[i], object));
    read_all(object.data());
  });
  run("delete", [&](int client, std::size_t i) { check(writers.store(client).erase(ids[i])); });
  if (options.redis_local.empty()) return;
  run("redis_put", [&](int client, std::size_t i) { writers.server(client).set(ids[i], data); });
  run("redis_get", [&](int client, std::size_t i) {
    writers.server(client).get(ids[i], [&](auto value) { sink = value.size(); });
  });
  run("redis_read", [&](int client, std::size_t i) {
    writers.server(client).get(ids[i], [&](auto value) { read_all(value); });
  });
  run("redis_delete", [&](int client, std::size_t i) { writers.server(client).erase(ids[i]); });
}

// --- Mixes of reads and writes, over names of which some are used more than others

// Zipf's distribution as YCSB has it: the n-th of all is used 1/n^0.99 as often as the first.
class Zipf {
 public:
  explicit Zipf(std::size_t num) {
    double sum = 0;
    for (std::size_t i = 1; i <= num; ++i)
      sums_.push_back(sum += 1 / std::pow(static_cast<double>(i), 0.99));
  }
  std::size_t operator()(std::mt19937_64& random) const {
    const double at = std::uniform_real_distribution<double>(0, sums_.back())(random);
    const auto found = std::upper_bound(sums_.begin(), sums_.end(), at);
    return std::min<std::size_t>(static_cast<std::size_t>(found - sums_.begin()), sums_.size() - 1);
  }

 private:
  std::vector<double> sums_;
};

// Objects don't change: writing a name makes its next version, then deletes the one before.
void measure_mix(const Options& options, const std::string& socket, std::size_t bytes,
                 int num_clients, std::size_t num, int reads, int round) {
  const std::size_t num_names = std::clamp<std::size_t>(options.batch_bytes / bytes, 4, 1000);
  static std::uint64_t next = 0;
  const std::string prefix = "m" + std::to_string(next++) + "-";
  const auto id = [&](std::size_t name, std::uint32_t version) {
    return id_of(prefix + std::to_string(name) + "." + std::to_string(version));
  };
  std::vector<std::byte> data(bytes);
  Clients clients(socket, options.redis_local, num_clients);
  std::vector<std::atomic<std::uint32_t>> taken(num_names), versions(num_names);
  for (std::size_t name = 0; name < num_names; ++name)
    check(clients.store(0).put(id(name, 0), data));
  const Zipf zipf(num_names);
  std::vector<std::mt19937_64> random;
  for (int i = 0; i < num_clients; ++i) random.emplace_back(i + 1000 * round);
  const auto is_read = [&](std::mt19937_64& chance) {
    return static_cast<int>(chance() % 100) < reads;
  };
  const nlohmann::json what = {{"bytes", bytes}, {"clients", num_clients}, {"reads", reads}};
  nlohmann::json of_store = what, of_redis = what;
  of_store["what"] = "mix";
  of_redis["what"] = "redis_mix";
  measure(of_store, num_clients, num, round >= 0, [&](int client, std::size_t) {
    std::mt19937_64& chance = random[static_cast<std::size_t>(client)];
    ObjectStore& store = clients.store(client);
    const std::size_t name = zipf(chance);
    if (is_read(chance)) {
      for (int tries = 0; tries < 1000; ++tries) {
        Object object;
        const weft::Status status = store.get(id(name, versions[name].load()), object);
        if (status) return read_all(object.data());
        if (status.code() != weft::Code::not_found) check(status);
      }
      fail("a name that is written all the time is never read");
    }
    const std::uint32_t version = ++taken[name];
    check(store.put(id(name, version), data));
    // Of two writers at once the later version stays.
    std::uint32_t before = versions[name].load();
    while (before < version && !versions[name].compare_exchange_weak(before, version)) {
    }
    check(store.erase(id(name, std::min(before, version))));
  });
  for (std::size_t name = 0; name < num_names; ++name)
    check(clients.store(0).erase(id(name, versions[name].load())));
  if (options.redis_local.empty()) return;
  for (std::size_t name = 0; name < num_names; ++name) clients.server(0).set(id(name, 0), data);
  measure(of_redis, num_clients, num, round >= 0, [&](int client, std::size_t) {
    std::mt19937_64& chance = random[static_cast<std::size_t>(client)];
    const ObjectId key = id(zipf(chance), 0);
    if (is_read(chance))
      clients.server(client).get(key, [&](auto value) { read_all(value); });
    else
      clients.server(client).set(key, data);
  });
  for (std::size_t name = 0; name < num_names; ++name) clients.server(0).erase(id(name, 0));
}

// --- From other hosts: figures 2.7 and 4.3 to 4.6

// All but rank 0 put objects; rank 0 receives their ids.
std::vector<ObjectId> put_and_gather(ObjectStore& store, std::size_t bytes, std::size_t num) {
  std::vector<ObjectId> mine(num), all;
  if (rank != 0) {
    mine = new_ids(num);
    std::vector<std::byte> data(bytes);
    for (const ObjectId& id : mine) {
      mark(data, id);
      check(store.put(id, data));
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const int length = static_cast<int>(num * sizeof(ObjectId));
  if (rank == 0) all.resize(num * static_cast<std::size_t>(num_ranks));
  MPI_Gather(mine.data(), length, MPI_BYTE, all.data(), length, MPI_BYTE, 0, MPI_COMM_WORLD);
  if (rank != 0) return {};
  all.erase(all.begin(), all.begin() + static_cast<long>(num));
  // Of one host after the other's.
  std::vector<ObjectId> mixed;
  for (std::size_t i = 0; i < num; ++i)
    for (std::size_t host = 0; host + 1 < static_cast<std::size_t>(num_ranks); ++host)
      mixed.push_back(all[host * num + i]);
  return mixed;
}

constexpr std::int64_t kFetchMs = 60000;

// The cost of the first fetch, which includes what is done once per pair of hosts.
double first_fetch_us(ObjectStore& store, std::size_t bytes) {
  const std::vector<ObjectId> ids = put_and_gather(store, bytes, 1);
  if (rank != 0) return 0;
  const auto begin = Clock::now();
  check(store.fetch(std::span(ids).first(1), kFetchMs));
  const std::chrono::duration<double, std::micro> time = Clock::now() - begin;
  for (const ObjectId& id : ids) check(store.erase(id));
  return time.count();
}

void measure_fetch(const Options& options, const std::string& socket, std::size_t bytes,
                   int num_clients, std::size_t num, bool counts) {
  ObjectStore store({.socket = socket, .name = "bench"});
  const nlohmann::json what = {{"bytes", bytes}, {"clients", num_clients}};
  const auto named = [&](const char* name) {
    nlohmann::json json = what;
    json["what"] = name;
    return json;
  };
  std::optional<Clients> clients;
  if (rank == 0) clients.emplace(socket, options.redis, num_clients);
  for (const bool at_once : {false, true}) {
    const std::vector<ObjectId> ids = put_and_gather(store, bytes, num);
    if (rank == 0 && !at_once)
      measure(named("fetch"), num_clients, ids.size(), counts, [&](int client, std::size_t i) {
        check(clients->store(client).fetch(std::span(ids).subspan(i, 1), kFetchMs));
      });
    if (rank == 0 && at_once) {
      // Each client has its part as one list, so what is counted are lists.
      const auto part = [&](std::size_t client) {
        return ids.size() * client / static_cast<std::size_t>(num_clients);
      };
      measure(named("fetch_list"), num_clients, static_cast<std::size_t>(num_clients), counts,
              [&](int client, std::size_t) {
                const std::size_t begin = part(static_cast<std::size_t>(client));
                const std::size_t end = part(static_cast<std::size_t>(client) + 1);
                check(clients->store(client).fetch(std::span(ids).subspan(begin, end - begin),
                                                   kFetchMs));
              });
      if (counts) {
        double& lists = all_series[named("fetch_list").dump()].per_second.back();
        lists *= static_cast<double>(ids.size()) / num_clients;  // objects
      }
    }
    for (const ObjectId& id : ids) {
      Object object;
      check(store.get(id, object));
      check_mark(object.data(), id, bytes);
      check(store.erase(id));
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (rank != 0 || options.redis.empty()) return;
  const std::vector<ObjectId> ids = new_ids(num * static_cast<std::size_t>(num_ranks - 1));
  std::vector<std::byte> data(bytes);
  for (const ObjectId& id : ids) {
    mark(data, id);
    clients->server(0).set(id, data);
  }
  measure(named("redis_fetch"), num_clients, ids.size(), counts, [&](int client, std::size_t i) {
    clients->server(client).get(ids[i], [&](auto value) { check_mark(value, ids[i], bytes); });
  });
  for (const ObjectId& id : ids) clients->server(0).erase(id);
}

// --- All of it

void run(const Options& options) {
  std::string socket;
  if (!options.sockets.empty())
    socket = options.sockets[static_cast<std::size_t>(rank) % options.sockets.size()];
  nlohmann::json result;
  const bool is_local = rank == num_ranks - 1;
  if (options.does("fetch") && num_ranks > 1) {
    ObjectStore store({.socket = socket, .name = "bench"});
    // Small, then large: what registering memory costs comes with the second.
    for (const std::size_t bytes : {std::size_t{1024}, std::size_t{1} << 20})
      result["first_fetch_us"][std::to_string(bytes)] = first_fetch_us(store, bytes);
  }
  for (const std::size_t bytes : options.sizes) {
    const std::size_t num = std::clamp<std::size_t>(options.batch_bytes / bytes, 4, options.most);
    for (const int num_clients : options.clients) {
      // The first round warms memory and is not counted.
      for (int round = -1; round < options.rounds; ++round) {
        if (options.does("fetch") && num_ranks > 1)
          measure_fetch(options, socket, bytes, num_clients, num, round >= 0);
        if (is_local && options.does("local"))
          measure_local(options, socket, bytes, num_clients, num, round >= 0);
        if (is_local && options.does("mix"))
          for (const int reads : options.reads)
            measure_mix(options, socket, bytes, num_clients, num * 4, reads, round);
        MPI_Barrier(MPI_COMM_WORLD);
      }
    }
    if (rank == 0) std::fprintf(stderr, "bench: %zu bytes done\n", bytes);
  }
  // The last rank's results go to rank 0.
  nlohmann::json mine = points();
  if (num_ranks > 1 && is_local) {
    const std::string text = mine.dump();
    MPI_Send(text.data(), static_cast<int>(text.size()), MPI_CHAR, 0, 0, MPI_COMM_WORLD);
  }
  if (rank != 0) return;
  if (num_ranks > 1) {
    MPI_Status status;
    int length = 0;
    MPI_Probe(num_ranks - 1, 0, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_CHAR, &length);
    std::string text(static_cast<std::size_t>(length), '\0');
    MPI_Recv(text.data(), length, MPI_CHAR, num_ranks - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (auto& point : nlohmann::json::parse(text)) mine.push_back(std::move(point));
  }
  ObjectStore store({.socket = socket, .name = "bench"});
  std::string status;
  check(store.status(status));
  const nlohmann::json parsed = nlohmann::json::parse(status);
  if (parsed.contains("peers")) result["peers"] = parsed["peers"];
  result["ranks"] = num_ranks;
  std::sort(mine.begin(), mine.end(), [](const auto& a, const auto& b) {
    const auto key = [](const nlohmann::json& point) {
      return std::tuple(point["what"].template get<std::string>(), point.value("reads", 0),
                        point["clients"].template get<int>(),
                        point["bytes"].template get<std::size_t>());
    };
    return key(a) < key(b);
  });
  result["points"] = mine;
  if (!options.json.empty()) std::ofstream(options.json) << result.dump(1) << '\n';
  std::printf("%-13s %5s %7s %10s %10s %10s %12s %10s\n", "what", "reads", "clients", "bytes", "us",
              "p99 us", "objects/s", "MB/s");
  for (const auto& point : mine) {
    const double per_second = point["per_second"];
    std::printf("%-13s %5d %7d %10zu %10.1f %10.1f %12.0f %10.1f\n",
                point["what"].get<std::string>().c_str(), point.value("reads", 0),
                point["clients"].get<int>(), point["bytes"].get<std::size_t>(),
                point["us"].get<double>(), point["p99_us"].get<double>(), per_second,
                per_second * point["bytes"].get<double>() / 1e6);
  }
}

}  // namespace

int main(int argc, char** argv) {
  weft::cli::Command app{
      "objstore_bench",
      "Puts, gets and deletes objects of this host, fetches others' from their hosts, beside "
      "Redis. Run it by weftrun: rank 0 fetches from all others, the last one measures its own "
      "host."};
  Options options;
  std::size_t least = 1024, greatest = 64 << 20;
  app.option("--sockets", options.sockets,
             "where the stores listen: of rank 0, 1, ..., in turn; none: where they do anyway")
      .separated_by_commas();
  app.option("--what", options.what, "local, fetch, mix")
      .separated_by_commas()
      .one_of({"local", "fetch", "mix"});
  app.option("--from", least, "the smallest size, which doubles twice until --to")
      .bytes()
      .range(std::size_t{16}, std::size_t{1} << 32)
      .shows_default();
  app.option("--to", greatest, "the largest size").bytes().shows_default();
  app.option("--clients", options.clients, "how many at once, e.g. 1,2,4,8")
      .separated_by_commas()
      .range(1, 64)
      .shows_default();
  app.option("--reads", options.reads, "of a hundred calls in mixes")
      .separated_by_commas()
      .range(0, 100)
      .shows_default();
  app.option("--rounds", options.rounds, "that medians are of").range(1, 1000).shows_default();
  app.option("--batch", options.batch_bytes,
             "bytes of objects a host and batch; stores need several times as much")
      .bytes()
      .shows_default();
  app.option("--most", options.most, "objects a host and batch").range(1, 1 << 20).shows_default();
  app.option("--redis", options.redis, "host:port of a Redis that rank 0 gets from");
  app.option("--redis-local", options.redis_local,
             "host:port or unix:PATH of one on the last rank's host");
  app.option("--json", options.json, "a file to write the points to");
  if (const auto status = app.parse(argc, argv)) return *status;
  for (std::size_t bytes = least; bytes <= greatest; bytes *= 4) options.sizes.push_back(bytes);
  int level;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &num_ranks);
  try {
    run(options);
  } catch (const std::exception& error) {
    fail(error.what());
  }
  MPI_Finalize();
}
