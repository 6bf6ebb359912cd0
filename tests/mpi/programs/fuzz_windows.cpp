// fuzz_windows SEED ROUNDS: random one-sided operations against a model. All processes draw the
// same numbers, so each knows what every other does, and what its own memory must hold afterwards.
//
// In every round each origin has a part of its own of every target's memory for puts, and all share
// another part for accumulates by one operation. Windows are of a random flavor, epochs of a random
// kind; buffers and targets have random layouts.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "expect.h"

namespace {

constexpr int kPart = 256;    // ints an origin has at each target
constexpr int kShared = 64;   // 64-bit words that all accumulate to
constexpr int kMostOps = 12;  // of an origin in a round

struct Random {
  std::uint64_t state;
  int below(int n) { return static_cast<int>(next_random(&state) % static_cast<unsigned>(n)); }
  int from_to(int low, int high) { return low + below(high - low + 1); }
};

// `count` blocks of `length` ints, `stride` ints apart.
struct Shape {
  int count, length, stride;
  int ints() const { return count * length; }
  int span() const { return (count - 1) * stride + length; }
  int place(int i) const { return i / length * stride + i % length; }
};
Shape draw_shape(Random& random, int ints, int room) {
  std::vector<int> divisors;
  for (int i = 1; i <= ints; ++i)
    if (ints % i == 0) divisors.push_back(i);
  const int length =
      divisors[static_cast<std::size_t>(random.below(static_cast<int>(divisors.size())))];
  const int count = ints / length;
  const int most = count == 1 ? length : (room - length) / (count - 1);
  return {count, length, random.from_to(length, std::max(length, std::min(most, length + 5)))};
}
class Type {
 public:
  explicit Type(const Shape& shape) {
    MPI_Type_vector(shape.count, shape.length, shape.stride, MPI_INT, &type_);
    MPI_Type_commit(&type_);
  }
  ~Type() { MPI_Type_free(&type_); }
  Type(const Type&) = delete;
  Type& operator=(const Type&) = delete;
  operator MPI_Datatype() const { return type_; }

 private:
  MPI_Datatype type_;
};

enum class Epoch { fence, post_start, lock_each, exclusive_each, lock_all, kCount };

struct Window {
  MPI_Win win = MPI_WIN_NULL;
  int flavor = 0;
  std::vector<long long> own;  // of create and dynamic
  long long* memory = nullptr;
  std::vector<MPI_Aint> bases;  // of dynamic

  static std::size_t words() { return static_cast<std::size_t>(kShared + size * kPart / 2); }
  void open(int the_flavor) {
    flavor = the_flavor;
    const auto bytes = static_cast<MPI_Aint>(words() * 8);
    bases.assign(static_cast<std::size_t>(size), 0);
    if (flavor == 0) {
      EXPECT_OK(MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    } else {
      own.assign(words(), 0);
      memory = own.data();
      if (flavor == 1) {
        EXPECT_OK(MPI_Win_create(memory, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
      } else {
        EXPECT_OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
        EXPECT_OK(MPI_Win_attach(win, memory, bytes));
        MPI_Aint base;
        MPI_Get_address(memory, &base);
        MPI_Allgather(&base, 1, MPI_AINT, bases.data(), 1, MPI_AINT, MPI_COMM_WORLD);
      }
    }
    EXPECT_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win));
    std::fill_n(memory, words(), 0);
    EXPECT_OK(MPI_Win_unlock(rank, win));
    MPI_Barrier(MPI_COMM_WORLD);
  }
  void close() {
    if (flavor == 2) {
      MPI_Barrier(MPI_COMM_WORLD);
      EXPECT_OK(MPI_Win_detach(win, memory));
    }
    EXPECT_OK(MPI_Win_free(&win));
  }
  MPI_Aint at(int target, MPI_Aint offset) const {
    return bases[static_cast<std::size_t>(target)] + offset;
  }
  static MPI_Aint part_of(int origin) { return 8 * kShared + 4 * MPI_Aint{kPart} * origin; }
};

void begin_epoch(Epoch epoch, MPI_Win win) {
  MPI_Group all;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  if (epoch == Epoch::fence) EXPECT_OK(MPI_Win_fence(0, win));
  if (epoch == Epoch::post_start) {
    EXPECT_OK(MPI_Win_post(all, 0, win));
    EXPECT_OK(MPI_Win_start(all, 0, win));
  }
  if (epoch == Epoch::lock_all) EXPECT_OK(MPI_Win_lock_all(0, win));
  MPI_Group_free(&all);
}
void end_epoch(Epoch epoch, MPI_Win win) {
  if (epoch == Epoch::fence) EXPECT_OK(MPI_Win_fence(0, win));
  if (epoch == Epoch::post_start) {
    EXPECT_OK(MPI_Win_complete(win));
    EXPECT_OK(MPI_Win_wait(win));
  }
  if (epoch == Epoch::lock_all) EXPECT_OK(MPI_Win_unlock_all(win));
  MPI_Barrier(MPI_COMM_WORLD);
}
bool locks_each(Epoch epoch) { return epoch == Epoch::lock_each || epoch == Epoch::exclusive_each; }
void begin_target(Epoch epoch, int target, MPI_Win win) {
  if (locks_each(epoch))
    EXPECT_OK(MPI_Win_lock(epoch == Epoch::lock_each ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target,
                           0, win));
}
void end_target(Epoch epoch, int target, MPI_Win win) {
  if (locks_each(epoch)) EXPECT_OK(MPI_Win_unlock(target, win));
}

struct Operation {
  bool is_put;
  int target;
  int value;       // the first of what is put or added
  Shape from, to;  // of a put, in ints; to: from `start` on in the origin's part
  int start;
  int first, num;  // of an accumulate: words
  bool wants_result, wants_request;
};

Operation draw(Random& random) {
  Operation op{};
  op.is_put = random.below(2) == 0;
  op.target = random.below(size);
  op.value = random.below(1000000);
  op.start = random.below(kPart / 2);
  const int ints = random.from_to(1, kPart / 4);
  op.from = draw_shape(random, ints, 2 * ints);
  op.to = draw_shape(random, ints, kPart - op.start);
  op.first = random.below(kShared);
  op.num = random.from_to(1, kShared - op.first);
  op.wants_result = random.below(2) == 0;
  op.wants_request = random.below(3) == 0;
  return op;
}

long long combine(int operation, long long a, long long b) {
  return operation == 0 ? a + b : operation == 1 ? a ^ b : std::max(a, b);
}

struct Buffers {
  std::vector<int> ints;
  std::vector<long long> words, results;
};

void run(const Window& window, const Operation& op, MPI_Op operation, Epoch epoch,
         Buffers& buffers) {
  MPI_Request request = MPI_REQUEST_NULL;
  // Requests are for passive targets only.
  const bool by_request = op.wants_request && epoch != Epoch::fence && epoch != Epoch::post_start;
  if (op.is_put) {
    buffers.ints.assign(static_cast<std::size_t>(op.from.span()), -7);
    for (int i = 0; i < op.from.ints(); ++i)
      buffers.ints[static_cast<std::size_t>(op.from.place(i))] = op.value + i;
    const Type from(op.from), to(op.to);
    const MPI_Aint place = window.at(op.target, Window::part_of(rank) + 4 * op.start);
    if (by_request)
      EXPECT_OK(
          MPI_Rput(buffers.ints.data(), 1, from, op.target, place, 1, to, window.win, &request));
    else
      EXPECT_OK(MPI_Put(buffers.ints.data(), 1, from, op.target, place, 1, to, window.win));
  } else {
    buffers.words.resize(static_cast<std::size_t>(op.num));
    buffers.results.assign(static_cast<std::size_t>(op.num), -1);
    for (int i = 0; i < op.num; ++i) buffers.words[static_cast<std::size_t>(i)] = op.value + i;
    const MPI_Aint place = window.at(op.target, 8 * op.first);
    if (op.wants_result)
      EXPECT_OK(MPI_Get_accumulate(buffers.words.data(), op.num, MPI_LONG_LONG,
                                   buffers.results.data(), op.num, MPI_LONG_LONG, op.target, place,
                                   op.num, MPI_LONG_LONG, operation, window.win));
    else if (by_request)
      EXPECT_OK(MPI_Raccumulate(buffers.words.data(), op.num, MPI_LONG_LONG, op.target, place,
                                op.num, MPI_LONG_LONG, operation, window.win, &request));
    else
      EXPECT_OK(MPI_Accumulate(buffers.words.data(), op.num, MPI_LONG_LONG, op.target, place,
                               op.num, MPI_LONG_LONG, operation, window.win));
  }
  if (by_request) EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

void apply(const Operation& op, int origin, int operation, std::vector<long long>& model) {
  if (op.is_put) {
    char* part = reinterpret_cast<char*>(model.data()) + Window::part_of(origin) + 4 * op.start;
    for (int i = 0; i < op.to.ints(); ++i) {
      const int value = op.value + i;
      std::memcpy(part + 4 * op.to.place(i), &value, sizeof value);
    }
  } else {
    for (int i = 0; i < op.num; ++i) {
      long long& word = model[static_cast<std::size_t>(op.first + i)];
      word = combine(operation, op.value + i, word);
    }
  }
}

// What another process's memory holds, fetched in a random layout.
void check_by_get(const Window& window, Random& random, Epoch epoch,
                  const std::vector<std::vector<long long>>& models) {
  const int target = random.below(size), origin = random.below(size);
  const Shape shape = draw_shape(random, random.from_to(1, kPart / 2), kPart);
  std::vector<int> got(static_cast<std::size_t>(shape.ints()), -1);
  {
    const Type type(shape);
    begin_epoch(epoch, window.win);
    begin_target(epoch, target, window.win);
    EXPECT_OK(MPI_Get(got.data(), shape.ints(), MPI_INT, target,
                      window.at(target, Window::part_of(origin)), 1, type, window.win));
    end_target(epoch, target, window.win);
    end_epoch(epoch, window.win);
  }
  const char* part =
      reinterpret_cast<const char*>(models[static_cast<std::size_t>(target)].data()) +
      Window::part_of(origin);
  for (int i = 0; i < shape.ints(); ++i) {
    int want;
    std::memcpy(&want, part + 4 * shape.place(i), sizeof want);
    if (got[static_cast<std::size_t>(i)] != want) {
      EXPECT_EQ(got[static_cast<std::size_t>(i)], want);
      return;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  begin(&argc, &argv);
  Random random{argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1};
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 100;
  static const MPI_Op kOps[] = {MPI_SUM, MPI_BXOR, MPI_MAX};
  Window window;
  std::vector<std::vector<long long>> models;
  for (int round = 0; round < rounds && num_failures == 0; ++round) {
    if (round % 10 == 0) {
      if (round != 0) window.close();
      window = Window();
      window.open(random.below(3));
      models.assign(static_cast<std::size_t>(size), std::vector<long long>(Window::words(), 0));
    }
    const auto epoch = static_cast<Epoch>(random.below(static_cast<int>(Epoch::kCount)));
    const int operation = random.below(3);
    // All of one origin's operations, in order; buffers last until the epoch has ended.
    std::vector<Operation> mine;
    for (int origin = 0; origin < size; ++origin) {
      const int num = random.below(kMostOps + 1);
      std::vector<bool> has_put(static_cast<std::size_t>(size), false);
      for (int i = 0; i < num; ++i) {
        Operation op = draw(random);
        // Puts to one target have no order within an epoch: one is all.
        if (epoch == Epoch::fence || epoch == Epoch::post_start) {
          auto has = has_put[static_cast<std::size_t>(op.target)];
          op.is_put = op.is_put && !has;
          has = has || op.is_put;
        }
        apply(op, origin, operation, models[static_cast<std::size_t>(op.target)]);
        if (origin == rank) mine.push_back(op);
      }
    }
    std::vector<std::unique_ptr<Buffers>> buffers;
    begin_epoch(epoch, window.win);
    for (const Operation& op : mine) {
      buffers.push_back(std::make_unique<Buffers>());
      begin_target(epoch, op.target, window.win);
      run(window, op, kOps[operation], epoch, *buffers.back());
      end_target(epoch, op.target, window.win);
      if (epoch == Epoch::lock_all) EXPECT_OK(MPI_Win_flush(op.target, window.win));
    }
    end_epoch(epoch, window.win);
    EXPECT_OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window.win));
    const auto& model = models[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < model.size(); ++i)
      if (window.memory[i] != model[i]) {
        fprintf(stderr, "rank %d: round %d of seed %s, flavor %d, epoch %d, word %zu\n", rank,
                round, argc > 1 ? argv[1] : "1", window.flavor, static_cast<int>(epoch), i);
        EXPECT_EQ(window.memory[i], model[i]);
        break;
      }
    EXPECT_OK(MPI_Win_unlock(rank, window.win));
    MPI_Barrier(MPI_COMM_WORLD);
    Random own{random.state + 1};
    check_by_get(window, own, epoch, models);
    MPI_Allreduce(MPI_IN_PLACE, &num_failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }
  window.close();
  return end();
}
