#include "row_filler.hpp"

#include <algorithm>
#include <atomic>

#include "graph/common/agree.hpp"
#include "weft/exchange.hpp"
#include "weft/graph/process.hpp"

namespace weft::graph {
namespace {

// The message for an edge to the rank that has its row.
struct Arc {
  VertexId row, other;
};
struct WeightedArc {
  VertexId row, other;
  Weight weight;
};

// The largest that a ring can get, in a job of this many ranks: rings of the usual size from every
// rank to every other would take more memory than the rows of many small ranks. 0: the usual.
std::size_t ring_bytes(int num_ranks) {
  constexpr std::size_t kOfAThread = std::size_t{4} << 20, kLeast = std::size_t{64} << 10;
  if (num_ranks < 4) return 0;
  const std::size_t share = kOfAThread / static_cast<std::size_t>(num_ranks - 1);
  return std::max(share / kLeast * kLeast, kLeast);
}

// Visits (row, other, weight) for the rows of an edge.
template <class Visit>
auto by_rows(const RowKind& kind, Visit& visit) {
  return [&kind, &visit](VertexId source, VertexId destination, Weight weight) {
    if (kind.out || kind.undirected) visit(source, destination, weight);
    if (!kind.out || (kind.undirected && source != destination)) visit(destination, source, weight);
  };
}

void throw_first(transport::Job& job, const EdgeFeed& edges, const std::vector<Status>& results) {
  Status status = first_failure(results);
  if (status.ok()) status = edges.check_unchanged();
  throw_together(job, status);
}

// Prefix sums: each thread's count of a row becomes its first index in the row.
void add_up(Team& team, Places& places, Buffer<std::uint32_t>& degrees) {
  detail::WorkCounter work(degrees.size(), {.grain = 4096}, team.size());
  team.run([&](int thread) {
    work.work(thread, [&](std::uint64_t begin, std::uint64_t end) {
      for (std::uint64_t v = begin; v < end; ++v) {
        std::uint32_t sum = 0;
        for (Buffer<std::uint32_t>& thread_places : places) {
          const std::uint32_t count = thread_places[v];
          thread_places[v] = sum;
          sum += count;
        }
        degrees[v] = sum;
      }
    });
  });
}

class Filler {
 public:
  Filler(transport::Job& job, Team& team, EdgeFeed& edges, const RowKind& kind,
         const std::vector<VertexId>& cut, bool is_last, Places& places, Rows& rows)
      : job_(job),
        team_(team),
        edges_(edges),
        kind_(kind),
        cut_(cut),
        is_last_(is_last),
        first_(cut[static_cast<std::size_t>(job.rank())]),
        num_rows_(cut[static_cast<std::size_t>(job.rank()) + 1] - first_),
        places_(places),
        offsets_(rows.offsets.data()),
        vertices_(rows.vertices.data()),
        weights_(rows.weights.empty() ? nullptr : rows.weights.data()),
        size_(rows.vertices.size()),
        results_(static_cast<std::size_t>(team.size())) {}

  void run() {
    if (job_.size() == 1)
      fill_alone();
    else if (edges_.weighted())
      fill_together<WeightedArc>();
    else
      fill_together<Arc>();
    throw_first(job_, edges_, results_);
  }

 private:
  // A file that changes between the passes may have more edges for a row than were counted.
  void place_at(std::uint64_t at, VertexId row, VertexId other, Weight weight) {
    if (at >= size_) return;
    vertices_[at] = other;
    if (weights_ != nullptr)
      weights_[at] = kind_.weights == Weights::hash ? hash_weight(row, other) : weight;
  }
  void place(VertexId row, VertexId other, Weight weight) {
    std::uint64_t& next = offsets_[row - first_ + 1];
    place_at(shared_ ? std::atomic_ref(next).fetch_add(1, std::memory_order_relaxed) : next++, row,
             other, weight);
  }

  void fill_alone() {
    team_.run([&](int thread) {
      const auto t = static_cast<std::size_t>(thread);
      std::uint32_t* const places = places_.empty() ? nullptr : places_[t].data();
      const auto put = [&](VertexId row, VertexId other, Weight weight) {
        if (places != nullptr)
          place_at(offsets_[row] + places[row]++, row, other, weight);
        else if (row - first_ < num_rows_)
          place(row, other, weight);
      };
      results_[t] = edges_.for_each(thread, is_last_, by_rows(kind_, put), [] {});
    });
  }

  template <class Message>
  void place_message(const Message& message) {
    if (message.row - first_ >= num_rows_) return;  // not this rank's: no rank sends such an edge
    if constexpr (std::is_same_v<Message, WeightedArc>)
      place(message.row, message.other, message.weight);
    else
      place(message.row, message.other, 1);
  }

  template <class Message>
  void fill_together() {
    transport::Exchange<Message> exchange(job_, team_.size(),
                                          {.ring_bytes = ring_bytes(job_.size())});
    team_.run([&](int thread) {
      Code failed = Code::ok;
      const auto deliver = [&](VertexId row, VertexId other, Weight weight) {
        if (row - first_ < num_rows_) {
          place(row, other, weight);
          return;
        }
        if (row < cut_.front() || row >= cut_.back()) return;
        Message message{};
        message.row = row;
        message.other = other;
        if constexpr (std::is_same_v<Message, WeightedArc>) message.weight = weight;
        const Code code = exchange.send(owner_of(row), thread, message);
        if (code != Code::ok) failed = code;
      };
      const auto receive = [&] {
        for (std::span<const Message> messages; exchange.receive(thread, messages);)
          for (const Message& message : messages) place_message(message);
      };
      unsigned since = 0;
      const auto put = by_rows(kind_, deliver);
      Status status = edges_.for_each(
          thread, is_last_,
          [&](VertexId source, VertexId destination, Weight weight) {
            put(source, destination, weight);
            if (++since % 1024 == 0) receive();
          },
          receive);
      const Status ended =
          exchange.quiesce(thread, [&](const Message& message) { place_message(message); });
      if (status.ok()) status = ended;
      if (status.ok() && failed != Code::ok) status = {failed, "cannot send edges to their owners"};
      results_[static_cast<std::size_t>(thread)] = status;
    });
  }

  int owner_of(VertexId row) const noexcept {
    return static_cast<int>(std::upper_bound(cut_.begin() + 1, cut_.end() - 1, row) -
                            (cut_.begin() + 1));
  }

  transport::Job& job_;
  Team& team_;
  EdgeFeed& edges_;
  const RowKind kind_;
  const std::vector<VertexId>& cut_;
  const bool is_last_;
  const VertexId first_, num_rows_;
  const bool shared_ = team_.size() > 1;
  Places& places_;
  std::uint64_t* const offsets_;
  VertexId* const vertices_;
  Weight* const weights_;
  const std::uint64_t size_;
  std::vector<Status> results_;  // by thread
};

}  // namespace

void count_edges(transport::Job& job, Team& team, EdgeFeed& edges, const RowKind& kind,
                 Buffer<std::uint32_t>& degrees, Places& places) {
  const bool shared = places.empty() && team.size() > 1;
  std::vector<Status> results(static_cast<std::size_t>(team.size()));
  team.run([&](int thread) {
    const auto t = static_cast<std::size_t>(thread);
    std::uint32_t* const counts = places.empty() ? degrees.data() : places[t].data();
    const auto increment = [&](VertexId row, VertexId, Weight) {
      if (shared)
        atomic_add(counts[row], 1u);
      else
        ++counts[row];
    };
    results[t] = edges.for_each(thread, false, by_rows(kind, increment), [] {});
  });
  throw_first(job, edges, results);
  if (!places.empty()) add_up(team, places, degrees);
  if (job.size() == 1) return;
  // The sum needs as much memory again, so it is made in pieces.
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  for (std::size_t at = 0; at < degrees.size(); at += kPiece)
    throw_if(job.all_reduce(
        std::span<std::uint32_t>(degrees.data() + at, std::min(kPiece, degrees.size() - at)),
        std::plus<>()));
}

void fill_rows(transport::Job& job, Team& team, EdgeFeed& edges, const RowKind& kind,
               const std::vector<VertexId>& cut, bool is_last, Places& places, Rows& rows) {
  Filler(job, team, edges, kind, cut, is_last, places, rows).run();
}

}  // namespace weft::graph
