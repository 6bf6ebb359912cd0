// Loading in four collective steps: every thread reads its part of the file; out-degrees are
// counted and added up, which gives the cut; every rank makes rows of the right lengths for its
// vertices; and the edges are sent to the owners of their sources, which put them into the rows.
// Edges in binary are read again in each step, others are kept (edge_feed.hpp): so a process holds
// its rows (4 bytes an edge, 8 with weights) and the counts of each vertex, and of text its part of
// the edges beside (8 or 12 bytes an edge).
//
// A graph that is streamed is never in memory: its rows are written to the cache in parts
// (parts_cache.hpp), and mapped from there.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "edge_feed.hpp"
#include "file_source.hpp"
#include "graph/common/agree.hpp"
#include "graph/common/machine.hpp"
#include "graph_cache.hpp"
#include "graph_input.hpp"
#include "load_progress.hpp"
#include "parts_cache.hpp"
#include "row_filler.hpp"
#include "weft/graph/graph.hpp"
#include "weft/graph/process.hpp"

namespace weft::graph {

class Loader {
 public:
  Loader(transport::Job& job, std::string path, const LoadOptions& options)
      : job_(job), path_(std::move(path)), options_(options), input_(job, path_, options) {
    graph_.job_ = &job;
    graph_.undirected_ = options.undirected;
    graph_.has_real_weights_ = options.weights == Weights::real;
  }

  Graph load() {
    start_team();
    input_.find();
    inspect();
    is_cached_ = (options_.cache || options_.stream) && find_cache();
    if (options_.stream)
      stream();
    else if (is_cached_)
      read_cache();
    else
      read_file();
    find_reach();
    summarize_edges();
    if (job_.size() > 1 && options_.remote_rows && !options_.stream) {
      const Graph::RemoteRows mine{graph_.out_.offsets.remote(), graph_.out_.vertices.remote(),
                                   graph_.out_.weights.remote()};
      throw_if(job_.all_gather(mine, graph_.remote_out_));
    }
    if (options_.cache && !is_cached_ && !options_.stream)
      throw_if(write_cache(graph_, facts_, options_, cache_path(path_)));
    if (options_.note && job_.rank() == 0 && !note_.empty()) options_.note(note_);
    graph_.names_ = input_.names();
    return std::move(graph_);
  }

 private:
  void read_file() {
    read();
    count_vertices();
    check_rows();
    for (const bool out : {true, false}) {
      if (!out && !needs_in_edges()) break;
      count(out);
      if (out) cut();
      distribute(out ? graph_.out_ : graph_.in_, out, !out || !needs_in_edges());
    }
  }

  // Of rows in a file that was done when they were checked.
  void find_reach() {
    if (job_.size() == 1) return;
    for (const Rows* rows : {&graph_.out_, &graph_.in_}) {
      if (rows->whole || rows->vertices.empty()) continue;
      detail::WorkCounter work(rows->vertices.size(), {.grain = 1 << 16}, graph_.num_threads());
      team().run([&](int thread) {
        work.work(thread, [&](std::uint64_t begin, std::uint64_t end) {
          for (std::uint64_t e = begin; e < end; ++e) graph_.reach_.add(rows->vertices[e]);
        });
      });
    }
  }

  void summarize_edges() {
    struct Found {
      double squares = 0;                // of edges out
      std::uint64_t largest_weight = 1;  // of floats the bits, in the same order
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
    const auto largest = static_cast<Weight>(all.largest_weight);
    graph_.edge_facts_ = {
        graph_.has_real_weights() ? real_weight(largest) : static_cast<double>(largest),
        all.squares / static_cast<double>(graph_.num_edges_)};
  }

  // Rank 0 reads the rows of the others to write the cache.
  bool shares_rows() const { return options_.remote_rows || (options_.cache && !is_cached_); }
  bool needs_in_edges() const { return options_.in_edges && !options_.undirected; }
  bool weighted() const {
    return options_.weights == Weights::file || options_.weights == Weights::real;
  }
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
    const ReadOptions how{
        .format = options_.format,
        .wants_weights = weighted(),
        .columns = options_.columns,
        .weight_form = {.real = options_.weights == Weights::real, .scale = options_.weight_scale},
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
      cache_.close_it();
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
    take_counts_of_cache();
    check_rows();
    LoadProgress progress(options_.progress, job_.rank() == 0, "reading the cache",
                          cache_header_.file_bytes() / static_cast<unsigned>(job_.size()));
    for (const bool out : {true, false}) {
      if (!out && !needs_in_edges()) break;
      read_degrees(out);
      if (out) cut();
      read_rows(out ? graph_.out_ : graph_.in_, out, progress);
    }
  }

  void take_counts_of_cache() {
    graph_.num_vertices_ = static_cast<VertexId>(cache_header_.num_vertices);
    if (input_.with_names(cache_header_.num_vertices) != cache_header_.num_vertices)
      throw Error(cache_wrong("it has fewer vertices than there are names"));
    num_read_ = cache_header_.num_edges;
  }

  // --- Rows that stay in the cache.

  void stream() {
    if (is_cached_) {
      take_counts_of_cache();
      check_stream();
    } else {
      write_parts();
      if (!find_cache()) throw Error(cache_wrong("it is not what was written"));
    }
    LoadProgress progress(options_.progress, job_.rank() == 0, "checking the cache",
                          cache_header_.file_bytes() / static_cast<unsigned>(job_.size()));
    for (const bool out : {true, false}) {
      if (!out && !needs_in_edges()) break;
      read_degrees(out);
      if (out) cut();
      map_rows(out ? graph_.out_ : graph_.in_, out, progress);
    }
  }

  void write_parts() {
    read();
    count_vertices();
    const std::uint64_t directions = needs_in_edges() ? 2 : 1;
    const std::uint64_t num_kept = num_read_ * (options_.undirected ? 2 : 1);
    // Self-loops are there once.
    const CacheHeader header =
        cache_header(facts_, options_, graph_.num_vertices_,
                     num_kept - (options_.undirected ? count_loops() : std::uint64_t{0}));
    const std::uint64_t left = check_stream();
    std::uint64_t part = options_.part_bytes > 0 ? options_.part_bytes : left / 2;
    part = std::max<std::uint64_t>(part, edge_bytes(options_.weights));
    if (options_.note && job_.rank() == 0) {
      const std::uint64_t all = header.num_edges * edge_bytes(options_.weights);
      const std::uint64_t at_once = part * static_cast<unsigned>(job_.size());
      options_.note(cache_path(path_) + ": is written first, in about " +
                    std::to_string(directions * ((all + at_once - 1) / at_once + 1)) +
                    " passes over the graph");
    }
    throw_together(
        job_, job_.rank() == 0 ? check_disk(cache_path(path_), header.file_bytes()) : Status());
    write_cache_in_parts(job_, team(), *edges_, header, options_, part, cache_path(path_));
    edges_.reset();
  }

  std::uint64_t count_loops() {
    std::vector<std::uint64_t> loops(static_cast<std::size_t>(graph_.num_threads()));
    std::vector<Status> results(loops.size());
    team().run([&](int thread) {
      const auto t = static_cast<std::size_t>(thread);
      results[t] = edges_->for_each(
          thread, false, [&](VertexId u, VertexId v, Weight) { loops[t] += u == v ? 1 : 0; },
          [] {});
    });
    throw_together(job_, first_failure(results));
    std::uint64_t sum = std::accumulate(loops.begin(), loops.end(), std::uint64_t{0});
    throw_if(job_.all_reduce(sum, std::plus<>()));
    return sum;
  }

  // Says what memory a streamed graph takes, and where from. Returns what it leaves for each rank.
  std::uint64_t check_stream() {
    const auto ranks = static_cast<unsigned>(job_.size());
    const std::uint64_t fixed =
        vertex_bytes() + graph_.num_vertices_ * sizeof(std::uint32_t);  // and their counts
    throw_if(check_memory(job_, fixed, path_, "use more hosts, or a smaller graph"));
    std::uint64_t ranks_here = 0;
    for (int rank = 0; rank < job_.size(); ++rank)
      ranks_here += job_.same_host(rank, job_.rank()) ? 1 : 0;
    const std::uint64_t available = available_memory();
    const std::uint64_t all = num_read_ * (options_.undirected && !is_cached_ ? 2 : 1) *
                              (needs_in_edges() ? 2 : 1) * edge_bytes(options_.weights);
    if (options_.note && job_.rank() == 0)
      options_.note(path_ + ": takes " + mib(fixed * ranks) + " of memory, of " + mib(available) +
                    " left here, for vertices; " + mib(all) + " of edges are read from " +
                    cache_path(path_) + ", faster where memory caches them");
    std::uint64_t left = available / ranks_here - std::min(available / ranks_here, fixed);
    throw_if(
        job_.all_reduce(left, [](std::uint64_t a, std::uint64_t b) { return std::min(a, b); }));
    return left;
  }

  void map_rows(Rows& rows, bool out, LoadProgress& progress) {
    const std::size_t num_rows = graph_.num_owned();
    rows.whole = true;
    rows.offsets = Buffer<std::uint64_t>(&job_, num_rows + 1, shares_rows());
    rows.offsets[0] =
        std::accumulate(degrees_.begin(), degrees_.begin() + graph_.first_, std::uint64_t{0});
    for (std::size_t r = 0; r < num_rows; ++r)
      rows.offsets[r + 1] = rows.offsets[r] + degrees_[graph_.first_ + r];
    degrees_ = {};
    Status status;
    try {
      rows.vertices = Buffer<VertexId>::of_file(cache_.number, cache_header_.vertices_at(out),
                                                cache_header_.num_edges);
      if (options_.weights != Weights::none)
        rows.weights = Buffer<Weight>::of_file(cache_.number, cache_header_.weights_at(out),
                                               cache_header_.num_edges);
    } catch (const Error& error) {
      status = error.status();
    }
    throw_together(job_, status);
    throw_together(job_, check_mapped(rows, out, progress));
  }

  // Reads this rank's part of the rows once, in order.
  Status check_mapped(const Rows& rows, bool out, LoadProgress& progress) {
    std::atomic<bool> beyond{false};
    Status status = check_column<VertexId>(
        rows, cache_header_.vertices_at(out), progress,
        [&](const VertexId* some, std::size_t size) {
          if (!std::all_of(some, some + size, [&](VertexId v) { return v < graph_.num_vertices_; }))
            beyond.store(true, std::memory_order_relaxed);
          else if (job_.size() > 1)
            std::for_each_n(some, size, [&](VertexId v) { graph_.reach_.add(v); });
        });
    if (status.ok() && beyond) status = cache_wrong("it names a vertex that is not in the graph");
    if (status.ok() && !rows.weights.empty())
      status = check_column<Weight>(rows, cache_header_.weights_at(out), progress,
                                    [](const Weight*, std::size_t) {});
    return status;
  }
  // The same of the values of edges that begin at `at` in the cache; visit(values, how many).
  template <class T, class Visit>
  Status check_column(const Rows& rows, std::uint64_t at, LoadProgress& progress, Visit&& visit) {
    const std::uint64_t begin = at + rows.offsets[0] * sizeof(T);
    const std::uint64_t end = at + rows.offsets[graph_.num_owned()] * sizeof(T);
    std::atomic<std::uint64_t> damaged{kNotDamaged};
    std::vector<std::vector<T>> values(static_cast<std::size_t>(graph_.num_threads()));
    for (std::vector<T>& some : values) some.resize(kCacheBlockBytes / sizeof(T));
    for_blocks(cache_blocks(begin, end),
               [&](std::uint64_t b, int thread, std::vector<char>& spare) {
                 T* const some = values[static_cast<std::size_t>(thread)].data();
                 const std::uint64_t first = sizeof(CacheHeader) + b * kCacheBlockBytes;
                 const std::uint64_t from = std::max(begin, first);
                 const std::uint64_t until = std::min(end, first + kCacheBlockBytes);
                 if (read_cache_block(cache_.number, cache_header_, b, from, until,
                                      reinterpret_cast<char*>(some), spare))
                   visit(some, (until - from) / sizeof(T));
                 else
                   damaged.store(b, std::memory_order_relaxed);
                 progress.add(kCacheBlockBytes);
               });
    return damaged == kNotDamaged ? Status() : damaged_behind(damaged);
  }

  // visit(block, thread, reusable memory), by all threads.
  template <class Visit>
  void for_blocks(const CacheBlocks& blocks, Visit&& visit) {
    detail::WorkCounter work(blocks.last - blocks.first, {.grain = 1}, graph_.num_threads());
    // Allocated here, as threads of a team must not throw.
    std::vector<std::vector<char>> spares(static_cast<std::size_t>(graph_.num_threads()));
    for (std::vector<char>& spare : spares) spare.reserve(kCacheBlockBytes);
    team().run([&](int thread) {
      work.work(thread, [&](std::uint64_t begin, std::uint64_t end) {
        for (std::uint64_t b = blocks.first + begin; b < blocks.first + end; ++b)
          visit(b, thread, spares[static_cast<std::size_t>(thread)]);
      });
    });
  }

  // --- The cache, read into memory.

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
    std::atomic<std::uint64_t> damaged{kNotDamaged};
    for_blocks(cache_blocks(offset, end_offset),
               [&](std::uint64_t b, int, std::vector<char>& spare) {
                 if (!read_cache_block(cache_.number, cache_header_, b, offset, end_offset,
                                       static_cast<char*>(to), spare))
                   damaged.store(b, std::memory_order_relaxed);
                 advance(kCacheBlockBytes);
               });
    return damaged == kNotDamaged ? Status() : damaged_behind(damaged);
  }
  Status damaged_behind(std::uint64_t block) const {
    const std::uint64_t at = sizeof(CacheHeader) + block * kCacheBlockBytes;
    return cache_wrong("damaged behind byte " + std::to_string(at));
  }

  // --- The graph's own file.

  void read() {
    edges_ = std::make_unique<EdgeFeed>(job_, team(), path_, weighted(), !options_.stream);
    for (std::size_t i = 0; i < input_.files().size(); ++i)
      read(i == 0 ? first_ : open(input_.files()[i]));
  }

  void read(const FileFacts& facts) {
    if (facts.binary() && !facts.streamed() && !options_.stream)
      throw_if(check_memory(job_, row_bytes(facts.bytes / facts.record_bytes()), path_, kAdvice));
    LoadProgress progress(options_.progress, job_.rank() == 0, "reading",
                          facts.bytes / static_cast<unsigned>(facts.streamed() ? 1 : job_.size()));
    if (note_.empty()) note_ = source_->note();
    num_rows_ = std::max(num_rows_, facts.num_rows());
    edges_->add(std::move(source_), facts, [&](std::uint64_t bytes) { progress.add(bytes); });
  }

  // Estimated memory of each rank for rows of this many edges of the file.
  std::uint64_t row_bytes(std::uint64_t num_edges) const {
    const std::uint64_t kept =
        num_edges * (options_.undirected && !is_cached_ ? 2 : 1) * (needs_in_edges() ? 2 : 1);
    return kept * edge_bytes(options_.weights) / static_cast<unsigned>(job_.size());
  }
  // The same for what vertices take: where rows begin, and the program's values.
  std::uint64_t vertex_bytes() const {
    const std::uint64_t owned =
        sizeof(std::uint64_t) * (needs_in_edges() ? 2 : 1) + options_.bytes_per_owned;
    return graph_.num_vertices_ * owned / static_cast<unsigned>(job_.size()) +
           graph_.num_vertices_ * std::uint64_t{options_.bytes_per_vertex};
  }

  // The memory for the rows and their vertices, before it is used.
  void check_rows() {
    const std::uint64_t num_vertices = graph_.num_vertices_;
    const std::uint64_t counts =
        sizeof(std::uint32_t) * num_vertices *
        (counts_apart() ? 1 + static_cast<unsigned>(graph_.num_threads()) : 1);
    Status status =
        check_memory(job_, row_bytes(num_read_) + vertex_bytes() + counts, path_, kAdvice);
    // Each edge has two vertices at most; the others are holes between the ids.
    if (!status.ok() && num_vertices / 2 > num_read_)
      status = {status.code(), status.text() +
                                   "; most of its vertices have no edges: --named numbers "
                                   "those that have"};
    throw_if(status);
  }

  void count_vertices() {
    std::uint64_t num_read = edges_->size();
    std::uint64_t largest = num_read > 0 ? edges_->largest() + std::uint64_t{1} : 0;
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
  }

  // True if the threads of the only rank count edges apart, so that they need not wait for each
  // other at the vertices that most edges have: where that takes no more memory than rows do.
  bool counts_apart() const {
    return job_.size() == 1 && graph_.num_threads() > 1 &&
           static_cast<std::uint64_t>(graph_.num_threads()) * graph_.num_vertices_ <= num_read_;
  }

  // Counts the edges out (or in) of every vertex, over all ranks, into degrees_.
  void count(bool out) {
    degrees_ = Buffer<std::uint32_t>(nullptr, graph_.num_vertices_);
    places_.clear();
    for (int t = 0; counts_apart() && t < graph_.num_threads(); ++t)
      places_.emplace_back(nullptr, graph_.num_vertices_);
    count_edges(job_, team(), *edges_, kind(out), degrees_, places_);
  }
  RowKind kind(bool out) const { return {out, options_.undirected, options_.weights}; }

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
    graph_.reach_ = Reach(graph_.num_vertices_);
    graph_.reach_.add(graph_.first_, graph_.last_);
  }

  // Sends every edge to the owner of its source (out) or destination and makes the rows.
  void distribute(Rows& rows, bool out, bool is_last) {
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
    fill_rows(job_, team(), *edges_, kind(out), graph_.cut_, is_last, places_, rows);
    if (is_last) edges_.reset();
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
    ~CacheFile() { close_it(); }
    void close_it() {
      if (number >= 0) close(number);
      number = -1;
    }
    int number = -1;
  } cache_;
  bool is_cached_ = false;
  CacheHeader cache_header_{};
  static constexpr std::uint64_t kNotDamaged = ~std::uint64_t{0};
  static constexpr const char* kAdvice =
      "--stream leaves the edges in a file; or use more hosts, or a smaller graph";
  static constexpr std::uint64_t kMostVertices = std::uint64_t{1} << 48;
  std::unique_ptr<EdgeFeed> edges_;
  std::uint64_t num_read_ = 0;  // edges, by all ranks
  Buffer<std::uint32_t> degrees_;
  Places places_;
  Graph graph_;
};

Graph loadGraph(transport::Job& job, const std::string& path, const LoadOptions& options) {
  return Loader(job, path, options).load();
}

}  // namespace weft::graph
