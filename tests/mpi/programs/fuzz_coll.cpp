// fuzz_coll SEED ROUNDS [THREADS]: random collectives against an exact model.
//
// All processes draw the same plan from the seed: in each round some collectives and messages at
// once, on a communicator of random order, among them collectives among the neighbours of a graph.
// A collective is blocking, nonblocking or persistent (and then run twice), in place or not, of
// elements with or without gaps, with operations that do not commute among others. Each process
// puts its messages between the collectives where it likes, one comes late (it waits for a message
// that another sends only when its own requests have been tested for a while), and requests are
// completed by any of the functions that do so. Every element of every result is known from a
// formula, and what lies between the elements must stay.
//
// With THREADS, each thread does this on communicators of its own.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "expect.h"

namespace {

struct Random {
  std::uint64_t state;
  int below(int n) { return static_cast<int>(next_random(&state) % static_cast<unsigned>(n)); }
  bool one_in(int n) { return below(n) == 0; }
};

using Word = std::uint32_t;
constexpr Word kUntouched = 0x5a5a5a5a;

Word value(std::uint64_t id, int from, int key, int i) {
  return static_cast<Word>(seed_of(id, static_cast<std::uint64_t>(from * 1000 + key), i));
}

// Maps x -> a x + b, which do not commute: one after the other.
void compose(void* in, void* inout, int* count, MPI_Datatype*) {
  const Word* first = static_cast<const Word*>(in);
  Word* second = static_cast<Word*>(inout);
  for (int i = 0; i < *count; ++i, first += 2, second += 2) {
    second[1] += second[0] * first[1];
    second[0] *= first[0];
  }
}

struct Shared {
  MPI_Op compose_op;
  MPI_Datatype map;
  MPI_Datatype spaced[4];  // words that many words apart
};
Shared shared;

enum Kind {
  kBarrier,
  kBcast,
  kGather,
  kGatherv,
  kScatter,
  kScatterv,
  kAllgather,
  kAllgatherv,
  kAlltoall,
  kAlltoallv,
  kAlltoallw,
  kNeighborAllgather,
  kNeighborAllgatherv,
  kNeighborAlltoall,
  kNeighborAlltoallv,
  kNeighborAlltoallw,
  kReduce,
  kAllreduce,
  kScan,
  kExscan,
  kReduceScatter,
  kReduceScatterBlock,
  kKinds
};
enum Form { kBlocking, kNonblocking, kPersistent, kForms };

struct Group {
  MPI_Comm comm, graph;
  int rank, size;
  std::vector<int> steps;  // each process sends to the ones so many ranks on
};

// Blocks of words, each from somebody and with a key, one after the other.
struct Blocks {
  struct Block {
    int from, key, count;
  };
  std::vector<Block> blocks;
  std::vector<int> counts, places, byte_places;
  std::vector<MPI_Aint> wide_places;
  std::vector<MPI_Datatype> types;
  std::vector<Word> data;
  int stride = 1;

  void add(int from, int key, int count) { blocks.push_back({from, key, count}); }
  void lay_out(int a_stride, int gap) {
    stride = a_stride;
    int at = 0;
    for (const Block& block : blocks) {
      counts.push_back(block.count);
      places.push_back(at);
      byte_places.push_back(at * stride * 4);
      wide_places.push_back(at * stride * 4);
      types.push_back(type());
      at += block.count + gap;
    }
    data.assign(static_cast<std::size_t>((at + 1) * stride), kUntouched);
  }
  MPI_Datatype type() const { return shared.spaced[stride]; }
  void write(std::uint64_t id, std::size_t k) {
    for (int i = 0; i < blocks[k].count; ++i)
      data[static_cast<std::size_t>((places[k] + i) * stride)] =
          value(id, blocks[k].from, blocks[k].key, i);
  }
  void write(std::uint64_t id) {
    for (std::size_t k = 0; k < blocks.size(); ++k) write(id, k);
  }
};

// One collective of the plan, as this process takes part in it.
class Collective {
 public:
  Collective(const Group& group, std::uint64_t id, Random random) : group_(group), id_(id) {
    kind_ = static_cast<Kind>(random.below(kKinds));
    form_ = static_cast<Form>(random.below(kForms));
    base_ = random.one_in(8) ? random.below(20000) : random.below(40);
    root_ = random.below(group.size);
    stride_ = 1 + random.below(3);
    in_place_ = random.one_in(3);
    maps_ = random.one_in(2);
    op_ = random.below(3);
    if (kind_ >= kReduce)
      prepare_reduction();
    else
      prepare_blocks();
  }

  bool is_blocking() const { return form_ == kBlocking; }
  bool is_persistent() const { return form_ == kPersistent; }
  // Blocking ones are over when it returns.
  MPI_Request start() {
    request_ = MPI_REQUEST_NULL;
    fill();
    EXPECT_OK(call());
    if (form_ == kPersistent) EXPECT_OK(MPI_Start(&request_));
    return request_;
  }
  void start_again() {
    ++id_;
    fill();
    EXPECT_OK(MPI_Start(&request_));
    EXPECT_OK(MPI_Wait(&request_, MPI_STATUS_IGNORE));
  }
  void free() { EXPECT_OK(MPI_Request_free(&request_)); }
  void check() const {
    for (std::size_t i = 0; i < expected_.size(); ++i)
      if (in_.data[i] != expected_[i]) {
        std::fprintf(stderr,
                     "collective %d, form %d, rank %d of %d, base %d, root %d, stride %d%s%s: word "
                     "%zu is %x, expected %x\n",
                     kind_, form_, group_.rank, group_.size, base_, root_, stride_,
                     in_place_ ? ", in place" : "", maps_ ? ", maps" : "", i, in_.data[i],
                     expected_[i]);
        return failed(__FILE__, __LINE__, "a wrong result");
      }
  }

 private:
  // How much one sends to another; the same both ways, so that it can be done in place.
  int some(int a, int b) const {
    return static_cast<int>(mix(static_cast<std::uint64_t>(std::min(a, b) * 1000 + std::max(a, b)) +
                                static_cast<std::uint64_t>(base_)) %
                            static_cast<unsigned>(base_ + 1));
  }
  void prepare_blocks() {
    const int r = group_.rank, n = group_.size, c = base_;
    const bool varies = kind_ == kGatherv || kind_ == kScatterv || kind_ == kAllgatherv ||
                        kind_ == kAlltoallv || kind_ == kAlltoallw ||
                        kind_ == kNeighborAllgatherv || kind_ == kNeighborAlltoallv ||
                        kind_ == kNeighborAlltoallw;
    const auto count = [&](int a, int b) { return varies ? some(a, b) : c; };
    const auto source = [&](int step) { return (r + n - step % n) % n; };
    bool may_be_in_place = false;
    switch (kind_) {
      case kBcast:
        in_.add(root_, 0, c);
        break;
      case kGather:
      case kGatherv:
        out_.add(r, 0, count(r, 0));
        if (r == root_)
          for (int j = 0; j < n; ++j) in_.add(j, 0, count(j, 0));
        may_be_in_place = r == root_;
        break;
      case kScatter:
      case kScatterv:
        if (r == root_)
          for (int j = 0; j < n; ++j) out_.add(r, j, count(0, j));
        in_.add(root_, r, count(0, r));
        break;
      case kAllgather:
      case kAllgatherv:
        out_.add(r, 0, count(r, 0));
        for (int j = 0; j < n; ++j) in_.add(j, 0, count(j, 0));
        may_be_in_place = true;
        break;
      case kAlltoall:
      case kAlltoallv:
      case kAlltoallw:
        for (int j = 0; j < n; ++j) out_.add(r, j, count(r, j));
        for (int j = 0; j < n; ++j) in_.add(j, r, count(j, r));
        may_be_in_place = true;
        break;
      case kNeighborAllgather:
      case kNeighborAllgatherv:
        out_.add(r, 0, count(r, 0));
        for (const int step : group_.steps) in_.add(source(step), 0, count(source(step), 0));
        break;
      case kNeighborAlltoall:
      case kNeighborAlltoallv:
      case kNeighborAlltoallw:
        for (std::size_t k = 0; k < group_.steps.size(); ++k) {
          const int key = static_cast<int>(k), from = source(group_.steps[k]);
          out_.add(r, key, count(r, (r + group_.steps[k]) % n));
          in_.add(from, key, count(from, r));
        }
        break;
      default:
        break;
    }
    in_place_ = in_place_ && may_be_in_place;
    out_.lay_out(1 + (stride_ + 1) % 3, varies ? 1 : 0);
    in_.lay_out(stride_, varies ? 1 : 0);
  }
  void prepare_reduction() {
    if (maps_) stride_ = 1;
    if (kind_ == kReduce && group_.rank != root_) in_place_ = false;
    width_ = maps_ ? 2 : 1;
    const int n = group_.size;
    int total = base_;
    if (kind_ == kReduceScatter || kind_ == kReduceScatterBlock) {
      total = 0;
      for (int j = 0; j < n; ++j) {
        parts_.push_back(kind_ == kReduceScatter ? some(j, 0) / n : base_ / n);
        total += parts_.back();
      }
    }
    total_ = total;
    out_.add(0, 0, total * width_);
    in_.add(0, 0, total * width_);
    out_.lay_out(1, 1);
    in_.lay_out(1, 1);
  }

  Word operand(int from, int i) const { return value(id_, from, 0, i); }
  // What operands `first` to `last` make.
  std::vector<Word> reduced(int first, int last) const {
    std::vector<Word> result(static_cast<std::size_t>(total_ * width_));
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = operand(first, static_cast<int>(i));
    for (int from = first + 1; from <= last; ++from)
      for (int i = 0; i < total_; ++i) {
        if (maps_) {
          // The result so far is applied first.
          Word* so_far = &result[static_cast<std::size_t>(2 * i)];
          const Word a = operand(from, 2 * i), b = operand(from, 2 * i + 1);
          so_far[1] = b + a * so_far[1];
          so_far[0] *= a;
          continue;
        }
        Word& so_far = result[static_cast<std::size_t>(i)];
        const Word next = operand(from, i);
        so_far = op_ == 0 ? so_far + next : op_ == 1 ? std::max(so_far, next) : so_far ^ next;
      }
    return result;
  }
  void fill() {
    const int r = group_.rank, n = group_.size;
    std::fill(in_.data.begin(), in_.data.end(), kUntouched);
    if (kind_ < kReduce) {
      out_.write(id_);
      expected_ = in_.data;
      Blocks wanted = in_;
      wanted.write(id_);
      expected_ = wanted.data;
      if (kind_ == kBcast && r == root_) in_.write(id_);
      if (!in_place_) return;
      // What would be sent lies where it is received: own blocks, or all.
      if (kind_ < kAlltoall) return in_.write(id_, static_cast<std::size_t>(r));
      Blocks mine = in_;
      for (int j = 0; j < n; ++j)
        mine.blocks[static_cast<std::size_t>(j)] = out_.blocks[static_cast<std::size_t>(j)];
      mine.write(id_);
      in_.data = mine.data;
      return;
    }
    std::vector<Word>& source = in_place_ ? in_.data : out_.data;
    for (int i = 0; i < total_ * width_; ++i) source[static_cast<std::size_t>(i)] = operand(r, i);
    expected_ = in_.data;
    if (kind_ == kReduce && r != root_) return;
    if (kind_ == kExscan && r == 0) return;
    const int last = kind_ == kScan ? r : kind_ == kExscan ? r - 1 : n - 1;
    const std::vector<Word> result = reduced(0, last);
    int first = 0, count = total_;
    if (!parts_.empty()) {
      for (int j = 0; j < r; ++j) first += parts_[static_cast<std::size_t>(j)];
      count = parts_[static_cast<std::size_t>(r)];
    }
    for (int i = 0; i < count * width_; ++i)
      expected_[static_cast<std::size_t>(i)] = result[static_cast<std::size_t>(first * width_ + i)];
    // In place, what is not the result is undefined afterwards.
    if (in_place_ && !parts_.empty()) expected_.resize(static_cast<std::size_t>(count * width_));
  }

#define IN_FORM(name, iname, comm, ...)                                \
  (form_ == kBlocking      ? MPI_##name(__VA_ARGS__, comm)             \
   : form_ == kNonblocking ? MPI_##iname(__VA_ARGS__, comm, &request_) \
                           : MPI_##name##_init(__VA_ARGS__, comm, MPI_INFO_NULL, &request_))
  int call() {
    const void* from = in_place_ ? MPI_IN_PLACE : out_.data.data();
    void* to = in_.data.data();
    const int* out_counts = out_.counts.data();
    const int* in_counts = in_.counts.data();
    const int out_count = out_.counts.empty() ? 0 : out_counts[0];
    const int in_count = in_.counts.empty() ? 0 : in_counts[0];
    const int* out_places = out_.places.data();
    const int* in_places = in_.places.data();
    const MPI_Datatype out_type = out_.type(), in_type = in_.type();
    const MPI_Comm comm = group_.comm, graph = group_.graph;
    const MPI_Datatype element = maps_ ? shared.map : MPI_UINT32_T;
    const MPI_Op op = maps_      ? shared.compose_op
                      : op_ == 0 ? MPI_SUM
                      : op_ == 1 ? MPI_MAX
                                 : MPI_BXOR;
    switch (kind_) {
      case kBarrier:
        return form_ == kBlocking      ? MPI_Barrier(comm)
               : form_ == kNonblocking ? MPI_Ibarrier(comm, &request_)
                                       : MPI_Barrier_init(comm, MPI_INFO_NULL, &request_);
      case kBcast:
        return IN_FORM(Bcast, Ibcast, comm, to, in_count, in_type, root_);
      case kGather:
        return IN_FORM(Gather, Igather, comm, from, out_count, out_type, to, in_count, in_type,
                       root_);
      case kGatherv:
        return IN_FORM(Gatherv, Igatherv, comm, from, out_count, out_type, to, in_counts, in_places,
                       in_type, root_);
      case kScatter:
        return IN_FORM(Scatter, Iscatter, comm, from, out_count, out_type, to, in_count, in_type,
                       root_);
      case kScatterv:
        return IN_FORM(Scatterv, Iscatterv, comm, from, out_counts, out_places, out_type, to,
                       in_count, in_type, root_);
      case kAllgather:
        return IN_FORM(Allgather, Iallgather, comm, from, out_count, out_type, to, in_count,
                       in_type);
      case kAllgatherv:
        return IN_FORM(Allgatherv, Iallgatherv, comm, from, out_count, out_type, to, in_counts,
                       in_places, in_type);
      case kAlltoall:
        return IN_FORM(Alltoall, Ialltoall, comm, from, out_count, out_type, to, in_count, in_type);
      case kAlltoallv:
        return IN_FORM(Alltoallv, Ialltoallv, comm, from, out_counts, out_places, out_type, to,
                       in_counts, in_places, in_type);
      case kAlltoallw:
        return IN_FORM(Alltoallw, Ialltoallw, comm, from, out_counts, out_.byte_places.data(),
                       out_.types.data(), to, in_counts, in_.byte_places.data(), in_.types.data());
      case kNeighborAllgather:
        return IN_FORM(Neighbor_allgather, Ineighbor_allgather, graph, from, out_count, out_type,
                       to, in_count, in_type);
      case kNeighborAllgatherv:
        return IN_FORM(Neighbor_allgatherv, Ineighbor_allgatherv, graph, from, out_count, out_type,
                       to, in_counts, in_places, in_type);
      case kNeighborAlltoall:
        return IN_FORM(Neighbor_alltoall, Ineighbor_alltoall, graph, from, out_count, out_type, to,
                       in_count, in_type);
      case kNeighborAlltoallv:
        return IN_FORM(Neighbor_alltoallv, Ineighbor_alltoallv, graph, from, out_counts, out_places,
                       out_type, to, in_counts, in_places, in_type);
      case kNeighborAlltoallw:
        return IN_FORM(Neighbor_alltoallw, Ineighbor_alltoallw, graph, from, out_counts,
                       out_.wide_places.data(), out_.types.data(), to, in_counts,
                       in_.wide_places.data(), in_.types.data());
      case kReduce:
        return IN_FORM(Reduce, Ireduce, comm, from, to, total_, element, op, root_);
      case kAllreduce:
        return IN_FORM(Allreduce, Iallreduce, comm, from, to, total_, element, op);
      case kScan:
        return IN_FORM(Scan, Iscan, comm, from, to, total_, element, op);
      case kExscan:
        return IN_FORM(Exscan, Iexscan, comm, from, to, total_, element, op);
      case kReduceScatter:
        return IN_FORM(Reduce_scatter, Ireduce_scatter, comm, from, to, parts_.data(), element, op);
      case kReduceScatterBlock:
        return IN_FORM(Reduce_scatter_block, Ireduce_scatter_block, comm, from, to, parts_[0],
                       element, op);
      case kKinds:
        break;
    }
    return MPI_ERR_OTHER;
  }

  const Group& group_;
  std::uint64_t id_;
  Kind kind_;
  Form form_;
  int base_, root_, stride_, op_;
  bool in_place_, maps_;
  int width_ = 1, total_ = 0;
  std::vector<int> parts_;
  Blocks out_, in_;
  std::vector<Word> expected_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

struct Message {
  int from, to, count;
};

constexpr int kTokenTag = 5;
constexpr int kMessageTag = 100;

// Ends all requests, in one of the ways there are.
void complete(std::vector<MPI_Request>& requests, Random& own) {
  const int n = static_cast<int>(requests.size());
  std::vector<int> indices(requests.size() + 1);
  int flag = 0, index = 0, done = 0;
  switch (own.below(6)) {
    case 0:
      EXPECT_OK(MPI_Waitall(n, requests.data(), MPI_STATUSES_IGNORE));
      break;
    case 1:
      while (!flag) EXPECT_OK(MPI_Testall(n, requests.data(), &flag, MPI_STATUSES_IGNORE));
      break;
    case 2:  // each by itself, the last first
      for (int i = n; i-- > 0;) EXPECT_OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
      break;
    case 3:
      do {
        EXPECT_OK(MPI_Testany(n, requests.data(), &index, &flag, MPI_STATUS_IGNORE));
      } while (!flag || index != MPI_UNDEFINED);
      break;
    case 4:
      do {
        EXPECT_OK(MPI_Waitsome(n, requests.data(), &done, indices.data(), MPI_STATUSES_IGNORE));
      } while (done != MPI_UNDEFINED);
      break;
    default:
      for (int i = 0; i < n; ++i)
        for (flag = 0; !flag;) EXPECT_OK(MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE));
  }
}

void one_round(const Group& group, std::uint64_t id, Random plan, Random own) {
  const int r = group.rank, n = group.size;
  std::vector<std::unique_ptr<Collective>> collectives;
  for (int i = 1 + plan.below(5); i-- > 0; id += 2)
    collectives.push_back(std::make_unique<Collective>(group, id, Random{plan.state + id}));
  std::vector<Message> messages;
  for (int i = plan.below(8); i-- > 0;)
    messages.push_back({plan.below(n), plan.below(n), plan.one_in(6) ? 30000 : plan.below(100)});
  const int late = plan.one_in(3) ? plan.below(n) : -1, waker = (late + 1) % n;

  if (late == r && n > 1)
    EXPECT_OK(MPI_Recv(nullptr, 0, MPI_INT, waker, kTokenTag, group.comm, MPI_STATUS_IGNORE));

  std::vector<MPI_Request> requests;
  std::vector<std::vector<Word>> buffers(2 * messages.size());
  std::size_t next = 0;
  const auto start_message = [&] {
    const Message& m = messages[next];
    const int tag = kMessageTag + static_cast<int>(next);
    for (const bool sends : {false, true}) {
      if ((sends ? m.from : m.to) != r) continue;
      std::vector<Word>& buffer = buffers[2 * next + (sends ? 1 : 0)];
      buffer.assign(static_cast<std::size_t>(m.count + 1), kUntouched);
      for (int i = 0; sends && i < m.count; ++i)
        buffer[static_cast<std::size_t>(i)] = value(id, m.from, m.to, i);
      MPI_Request request;
      if (sends)
        EXPECT_OK(MPI_Isend(buffer.data(), m.count, MPI_UINT32_T, m.to, tag, group.comm, &request));
      else
        EXPECT_OK(
            MPI_Irecv(buffer.data(), m.count, MPI_UINT32_T, m.from, tag, group.comm, &request));
      requests.push_back(request);
    }
    ++next;
  };
  bool woken = late < 0 || waker != r || n == 1;
  // Whoever wakes the late one must not wait for it in a blocking collective first.
  const auto wake = [&] {
    if (woken) return;
    int flag = 0;
    for (int i = 0; i < 50 && !requests.empty(); ++i)
      EXPECT_OK(MPI_Request_get_status(requests[static_cast<std::size_t>(i) % requests.size()],
                                       &flag, MPI_STATUS_IGNORE));
    EXPECT_OK(MPI_Send(nullptr, 0, MPI_INT, late, kTokenTag, group.comm));
    woken = true;
  };
  const std::size_t wake_before = static_cast<std::size_t>(own.below(3));
  for (std::size_t i = 0; i < collectives.size(); ++i) {
    while (next < messages.size() && own.one_in(2)) start_message();
    if (i >= wake_before || collectives[i]->is_blocking()) wake();
    const MPI_Request request = collectives[i]->start();
    if (request != MPI_REQUEST_NULL) requests.push_back(request);
  }
  while (next < messages.size()) start_message();
  wake();
  complete(requests, own);
  for (const auto& collective : collectives) collective->check();
  for (const auto& collective : collectives)
    if (collective->is_persistent()) {
      collective->start_again();
      collective->check();
      collective->free();
    }
  for (std::size_t k = 0; k < messages.size(); ++k) {
    const Message& m = messages[k];
    if (m.to != r) continue;
    const std::vector<Word>& buffer = buffers[2 * k];
    bool right = buffer.back() == kUntouched;
    for (int i = 0; i < m.count; ++i)
      right = right && buffer[static_cast<std::size_t>(i)] == value(id, m.from, m.to, i);
    if (!right) failed(__FILE__, __LINE__, "a wrong message");
  }
}

// A group of all processes in random order, or of some of them; the others get none.
bool make_group(Random& plan, Group& group) {
  const bool part = plan.one_in(3) && size > 2;
  const int left_out = plan.below(size);
  const int key = static_cast<int>(mix(plan.state + static_cast<std::uint64_t>(rank)) >> 40);
  EXPECT_OK(MPI_Comm_split(MPI_COMM_WORLD, part && rank == left_out ? MPI_UNDEFINED : 0, key,
                           &group.comm));
  group.steps.clear();
  for (int i = plan.below(4); i-- > 0;) group.steps.push_back(plan.below(5));
  if (group.comm == MPI_COMM_NULL) return false;
  MPI_Comm_rank(group.comm, &group.rank);
  MPI_Comm_size(group.comm, &group.size);
  std::vector<int> sources, destinations;
  for (const int step : group.steps) {
    sources.push_back((group.rank + group.size - step % group.size) % group.size);
    destinations.push_back((group.rank + step) % group.size);
  }
  // Not null where there are none.
  sources.push_back(0);
  destinations.push_back(0);
  const int degree = static_cast<int>(group.steps.size());
  EXPECT_OK(MPI_Dist_graph_create_adjacent(group.comm, degree, sources.data(), MPI_UNWEIGHTED,
                                           degree, destinations.data(), MPI_UNWEIGHTED,
                                           MPI_INFO_NULL, 0, &group.graph));
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  learn_place();
  const std::uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 0) : 1;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 20;
  const int num_threads = argc > 3 ? std::atoi(argv[3]) : 1;
  MPI_Op_create(compose, 0, &shared.compose_op);
  MPI_Type_contiguous(2, MPI_UINT32_T, &shared.map);
  MPI_Type_commit(&shared.map);
  for (int stride = 1; stride < 4; ++stride) {
    MPI_Type_create_resized(MPI_UINT32_T, 0, 4 * stride, &shared.spaced[stride]);
    MPI_Type_commit(&shared.spaced[stride]);
  }
  // Some groups after each other, as many at a time as there are threads.
  constexpr int kRoundsOfGroup = 12;
  for (int done = 0; done < rounds; done += kRoundsOfGroup) {
    std::vector<Group> groups(static_cast<std::size_t>(num_threads));
    std::vector<std::thread> threads;
    std::vector<bool> member(groups.size());
    for (std::size_t t = 0; t < groups.size(); ++t) {
      Random plan{seed_of(seed, static_cast<std::uint64_t>(done), t)};
      member[t] = make_group(plan, groups[t]);
    }
    for (std::size_t t = 0; t < groups.size(); ++t)
      if (member[t])
        threads.emplace_back([&, t] {
          for (int i = done; i < rounds && i < done + kRoundsOfGroup; ++i) {
            const std::uint64_t id = seed_of(seed, static_cast<std::uint64_t>(i), t + 77);
            one_round(groups[t], id, Random{id}, Random{id + 1 + static_cast<std::uint64_t>(rank)});
          }
        });
    for (std::thread& thread : threads) thread.join();
    for (std::size_t t = 0; t < groups.size(); ++t)
      if (member[t]) {
        MPI_Comm_free(&groups[t].graph);
        MPI_Comm_free(&groups[t].comm);
      }
  }
  for (int stride = 1; stride < 4; ++stride) MPI_Type_free(&shared.spaced[stride]);
  MPI_Type_free(&shared.map);
  MPI_Op_free(&shared.compose_op);
  return end();
}
