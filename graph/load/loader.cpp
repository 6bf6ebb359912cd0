// Loading in four collective steps: every thread reads its part of the file into blocks of edges;
// out-degrees are counted and added up, which gives the cut; every rank makes rows of the right
// lengths for its vertices; and the edges are sent to the owners of their sources, block by block
// freed, while received ones are put into the rows. So the file is read once, and a process holds
// its part of the file (12 bytes an edge with weights, 8 without) beside its rows (8 or 4 bytes an
// edge): with the counts of each vertex, under 2.2 times the 12-byte file.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "file_source.hpp"
#include "graph/common/agree.hpp"
#include "graph/common/machine.hpp"
#include "graph_cache.hpp"
#include "graph_input.hpp"
#include "load_progress.hpp"
#include "stream_share.hpp"
#include "weft/exchange.hpp"
#include "weft/graph/graph.hpp"
#include "weft/graph/process.hpp"

namespace weft::graph {

// The message for an edge to the rank that owns its row.
struct Arc {
  VertexId row, other;
};
struct WeightedArc {
  VertexId row, other;
  Weight weight;
};

class Loader {
 public:
  Loader(transport::Job& job, std::string path, const LoadOptions& options)
      : job_(job), path_(std::move(path)), options_(options), input_(job, path_, options) {
    graph_.job_ = &job;
    graph_.undirected_ = options.undirected;
  }

  Graph load() {
    start_team();
    input_.find();
    inspect();
    is_cached_ = options_.cache && find_cache();
    if (is_cached_)
      read_cache();
    else
      read_file();
    summarize_edges();
    if (job_.size() > 1 && options_.remote_rows) {
      const Graph::RemoteRows mine{graph_.out_.offsets.remote(), graph_.out_.vertices.remote(),
                                   graph_.out_.weights.remote()};
      throw_if(job_.all_gather(mine, graph_.remote_out_));
    }
    if (options_.cache && !is_cached_)
      throw_if(write_cache(graph_, facts_, options_, cache_path(path_)));
    if (options_.note && job_.rank() == 0 && !note_.empty()) options_.note(note_);
    graph_.names_ = input_.names();
    return std::move(graph_);
  }

 private:
  void read_file() {
    read();
    count_vertices();
    count(true);
    cut();
    distribute(graph_.out_, true, !needs_in_edges());
    if (!needs_in_edges()) return;
    count(false);
    distribute(graph_.in_, false, true);
  }

  void summarize_edges() {
    struct Found {
      double squares = 0;  // of edges out
      std::uint64_t largest_weight = 1;
    };
    const auto both = [](const Found& a, const Found& b) {
      return Found{a.squares + b.squares, std::max(a.largest_weight, b.largest_weight)};
    };
    std::vector<Found> parts(static_cast<std::size_t>(graph_.num_threads()));
    const Rows& rows = graph_.out_;
    detail::WorkCounter work(graph_.num_owned(), {.grain = 4096}, graph_.num_threads());
    team().run([&](int thread) {
      Found found;
      work.work(thread, [&](std::uint64_t begin, std::uint64_t end) {
        for (std::uint64_t r = begin; r < end; ++r) {
          const auto degree = static_cast<double>(rows.degree(static_cast<VertexId>(r)));
          found.squares += degree * degree;
        }
        if (rows.weights.empty()) return;
        for (std::uint64_t e = rows.offsets[begin]; e < rows.offsets[end]; ++e)
          found.largest_weight = std::max<std::uint64_t>(found.largest_weight, rows.weights[e]);
      });
      parts[static_cast<std::size_t>(thread)] = found;
    });
    Found all;
    for (const Found& part : parts) all = both(all, part);
    throw_if(job_.all_reduce(all, both));
    graph_.edge_facts_ = {static_cast<Weight>(all.largest_weight),
                          all.squares / static_cast<double>(graph_.num_edges_)};
  }

  // Rank 0 reads the rows of the others to write the cache.
  bool shares_rows() const { return options_.remote_rows || (options_.cache && !is_cached_); }
  bool needs_in_edges() const { return options_.in_edges && !options_.undirected; }
  bool weighted() const { return options_.weights == Weights::file; }
  Team& team() { return *graph_.team_; }

  void start_team() {
    const int wanted = options_.threads > 0 ? options_.threads : share_of_cores(job_);
    Status status;
    if (wanted > transport::kMaxThreads)
      status = {Code::bad_argument, "at most " + std::to_string(transport::kMaxThreads) +
                                        " threads, not " + std::to_string(wanted)};
    if (!options_.shares.empty() &&
        (options_.shares.size() != static_cast<std::size_t>(job_.size()) ||
         !std::all_of(options_.shares.begin(), options_.shares.end(),
                      [](double share) { return share > 0 && share < 1e9; })))
      status = {Code::bad_argument, "shares: one number above 0 for each of the " +
                                        std::to_string(job_.size()) + " processes, not " +
                                        std::to_string(options_.shares.size())};
    throw_together(job_, status);
    std::vector<int> cores = own_cores(job_, wanted);
    if (!options_.bind_threads) cores.clear();
    try {
      graph_.team_ = std::make_unique<Team>(wanted, cores);
    } catch (const std::system_error& error) {
      status = {Code::no_memory, std::string("cannot start threads: ") + error.what()};
    }
    throw_together(job_, status);
  }

  // All ranks open the file, of which rank 0 says what it is.
  FileFacts open(const std::string& path) {
    source_ = std::make_unique<FileSource>(path);
    FileFacts facts;
    const ReadOptions how{.format = options_.format,
                          .wants_weights = weighted(),
                          .columns = options_.columns,
                          .weight_scale = options_.weight_scale,
                          .names = input_.numbered()};
    const Status status = job_.rank() == 0 ? source_->inspect(how, facts) : Status();
    throw_together(job_, status);
    std::vector<FileFacts> all;
    throw_if(job_.all_gather(facts, all));
    throw_together(job_, source_->open(all[0]));
    return all[0];
  }

  void inspect() {
    facts_ = first_ = open(input_.files()[0]);
    note_ = source_->note();
    input_.identify(facts_);
  }

  // --- The cache.

  // Opens the cache on all ranks; false if there is none that fits.
  bool find_cache() {
    struct Found {
      bool fits = false;
      CacheHeader header{};
    } mine;
    const std::string path = cache_path(path_);
    const auto open_it = [&] {
      cache_.number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      return cache_.number >= 0;
    };
    if (job_.rank() == 0 && open_it()) {
      std::byte bytes[sizeof(CacheHeader)];
      struct stat found {};
      const std::int64_t got =
          read_at(cache_.number, reinterpret_cast<char*>(bytes), sizeof bytes, 0);
      mine.fits = got == static_cast<std::int64_t>(sizeof bytes) &&
                  fstat(cache_.number, &found) == 0 &&
                  cache_fits(bytes, static_cast<std::uint64_t>(found.st_size), facts_, options_,
                             mine.header);
    }
    std::vector<Found> all;
    throw_if(job_.all_gather(mine, all));
    if (!all[0].fits) return false;
    Status status;
    if (job_.rank() != 0 && !open_it())
      status = {Code::not_permitted, path + ": cannot open it: " + std::strerror(errno)};
    throw_together(job_, status);
    cache_header_ = all[0].header;
    return true;
  }

  void read_cache() {
    graph_.num_vertices_ = static_cast<VertexId>(cache_header_.num_vertices);
    if (input_.with_names(cache_header_.num_vertices) != cache_header_.num_vertices)
      throw Error(cache_wrong("it has fewer vertices than there are names"));
    throw_if(check_memory(job_,
                          (bytes_for(cache_header_.num_edges, cache_header_.num_vertices) -
                           bytes_read(cache_header_.num_edges)) /
                              static_cast<unsigned>(job_.size()),
                          path_.c_str()));
    LoadProgress progress(options_.progress, job_.rank() == 0, "reading the cache",
                          cache_header_.file_bytes() / static_cast<unsigned>(job_.size()));
    read_degrees(true);
    cut();
    read_rows(graph_.out_, true, progress);
    if (!needs_in_edges()) return;
    read_degrees(false);
    read_rows(graph_.in_, false, progress);
  }

  Status cache_wrong(const std::string& what) const {
    return {Code::corrupt, cache_path(path_) + ": " + what + "; remove it"};
  }

  void read_degrees(bool out) {
    degrees_ = Buffer<std::uint32_t>(nullptr, graph_.num_vertices_);
    Status status = read_from_cache(degrees_.data(), degrees_.size(), sizeof(std::uint32_t),
                                    cache_header_.degrees_at(out), [](std::uint64_t) {});
    std::uint64_t sum = 0;
    for (const std::uint32_t degree : degrees_) sum += degree;
    if (status.ok() && sum != cache_header_.num_edges)
      status = cache_wrong("its degrees do not add up to its edges");
    throw_together(job_, status);
  }

  void read_rows(Rows& rows, bool out, LoadProgress& progress) {
    const std::size_t num_rows = graph_.num_owned();
    const std::uint64_t before =
        std::accumulate(degrees_.begin(), degrees_.begin() + graph_.first_, std::uint64_t{0});
    rows.offsets = Buffer<std::uint64_t>(&job_, num_rows + 1, shares_rows());
    for (std::size_t r = 0; r < num_rows; ++r)
      rows.offsets[r + 1] = rows.offsets[r] + degrees_[graph_.first_ + r];
    degrees_ = {};
    const std::uint64_t num_kept = rows.offsets[num_rows];
    make_rows(rows, num_kept);
    const auto advance = [&](std::uint64_t bytes) { progress.add(bytes); };
    Status status =
        read_from_cache(rows.vertices.data(), num_kept, sizeof(VertexId),
                        cache_header_.vertices_at(out) + before * sizeof(VertexId), advance);
    if (status.ok() && !rows.weights.empty())
      status = read_from_cache(rows.weights.data(), num_kept, sizeof(Weight),
                               cache_header_.weights_at(out) + before * sizeof(Weight), advance);
    if (status.ok() && !std::all_of(rows.vertices.begin(), rows.vertices.end(),
                                    [&](VertexId v) { return v < graph_.num_vertices_; }))
      status = cache_wrong("it names a vertex that is not in the graph");
    throw_together(job_, status);
  }

  // All threads read, block by block.
  template <class Advance>
  Status read_from_cache(void* to, std::uint64_t count, std::size_t value_bytes,
                         std::uint64_t offset, Advance&& advance) {
    const std::uint64_t end_offset = offset + count * value_bytes;
    const CacheBlocks blocks = cache_blocks(offset, end_offset);
    detail::WorkCounter work(blocks.last - blocks.first, {.grain = 1}, graph_.num_threads());
    std::atomic<std::uint64_t> damaged{kNotDamaged};
    // Allocated here, as threads of a team must not throw.
    std::vector<std::vector<char>> spares(static_cast<std::size_t>(graph_.num_threads()));
    for (std::vector<char>& spare : spares) spare.reserve(kCacheBlockBytes);
    team().run([&](int thread) {
      std::vector<char>& spare = spares[static_cast<std::size_t>(thread)];
      work.work(thread, [&](std::uint64_t begin, std::uint64_t end) {
        for (std::uint64_t b = blocks.first + begin; b < blocks.first + end; ++b)
          if (!read_cache_block(cache_.number, cache_header_, b, offset, end_offset,
                                static_cast<char*>(to), spare))
            damaged.store(b, std::memory_order_relaxed);
        advance((end - begin) * kCacheBlockBytes);
      });
    });
    if (damaged == kNotDamaged) return Code::ok;
    const std::uint64_t at = sizeof(CacheHeader) + damaged * kCacheBlockBytes;
    return cache_wrong("damaged behind byte " + std::to_string(at));
  }

  // --- The graph's own file.

  void read() {
    for (int t = 0; t < graph_.num_threads(); ++t) stores_.emplace_back(weighted());
    for (std::size_t i = 0; i < input_.files().size(); ++i)
      read(i == 0 ? first_ : open(input_.files()[i]));
  }

  // Entries in this rank's stores.
  std::uint64_t num_stored() const {
    std::uint64_t sum = 0;
    for (const EdgeStore& store : stores_) sum += store.size() - store.num_mirrored();
    return sum;
  }

  void read(const FileFacts& facts) {
    Status status;
    const bool streamed = facts.streamed();
    if (facts.binary() && !streamed) {
      const std::uint64_t num_edges = facts.bytes / facts.record_bytes();
      throw_if(check_memory(job_, bytes_for(num_edges, 0) / static_cast<unsigned>(job_.size()),
                            path_.c_str()));
    }
    std::uint64_t num_entries = num_stored();
    LoadProgress progress(options_.progress, job_.rank() == 0, "reading",
                          facts.bytes / static_cast<unsigned>(streamed ? 1 : job_.size()));
    const auto advance = [&](std::uint64_t bytes) { progress.add(bytes); };
    if (streamed) {
      status = read_shared(job_, *source_, facts.in_order(), stores_[0], advance);
    } else {
      const auto threads = static_cast<std::uint64_t>(graph_.num_threads());
      std::vector<std::uint64_t> counts;
      throw_if(job_.all_gather(threads, counts));
      const std::uint64_t num_parts =
          std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
      const std::uint64_t first_part =
          std::accumulate(counts.begin(), counts.begin() + job_.rank(), std::uint64_t{0});
      std::vector<Status> results(stores_.size());
      team().run([&](int t) {
        const auto i = static_cast<std::size_t>(t);
        try {
          results[i] = source_->read_part(first_part + i, num_parts, stores_[i], advance);
        } catch (const std::exception& error) {
          results[i] = {Code::no_memory, path_ + ": no memory for its edges: " + error.what()};
        }
      });
      for (const Status& result : results)
        if (status.ok() && !result.ok()) status = result;
    }
    if (status.ok()) status = source_->check_unchanged();
    throw_together(job_, status);
    num_rows_ = std::max(num_rows_, facts.num_rows());
    num_entries = num_stored() - num_entries;
    throw_if(job_.all_reduce(num_entries, std::plus<>()));
    throw_if(source_->check_entries(num_entries));
    if (note_.empty()) note_ = source_->note();
  }

  // Estimated memory of the whole job for reading, rows and degrees.
  std::uint64_t bytes_for(std::uint64_t num_edges, std::uint64_t num_vertices) const {
    const std::uint64_t kept = num_edges * (options_.undirected ? 2 : 1) *
                               (options_.in_edges && !options_.undirected ? 2 : 1);
    return bytes_read(num_edges) +
           kept * (options_.weights == Weights::none ? sizeof(VertexId)
                                                     : sizeof(VertexId) + sizeof(Weight)) +
           num_vertices * (12 + 4 * static_cast<unsigned>(job_.size()));
  }

  // Memory of the edges as they were read.
  std::uint64_t bytes_read(std::uint64_t num_edges) const {
    return num_edges * (sizeof(VertexId) * 2 + (weighted() ? sizeof(Weight) : 0));
  }

  void count_vertices() {
    std::uint64_t num_read = 0, largest = 0;
    for (const EdgeStore& store : stores_) {
      num_read += store.size();
      if (store.size() > 0)
        largest = std::max<std::uint64_t>(largest, store.largest() + std::uint64_t{1});
    }
    throw_if(job_.all_reduce(num_read, std::plus<>()));
    throw_if(job_.all_reduce(largest, transport::Max()));
    largest = std::max(largest, num_rows_);
    if (num_read > 0) largest = input_.with_names(largest);
    if (num_read == 0) throw Error({Code::corrupt, path_ + ": holds no edges"});
    // The limit exceeds any memory, and no number of bytes computed below wraps.
    if (largest > kMostVertices)
      throw Error({Code::no_memory, path_ + ": has vertices up to " + std::to_string(largest - 1) +
                                        ", more than any memory holds"});
    graph_.num_vertices_ = static_cast<VertexId>(largest);
    num_read_ = num_read;
    const std::uint64_t places =
        counts_apart() ? largest * 4 * static_cast<unsigned>(graph_.num_threads()) : 0;
    Status status =
        check_memory(job_,
                     places + bytes_for(0, largest) / static_cast<unsigned>(job_.size()) +
                         bytes_for(num_read, 0) / static_cast<unsigned>(job_.size()) / 3,
                     path_.c_str());
    // Each edge has two vertices at most; the others are holes between the ids.
    if (!status.ok() && largest / 2 > num_read)
      status = {status.code(), status.text() +
                                   "; most of its vertices have no edges: --named numbers "
                                   "those that have"};
    throw_if(status);
  }

  // True if the threads of the only rank count edges apart, so that they need not wait for each
  // other at the vertices that most edges have: where that takes no more memory than rows do.
  bool counts_apart() const {
    return job_.size() == 1 && graph_.num_threads() > 1 &&
           static_cast<std::uint64_t>(graph_.num_threads()) * graph_.num_vertices_ <= num_read_;
  }

  // Counts the edges out (or in) of every vertex, over all ranks, into degrees_.
  void count(bool out) {
    const std::size_t num_vertices = graph_.num_vertices_;
    degrees_ = Buffer<std::uint32_t>(nullptr, num_vertices);
    const bool apart = counts_apart();
    places_.clear();
    for (int t = 0; apart && t < graph_.num_threads(); ++t)
      places_.emplace_back(nullptr, num_vertices);
    const bool shared = !apart && graph_.num_threads() > 1;
    team().run([&](int t) {
      const auto thread = static_cast<std::size_t>(t);
      std::uint32_t* const degrees = apart ? places_[thread].data() : degrees_.data();
      const auto increment = [&](VertexId vertex) {
        if (shared)
          atomic_add(degrees[vertex], 1u);
        else
          ++degrees[vertex];
      };
      stores_[thread].for_each(
          false,
          [&](VertexId source, VertexId destination, Weight) {
            if (out || options_.undirected) increment(source);
            if (!out || (options_.undirected && source != destination)) increment(destination);
          },
          [] {});
    });
    if (apart) add_up_places();
    if (job_.size() == 1) return;
    // The sum needs as much memory again, so it is made in pieces.
    constexpr std::size_t kPiece = std::size_t{1} << 20;
    for (std::size_t at = 0; at < num_vertices; at += kPiece)
      throw_if(job_.all_reduce(
          std::span<std::uint32_t>(degrees_.data() + at, std::min(kPiece, num_vertices - at)),
          std::plus<>()));
  }

  // Prefix sums: each thread's count of a row becomes its first index in the row.
  void add_up_places() {
    detail::WorkCounter work(graph_.num_vertices_, {.grain = 4096}, graph_.num_threads());
    team().run([&](int thread) {
      work.work(thread, [&](std::uint64_t begin, std::uint64_t end) {
        for (std::uint64_t v = begin; v < end; ++v) {
          std::uint32_t sum = 0;
          for (Buffer<std::uint32_t>& places : places_) {
            const std::uint32_t count = places[v];
            places[v] = sum;
            sum += count;
          }
          degrees_[v] = sum;
        }
      });
    });
  }

  void cut() {
    const std::span<const std::uint32_t> degrees(degrees_.data(), degrees_.size());
    std::uint64_t num_edges = 0;
    for (const std::uint32_t degree : degrees) num_edges += degree;
    graph_.num_edges_ = num_edges;
    std::vector<VertexId> cut;
    if (job_.rank() == 0 && graph_.num_vertices_ < static_cast<unsigned>(job_.size())) {
      // The last ranks have none.
      for (unsigned p = 0; p <= static_cast<unsigned>(job_.size()); ++p)
        cut.push_back(std::min<VertexId>(p, graph_.num_vertices_));
    } else if (job_.rank() == 0 && !options_.shares.empty()) {
      cut = shared_cut(degrees, options_.shares);
    } else if (job_.rank() == 0) {
      const auto parts = static_cast<unsigned>(job_.size());
      if (options_.equal_cut) {
        for (unsigned p = 0; p <= parts; ++p)
          cut.push_back(static_cast<VertexId>(std::uint64_t{graph_.num_vertices_} * p / parts));
      } else {
        const double alpha =
            options_.alpha > 0
                ? options_.alpha
                : std::max<double>(1, static_cast<double>(num_edges / graph_.num_vertices_));
        cut = greedy_cut(degrees, alpha, job_.size());
        refine_cut(degrees, alpha, cut);
      }
    }
    std::vector<std::size_t> counts;
    throw_if(job_.all_gather(std::span<const VertexId>(cut), graph_.cut_, counts));
    graph_.first_ = graph_.cut_[static_cast<std::size_t>(job_.rank())];
    graph_.last_ = graph_.cut_[static_cast<std::size_t>(job_.rank()) + 1];
  }

  // Sends every edge to the owner of its source (out) or destination and makes the rows.
  void distribute(Rows& rows, bool out, bool give_back) {
    const std::size_t num_rows = graph_.num_owned();
    rows.offsets = Buffer<std::uint64_t>(&job_, num_rows + 1, shares_rows());
    // Threads that share rows use offsets[r + 1] as the index of row r's next edge; when all edges
    // are placed, it is the row's end.
    const bool apart = !places_.empty();
    std::uint64_t num_kept = 0;
    for (std::size_t r = 0; r < num_rows; ++r) {
      const std::uint64_t begin = num_kept;
      num_kept += degrees_[graph_.first_ + r];
      rows.offsets[r + 1] = apart ? num_kept : begin;
    }
    degrees_ = {};
    make_rows(rows, num_kept);
    if (weighted())
      send_to_owners<WeightedArc>(rows, out, give_back);
    else
      send_to_owners<Arc>(rows, out, give_back);
    if (give_back) stores_.clear();
    places_.clear();
  }

  void make_rows(Rows& rows, std::uint64_t num_kept) {
    Status status;
    try {
      rows.vertices = Buffer<VertexId>(&job_, num_kept, shares_rows());
      if (options_.weights != Weights::none)
        rows.weights = Buffer<Weight>(&job_, num_kept, shares_rows());
    } catch (const Error& error) {
      status = error.status();
    }
    throw_together(job_, status);
  }

  template <class Message>
  void send_to_owners(Rows& rows, bool out, bool give_back) {
    const bool shared = graph_.num_threads() > 1;
    const bool hashed = options_.weights == Weights::hash;
    const VertexId first = graph_.first_, num_rows = graph_.num_owned();
    std::uint64_t* const next = rows.offsets.data() + 1;
    VertexId* const vertices = rows.vertices.data();
    Weight* const weights = rows.weights.empty() ? nullptr : rows.weights.data();
    const auto place_at = [&](std::uint64_t at, VertexId row, VertexId other, Weight weight) {
      vertices[at] = other;
      if (weights != nullptr) weights[at] = hashed ? hash_weight(row, other) : weight;
    };
    const auto place = [&](VertexId row, VertexId other, Weight weight) {
      std::uint64_t& position = next[row - first];
      const std::uint64_t at =
          shared ? std::atomic_ref(position).fetch_add(1, std::memory_order_relaxed) : position++;
      place_at(at, row, other, weight);
    };
    const auto place_message = [&](const Message& message) {
      if (message.row - first >= num_rows) return;  // not this rank's: no rank sends such an edge
      if constexpr (std::is_same_v<Message, WeightedArc>)
        place(message.row, message.other, message.weight);
      else
        place(message.row, message.other, 1);
    };
    if (job_.size() == 1) {
      team().run([&](int t) {
        const auto thread = static_cast<std::size_t>(t);
        std::uint32_t* const places = places_.empty() ? nullptr : places_[thread].data();
        const auto put = [&](VertexId row, VertexId other, Weight weight) {
          if (places == nullptr)
            place(row, other, weight);
          else
            place_at(rows.offsets[row] + places[row]++, row, other, weight);
        };
        stores_[thread].for_each(
            give_back,
            [&](VertexId source, VertexId destination, Weight weight) {
              if (out || options_.undirected) put(source, destination, weight);
              if (!out || (options_.undirected && source != destination))
                put(destination, source, weight);
            },
            [] {});
      });
      return;
    }
    transport::Exchange<Message> exchange(job_, graph_.num_threads());
    std::vector<Status> results(stores_.size());
    team().run([&](int t) {
      Code failed = Code::ok;
      const auto deliver = [&](VertexId row, VertexId other, Weight weight) {
        if (row - first < num_rows) {
          place(row, other, weight);
          return;
        }
        Message message{};
        message.row = row;
        message.other = other;
        if constexpr (std::is_same_v<Message, WeightedArc>) message.weight = weight;
        const Code code = exchange.send(graph_.owner(row), t, message);
        if (code != Code::ok) failed = code;
      };
      const auto receive = [&] {
        for (std::span<const Message> messages; exchange.receive(t, messages);)
          for (const Message& message : messages) place_message(message);
      };
      unsigned since = 0;
      stores_[static_cast<std::size_t>(t)].for_each(
          give_back,
          [&](VertexId source, VertexId destination, Weight weight) {
            if (out || options_.undirected) deliver(source, destination, weight);
            if (!out || (options_.undirected && source != destination))
              deliver(destination, source, weight);
            if (++since % 1024 == 0) receive();
          },
          receive);
      Status status = exchange.quiesce(t, place_message);
      if (status.ok() && failed != Code::ok) status = {failed, "cannot send edges to their owners"};
      results[static_cast<std::size_t>(t)] = status;
    });
    Status status;
    for (const Status& result : results)
      if (status.ok() && !result.ok()) status = result;
    throw_together(job_, status);
  }

  transport::Job& job_;
  std::string path_;
  const LoadOptions& options_;
  GraphInput input_;
  std::unique_ptr<FileSource> source_;  // the file that is read
  FileFacts first_;                     // of the first file
  FileFacts facts_;                     // the same, with the identity of all
  std::uint64_t num_rows_ = 0;          // that headers of files promise
  std::string note_;
  struct CacheFile {
    ~CacheFile() {
      if (number >= 0) close(number);
    }
    int number = -1;
  } cache_;
  bool is_cached_ = false;
  CacheHeader cache_header_{};
  static constexpr std::uint64_t kNotDamaged = ~std::uint64_t{0};
  static constexpr std::uint64_t kMostVertices = std::uint64_t{1} << 48;
  std::vector<EdgeStore> stores_;  // by thread
  std::uint64_t num_read_ = 0;     // edges, by all ranks
  Buffer<std::uint32_t> degrees_;
  // By thread, if they count apart: the index in each row for its next edge.
  std::vector<Buffer<std::uint32_t>> places_;
  Graph graph_;
};

Graph loadGraph(transport::Job& job, const std::string& path, const LoadOptions& options) {
  return Loader(job, path, options).load();
}

}  // namespace weft::graph
