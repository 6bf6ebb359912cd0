// fuzz_types SEED ROUNDS: random datatypes against an exact model, between processes.
//
// All processes draw the same types from the seed. One is made of constructors of every kind,
// nested; its model is the list of its basic elements and where each lies (MPI 5.0 section 5.1),
// with the bounds that the standard's definitions give. A second type has the same elements in the
// same order in other places. Data travel from memory laid out as the first to memory laid out as
// the second, by sends of every mode, matched probes, packing, and collectives; each byte that the
// second type names must be what was sent, and each one that it does not name must stay.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "expect.h"

namespace {

struct Random {
  std::uint64_t state;
  int below(int n) { return static_cast<int>(next_random(&state) % static_cast<unsigned>(n)); }
  int between(int low, int high) { return low + below(high - low + 1); }
  bool one_in(int n) { return below(n) == 0; }
};

struct Basic {
  MPI_Datatype type;
  int bytes, align;
};
const Basic kBasics[] = {
    {MPI_CHAR, 1, 1},   {MPI_SHORT, 2, 2},         {MPI_INT, 4, 4},
    {MPI_DOUBLE, 8, 8}, {MPI_LONG_DOUBLE, 16, 16}, {MPI_C_FLOAT_COMPLEX, 8, 4},
    {MPI_BYTE, 1, 1},   {MPI_INTEGER16, 16, 16},   {MPI_REAL2, 2, 2},
};
constexpr int kNumBasics = sizeof kBasics / sizeof *kBasics;

struct Element {
  std::int64_t place;
  int basic;
};

struct Model {
  std::vector<Element> elements;
  std::int64_t lb = 0, ub = 0;
  bool marked = false;  // bounds that MPI_Type_create_resized gave, here or inside
  std::int64_t align = 1;

  std::int64_t extent() const { return ub - lb; }
  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const Element& e : elements) sum += kBasics[e.basic].bytes;
    return sum;
  }
  std::int64_t true_lb() const {
    std::int64_t low = elements.empty() ? 0 : INT64_MAX;
    for (const Element& e : elements) low = std::min(low, e.place);
    return low;
  }
  std::int64_t true_ub() const {
    std::int64_t high = elements.empty() ? 0 : INT64_MIN;
    for (const Element& e : elements) high = std::max(high, e.place + kBasics[e.basic].bytes);
    return high;
  }
};

struct Type {
  MPI_Datatype handle = MPI_DATATYPE_NULL;
  Model model;
};

struct Block {
  const Model* type;
  std::int64_t count, place;
};

// Blocks of types at places: what every constructor comes down to. Bounds that were set by hand
// stay: where there are some, the others do not count.
Model combine(const std::vector<Block>& blocks) {
  Model made;
  bool any = false;
  for (const Block& block : blocks) {
    const Model& old = *block.type;
    if (block.count == 0) continue;
    made.align = std::max(made.align, old.align);
    if (old.marked && !made.marked) {
      made.marked = true;
      any = false;
    }
    for (std::int64_t i = 0; i < block.count; ++i) {
      const std::int64_t at = block.place + i * old.extent();
      for (const Element& e : old.elements) made.elements.push_back({e.place + at, e.basic});
      if (made.marked && !old.marked) continue;
      made.lb = any ? std::min(made.lb, old.lb + at) : old.lb + at;
      made.ub = any ? std::max(made.ub, old.ub + at) : old.ub + at;
      any = true;
    }
  }
  return made;
}

Type basic(int which) {
  const Basic& row = kBasics[which];
  Type type;
  EXPECT_OK(MPI_Type_dup(row.type, &type.handle));
  type.model.elements = {{0, which}};
  type.model.ub = row.bytes;
  type.model.align = row.align;
  return type;
}

constexpr int kMostElements = 600;
constexpr std::int64_t kMostReach = 1 << 16;

bool is_large(const Model& model) {
  return model.elements.size() > kMostElements || std::abs(model.lb) > kMostReach ||
         std::abs(model.ub) > kMostReach || std::abs(model.true_lb()) > kMostReach ||
         std::abs(model.true_ub()) > kMostReach;
}

Type construct(Random& random, const Type& a, const Type& b) {
  Type made;
  const Model& old = a.model;
  const std::int64_t extent = old.extent();
  std::vector<Block> blocks;
  const int n = random.below(4);
  std::vector<int> counts, places;
  std::vector<MPI_Aint> bytes;
  for (int i = 0; i < n; ++i) {
    counts.push_back(random.below(4));
    places.push_back(random.between(-6, 12));
    bytes.push_back(random.between(-40, 90));
  }
  switch (random.below(10)) {
    case 0:
      EXPECT_OK(MPI_Type_contiguous(n, a.handle, &made.handle));
      blocks = {{&old, n, 0}};
      break;
    case 1: {
      const int length = random.below(4), stride = random.between(-5, 6);
      EXPECT_OK(MPI_Type_vector(n, length, stride, a.handle, &made.handle));
      for (int i = 0; i < n; ++i) blocks.push_back({&old, length, i * stride * extent});
      break;
    }
    case 2: {
      const int length = random.below(4);
      const MPI_Aint stride = random.between(-50, 70);
      EXPECT_OK(MPI_Type_create_hvector(n, length, stride, a.handle, &made.handle));
      for (int i = 0; i < n; ++i) blocks.push_back({&old, length, i * stride});
      break;
    }
    case 3:
      EXPECT_OK(MPI_Type_indexed(n, counts.data(), places.data(), a.handle, &made.handle));
      for (int i = 0; i < n; ++i) blocks.push_back({&old, counts[i], places[i] * extent});
      break;
    case 4:
      EXPECT_OK(MPI_Type_create_hindexed(n, counts.data(), bytes.data(), a.handle, &made.handle));
      for (int i = 0; i < n; ++i) blocks.push_back({&old, counts[i], bytes[i]});
      break;
    case 5: {
      const int length = random.below(3);
      EXPECT_OK(MPI_Type_create_indexed_block(n, length, places.data(), a.handle, &made.handle));
      for (int i = 0; i < n; ++i) blocks.push_back({&old, length, places[i] * extent});
      break;
    }
    case 6: {
      const int length = random.below(3);
      EXPECT_OK(MPI_Type_create_hindexed_block(n, length, bytes.data(), a.handle, &made.handle));
      for (int i = 0; i < n; ++i) blocks.push_back({&old, length, bytes[i]});
      break;
    }
    case 7: {
      std::vector<MPI_Datatype> types;
      for (int i = 0; i < n; ++i) types.push_back(i % 2 ? b.handle : a.handle);
      EXPECT_OK(MPI_Type_create_struct(n, counts.data(), bytes.data(), types.data(), &made.handle));
      for (int i = 0; i < n; ++i) blocks.push_back({i % 2 ? &b.model : &old, counts[i], bytes[i]});
      made.model = combine(blocks);
      // What a compiler adds behind the last member.
      if (!made.model.marked) {
        Model& m = made.model;
        m.ub = m.lb + (m.extent() + m.align - 1) / m.align * m.align;
      }
      return made;
    }
    case 8: {
      int sizes[3], parts[3], starts[3], dims = random.between(1, 3);
      for (int d = 0; d < dims; ++d) {
        sizes[d] = random.between(1, 4);
        parts[d] = random.between(1, sizes[d]);
        starts[d] = random.between(0, sizes[d] - parts[d]);
      }
      const bool c_order = random.one_in(2);
      EXPECT_OK(MPI_Type_create_subarray(dims, sizes, parts, starts,
                                         c_order ? MPI_ORDER_C : MPI_ORDER_FORTRAN, a.handle,
                                         &made.handle));
      const int whole = std::accumulate(sizes, sizes + dims, 1, std::multiplies<>());
      for (int k = 0; k < whole; ++k) {
        // The index along each dimension of the element at place k, the fastest first.
        int rest = k;
        bool inside = true;
        for (int i = 0; i < dims; ++i) {
          const int d = c_order ? dims - 1 - i : i, index = rest % sizes[d];
          rest /= sizes[d];
          inside = inside && index >= starts[d] && index < starts[d] + parts[d];
        }
        if (inside) blocks.push_back({&old, 1, k * extent});
      }
      made.model = combine(blocks);
      made.model.lb = 0;
      made.model.ub = whole * extent;
      made.model.marked = true;
      return made;
    }
    default: {
      const MPI_Aint lb = random.between(-30, 30), length = random.between(-20, 120);
      EXPECT_OK(MPI_Type_create_resized(a.handle, lb, length, &made.handle));
      made.model = old;
      made.model.lb = lb;
      made.model.ub = lb + length;
      made.model.marked = true;
      return made;
    }
  }
  made.model = combine(blocks);
  return made;
}

Type make(Random& random, int depth) {
  if (depth == 0) return basic(random.below(kNumBasics));
  for (;;) {
    Type a = make(random, depth - 1), b = make(random, random.below(depth));
    Type made = construct(random, a, b);
    MPI_Type_free(&a.handle);
    MPI_Type_free(&b.handle);
    if (!is_large(made.model)) return made;
    MPI_Type_free(&made.handle);
  }
}

// The elements of another type, in their order, in other places that do not overlap; several of
// these one after the other do not, either.
Type lay_out_again(Random& random, const Model& like) {
  std::vector<int> lengths;
  std::vector<MPI_Aint> places;
  std::vector<MPI_Datatype> types;
  struct Run {
    int basic, length;
    std::int64_t place;
  };
  std::vector<Run> runs;
  for (const Element& e : like.elements)
    if (!runs.empty() && runs.back().basic == e.basic && !random.one_in(4))
      ++runs.back().length;
    else
      runs.push_back({e.basic, 1, 0});
  // Memory goes to the runs in random order.
  std::vector<std::size_t> order(runs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (random.one_in(2))
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[static_cast<std::size_t>(random.below(static_cast<int>(i)))]);
  std::int64_t at = random.between(-64, 64);
  for (const std::size_t k : order) {
    at += random.one_in(2) ? 0 : random.between(0, 20);
    runs[k].place = at;
    at += std::int64_t{runs[k].length} * kBasics[runs[k].basic].bytes;
  }
  Type made;
  for (const Run& run : runs) {
    lengths.push_back(run.length);
    places.push_back(run.place);
    types.push_back(kBasics[run.basic].type);
    for (int i = 0; i < run.length; ++i)
      made.model.elements.push_back({run.place + i * kBasics[run.basic].bytes, run.basic});
  }
  MPI_Datatype loose;
  EXPECT_OK(MPI_Type_create_struct(static_cast<int>(runs.size()), lengths.data(), places.data(),
                                   types.data(), &loose));
  made.model.lb = made.model.true_lb() - random.below(9);
  made.model.ub = made.model.true_ub() + random.below(9);
  EXPECT_OK(MPI_Type_create_resized(loose, made.model.lb, made.model.extent(), &made.handle));
  MPI_Type_free(&loose);
  return made;
}

void check_description(const Type& type) {
  const Model& m = type.model;
  int bytes = -1;
  MPI_Aint lb = -1, extent = -1;
  EXPECT_OK(MPI_Type_size(type.handle, &bytes));
  EXPECT_EQ(bytes, m.bytes());
  EXPECT_OK(MPI_Type_get_extent(type.handle, &lb, &extent));
  EXPECT_EQ(lb, m.lb);
  EXPECT_EQ(extent, m.extent());
  EXPECT_OK(MPI_Type_get_true_extent(type.handle, &lb, &extent));
  EXPECT_EQ(lb, m.true_lb());
  EXPECT_EQ(extent, m.true_ub() - m.true_lb());
}

// Memory for `count` elements of a type, and some around it.
class Memory {
 public:
  Memory(const Type& type, int count, std::uint64_t seed) : type_(type), count_(count) {
    const Model& m = type.model;
    const std::int64_t reach = count > 0 ? (count - 1) * m.extent() : 0;
    low_ = m.true_lb() + std::min<std::int64_t>(0, reach) - 32;
    const std::int64_t high = m.true_ub() + std::max<std::int64_t>(0, reach) + 32;
    bytes_.resize(static_cast<std::size_t>(high - low_));
    fill(bytes_.data(), bytes_.size(), seed);
    before_ = bytes_;
  }
  void* origin() { return bytes_.data() - low_; }

  // What a message of this memory holds.
  std::vector<unsigned char> message() const {
    std::vector<unsigned char> data;
    each_byte([&](std::size_t at) { data.push_back(bytes_[at]); });
    return data;
  }
  // Every byte that the type names is the message's next one, and the others are as they were.
  bool holds(const std::vector<unsigned char>& data) const {
    std::vector<unsigned char> expected = before_;
    std::size_t next = 0;
    each_byte([&](std::size_t at) {
      if (next < data.size()) expected[at] = data[next++];
    });
    return expected == bytes_;
  }

 private:
  template <class F>
  void each_byte(F&& f) const {
    for (int i = 0; i < count_; ++i)
      for (const Element& e : type_.model.elements)
        for (int b = 0; b < kBasics[e.basic].bytes; ++b)
          f(static_cast<std::size_t>(i * type_.model.extent() + e.place + b - low_));
  }

  const Type& type_;
  int count_;
  std::int64_t low_;
  std::vector<unsigned char> bytes_, before_;
};

const MPI_Comm kWorld = MPI_COMM_WORLD;

// From the first process to the last, by messages.
void by_message(Random& random, const Type& from, const Type& to, int count, std::uint64_t seed) {
  const int source = 0, destination = size - 1, sends = random.below(5), receives = random.below(4);
  const bool absolute = random.one_in(4);
  Memory out(from, count, seed);
  const std::vector<unsigned char> data = out.message();
  MPI_Request request = MPI_REQUEST_NULL, receiving = MPI_REQUEST_NULL;
  Memory in(to, count, seed + 1);
  if (rank == destination && receives < 2)
    EXPECT_OK(MPI_Irecv(in.origin(), count, to.handle, source, 3, kWorld, &receiving));
  std::vector<char> packed;
  MPI_Datatype moved = MPI_DATATYPE_NULL;
  if (rank == source) {
    const void* buffer = out.origin();
    MPI_Datatype type = from.handle;
    if (absolute) {
      // The same by its address.
      const MPI_Aint place = reinterpret_cast<MPI_Aint>(buffer);
      EXPECT_OK(MPI_Type_create_hindexed(1, &count, &place, from.handle, &moved));
      EXPECT_OK(MPI_Type_commit(&moved));
      buffer = MPI_BOTTOM;
      type = moved;
    }
    const int n = absolute ? 1 : count;
    switch (sends) {
      case 0:
        EXPECT_OK(MPI_Isend(buffer, n, type, destination, 3, kWorld, &request));
        break;
      case 1:
        EXPECT_OK(MPI_Issend(buffer, n, type, destination, 3, kWorld, &request));
        break;
      case 2:
        EXPECT_OK(MPI_Send_init(buffer, n, type, destination, 3, kWorld, &request));
        EXPECT_OK(MPI_Start(&request));
        break;
      case 3: {
        int room = 0, place = 0;
        EXPECT_OK(MPI_Pack_size(n, type, kWorld, &room));
        packed.resize(static_cast<std::size_t>(room) + 1);
        EXPECT_OK(MPI_Pack(buffer, n, type, packed.data(), room, &place, kWorld));
        EXPECT_EQ(place, data.size());
        EXPECT_OK(MPI_Isend(packed.data(), place, MPI_PACKED, destination, 3, kWorld, &request));
        break;
      }
      default:
        EXPECT_OK(MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_BYTE, destination, 3,
                            kWorld, &request));
    }
    // It may go as soon as the message is on its way.
    if (absolute) EXPECT_OK(MPI_Type_free(&moved));
  }
  if (rank == destination) {
    MPI_Status status;
    if (receives < 2) {
      EXPECT_OK(MPI_Wait(&receiving, &status));
    } else if (receives == 2) {
      MPI_Message message;
      EXPECT_OK(MPI_Mprobe(source, 3, kWorld, &message, &status));
      EXPECT_OK(MPI_Mrecv(in.origin(), count, to.handle, &message, &status));
    } else {
      // As bytes, unpacked here.
      const int length = static_cast<int>(data.size());
      std::vector<char> bytes(data.size() + 1);
      int place = 0;
      EXPECT_OK(MPI_Recv(bytes.data(), length, MPI_PACKED, source, 3, kWorld, &status));
      EXPECT_OK(MPI_Unpack(bytes.data(), length, &place, in.origin(), count, to.handle, kWorld));
      EXPECT_EQ(place, length);
    }
    int elements = -1;
    EXPECT_OK(MPI_Get_elements(&status, receives == 3 ? MPI_BYTE : to.handle, &elements));
    EXPECT_EQ(elements, receives == 3
                            ? static_cast<std::int64_t>(data.size())
                            : count * static_cast<std::int64_t>(to.model.elements.size()));
    if (!in.holds(data)) {
      fprintf(stderr, "sent in way %d, received in way %d, %d elements\n", sends, receives, count);
      failed(__FILE__, __LINE__, "wrong data");
    }
  }
  if (rank == source) {
    EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (sends == 2) EXPECT_OK(MPI_Request_free(&request));
  }
}

// Some processes have their data in the one layout, some in the other.
void by_collective(Random& random, const Type& from, const Type& to, int count,
                   std::uint64_t seed) {
  const int root = random.below(size), way = random.below(4);
  const auto data_of = [&](int process) {
    return Memory(from, count, seed_of(seed, static_cast<std::uint64_t>(process), 0)).message();
  };
  Memory out(from, count, seed_of(seed, static_cast<std::uint64_t>(rank), 0));
  std::vector<unsigned char> expected;
  if (way == 0) {
    Memory in(to, count, seed + 2);
    if (rank == root)
      EXPECT_OK(MPI_Bcast(out.origin(), count, from.handle, root, kWorld));
    else
      EXPECT_OK(MPI_Bcast(in.origin(), count, to.handle, root, kWorld));
    EXPECT(rank == root || in.holds(data_of(root)));
    return;
  }
  const auto append = [&](int process, int part) {
    const std::vector<unsigned char> data = data_of(process);
    const std::size_t length = data.size() / static_cast<std::size_t>(part < 0 ? 1 : size);
    const std::size_t begin = part < 0 ? 0 : static_cast<std::size_t>(part) * length;
    expected.insert(expected.end(), data.begin() + static_cast<std::ptrdiff_t>(begin),
                    data.begin() + static_cast<std::ptrdiff_t>(begin + length));
  };
  if (way == 1) {  // in the background
    Memory in(to, rank == root ? count * size : 0, seed + 2);
    MPI_Request request;
    EXPECT_OK(MPI_Igather(out.origin(), count, from.handle, in.origin(), count, to.handle, root,
                          kWorld, &request));
    EXPECT_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < size; ++i) append(i, -1);
    EXPECT(rank != root || in.holds(expected));
  } else if (way == 2) {
    Memory in(to, count * size, seed + 2);
    EXPECT_OK(
        MPI_Allgather(out.origin(), count, from.handle, in.origin(), count, to.handle, kWorld));
    for (int i = 0; i < size; ++i) append(i, -1);
    EXPECT(in.holds(expected));
  } else {
    // A share of the elements for each.
    const int share = count / size;
    Memory all(from, share * size, seed_of(seed, static_cast<std::uint64_t>(rank), 9));
    Memory in(to, share * size, seed + 2);
    EXPECT_OK(
        MPI_Alltoall(all.origin(), share, from.handle, in.origin(), share, to.handle, kWorld));
    for (int i = 0; i < size; ++i) {
      const std::vector<unsigned char> data =
          Memory(from, share * size, seed_of(seed, static_cast<std::uint64_t>(i), 9)).message();
      const auto length = static_cast<std::ptrdiff_t>(data.size()) / size;
      expected.insert(expected.end(), data.begin() + rank * length,
                      data.begin() + (rank + 1) * length);
    }
    EXPECT(in.holds(expected));
  }
}

}  // namespace

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const std::uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 0) : 1;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 100;
  for (int i = 0; i < rounds && num_failures == 0; ++i) {
    Random random{seed_of(seed, static_cast<std::uint64_t>(i), 0)};
    Type from = make(random, random.between(0, 4));
    Type to = lay_out_again(random, from.model);
    check_description(from);
    check_description(to);
    EXPECT_OK(MPI_Type_commit(&from.handle));
    EXPECT_OK(MPI_Type_commit(&to.handle));
    const int most = static_cast<int>(200000 / (1 + from.model.bytes()));
    const int count = random.one_in(5) ? random.below(std::min(most, 2000) + 1) : random.below(6);
    by_message(random, from, to, count, seed + static_cast<std::uint64_t>(i));
    by_collective(random, from, to, count, seed + static_cast<std::uint64_t>(i));
    MPI_Type_free(&from.handle);
    MPI_Type_free(&to.handle);
    if (num_failures != 0)
      fprintf(stderr, "rank %d: seed %llu, round %d\n", rank, static_cast<unsigned long long>(seed),
              i);
  }
  return end();
}
