// Datatypes against an oracle: a list of every byte's place, made from the standard's definitions
// (MPI 5.0 section 5.1) without looking at how the library keeps types. Random nested types from
// fixed seeds: sizes, bounds, packing, unpacking, messages that end early, and counts of elements.
// One process, the C interface alone.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <catch2/catch.hpp>

namespace {

// One basic element.
struct Entry {
  std::int64_t place;
  int bytes;
};

struct Oracle {
  std::vector<Entry> entries;
  bool marked = false;  // has lb and ub markers: was resized, or made of such types
  std::int64_t lb = 0, ub = 0;
  std::int64_t align = 1;
  std::string text;

  std::int64_t size() const {
    std::int64_t sum = 0;
    for (const Entry& entry : entries) sum += entry.bytes;
    return sum;
  }
  std::int64_t extent() const { return ub - lb; }
  std::int64_t true_lb() const {
    if (entries.empty()) return 0;
    std::int64_t low = INT64_MAX;
    for (const Entry& entry : entries) low = std::min(low, entry.place);
    return low;
  }
  std::int64_t true_ub() const {
    if (entries.empty()) return 0;
    std::int64_t high = INT64_MIN;
    for (const Entry& entry : entries) high = std::max(high, entry.place + entry.bytes);
    return high;
  }
  // Places of all bytes of `count` elements, in the order of a message.
  std::vector<std::int64_t> bytes(std::int64_t count) const {
    std::vector<std::int64_t> places;
    for (std::int64_t i = 0; i < count; ++i)
      for (const Entry& entry : entries)
        for (int b = 0; b < entry.bytes; ++b) places.push_back(i * extent() + entry.place + b);
    return places;
  }
};

struct Block {
  const Oracle* type;
  std::int64_t count;
  std::int64_t place;
};

// What all constructors come down to: blocks of types at places. Bounds are the outermost ones of
// the copies, those without data among them (the standard leaves that open; Open MPI and MPICH do
// the same).
Oracle combine(const std::vector<Block>& blocks) {
  Oracle made;
  for (const Block& block : blocks)
    made.marked = made.marked || (block.count > 0 && block.type->marked);
  bool any = false;
  for (const Block& block : blocks) {
    for (std::int64_t i = 0; i < block.count; ++i) {
      const Oracle& old = *block.type;
      const std::int64_t at = block.place + i * old.extent();
      for (const Entry& entry : old.entries)
        made.entries.push_back({entry.place + at, entry.bytes});
      made.align = std::max(made.align, old.align);
      // The bounds are those of the markers, if there is any (MPI 5.0 section 5.1).
      if (old.marked != made.marked) continue;
      made.lb = any ? std::min(made.lb, old.lb + at) : old.lb + at;
      made.ub = any ? std::max(made.ub, old.ub + at) : old.ub + at;
      any = true;
    }
  }
  return made;
}

struct Sample {
  MPI_Datatype type;
  Oracle oracle;
};

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  // A type of at most `depth` constructors; the types inside are freed at once.
  Sample make(int depth) {
    if (depth == 0) return basic();
    Sample old = make(depth - 1);
    Sample made = construct(old, depth);
    made.oracle.text += "(" + old.oracle.text + ")";
    drop(old);
    return made;
  }

  static void drop(Sample& sample) {
    int integers, addresses, types, combiner;
    REQUIRE(MPI_Type_get_envelope(sample.type, &integers, &addresses, &types, &combiner) == 0);
    if (combiner != MPI_COMBINER_NAMED) REQUIRE(MPI_Type_free(&sample.type) == MPI_SUCCESS);
  }

 private:
  Sample basic() {
    static const struct {
      MPI_Datatype type;
      int bytes;
      const char* name;
    } kinds[] = {{MPI_CHAR, 1, "char"},
                 {MPI_SHORT, 2, "short"},
                 {MPI_INT, 4, "int"},
                 {MPI_DOUBLE, 8, "double"},
                 {MPI_LONG_DOUBLE, 16, "long double"}};
    const auto& kind = kinds[pick(0, 4)];
    Oracle oracle;
    oracle.entries = {{0, kind.bytes}};
    oracle.ub = oracle.align = kind.bytes;
    oracle.text = kind.name;
    return {kind.type, oracle};
  }

  Sample construct(const Sample& old, int depth) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    std::vector<Block> blocks;
    const Oracle* inner = &old.oracle;
    const std::int64_t extent = inner->extent();
    const int count = pick(0, 3);
    std::vector<int> lengths(4), places(4);
    std::vector<MPI_Aint> aints(4);
    for (int i = 0; i < 4; ++i) {
      lengths[i] = pick(0, 3);
      places[i] = pick(-5, 8);
      aints[i] = pick(-40, 64);
    }
    const char* name = "";
    switch (pick(0, 9)) {
      case 0:
        name = "contiguous";
        REQUIRE(MPI_Type_contiguous(count, old.type, &type) == MPI_SUCCESS);
        blocks.push_back({inner, count, 0});
        break;
      case 1:
        name = "vector";
        REQUIRE(MPI_Type_vector(count, lengths[0], places[0], old.type, &type) == MPI_SUCCESS);
        for (int i = 0; i < count; ++i)
          blocks.push_back({inner, lengths[0], i * places[0] * extent});
        break;
      case 2:
        name = "hvector";
        REQUIRE(MPI_Type_create_hvector(count, lengths[0], aints[0], old.type, &type) ==
                MPI_SUCCESS);
        for (int i = 0; i < count; ++i) blocks.push_back({inner, lengths[0], i * aints[0]});
        break;
      case 3:
        name = "indexed";
        REQUIRE(MPI_Type_indexed(count, lengths.data(), places.data(), old.type, &type) ==
                MPI_SUCCESS);
        for (int i = 0; i < count; ++i) blocks.push_back({inner, lengths[i], places[i] * extent});
        break;
      case 4:
        name = "hindexed";
        REQUIRE(MPI_Type_create_hindexed(count, lengths.data(), aints.data(), old.type, &type) ==
                MPI_SUCCESS);
        for (int i = 0; i < count; ++i) blocks.push_back({inner, lengths[i], aints[i]});
        break;
      case 5:
        name = "indexed_block";
        REQUIRE(MPI_Type_create_indexed_block(count, lengths[0], places.data(), old.type, &type) ==
                MPI_SUCCESS);
        for (int i = 0; i < count; ++i) blocks.push_back({inner, lengths[0], places[i] * extent});
        break;
      case 6:
        name = "hindexed_block";
        REQUIRE(MPI_Type_create_hindexed_block(count, lengths[0], aints.data(), old.type, &type) ==
                MPI_SUCCESS);
        for (int i = 0; i < count; ++i) blocks.push_back({inner, lengths[0], aints[i]});
        break;
      case 7:
        return structure(old, count, lengths, aints, depth);
      case 8: {
        const int low = pick(-16, 16), wide = pick(0, 96);
        REQUIRE(MPI_Type_create_resized(old.type, low, wide, &type) == MPI_SUCCESS);
        Oracle made = *inner;
        made.marked = true;
        made.lb = low;
        made.ub = low + wide;
        made.text = "resized";
        return {type, made};
      }
      default:
        return subarray(old);
    }
    Oracle made = combine(blocks);
    made.text = name;
    return {type, made};
  }

  Sample structure(const Sample& old, int count, const std::vector<int>& lengths,
                   const std::vector<MPI_Aint>& places, int depth) {
    Sample other = make(depth - 1);
    std::vector<MPI_Datatype> types;
    std::vector<Block> blocks;
    for (int i = 0; i < count; ++i) {
      const Sample& part = i % 2 == 0 ? old : other;
      types.push_back(part.type);
      blocks.push_back({&part.oracle, lengths[i], places[i]});
    }
    types.push_back(old.type);
    MPI_Datatype type;
    REQUIRE(MPI_Type_create_struct(count, lengths.data(), places.data(), types.data(), &type) ==
            MPI_SUCCESS);
    Oracle made = combine(blocks);
    if (!made.marked)
      while (made.extent() % made.align != 0) ++made.ub;
    made.text = "struct with " + other.oracle.text + " and ";
    drop(other);
    return {type, made};
  }

  Sample subarray(const Sample& old) {
    const int dims = pick(1, 3);
    int sizes[3], parts[3], starts[3];
    for (int d = 0; d < dims; ++d) {
      sizes[d] = pick(1, 4);
      parts[d] = pick(1, sizes[d]);
      starts[d] = pick(0, sizes[d] - parts[d]);
    }
    const bool is_c = pick(0, 1) == 0;
    MPI_Datatype type;
    REQUIRE(MPI_Type_create_subarray(dims, sizes, parts, starts,
                                     is_c ? MPI_ORDER_C : MPI_ORDER_FORTRAN, old.type,
                                     &type) == MPI_SUCCESS);
    // Every cell of the whole array in the order of memory; those inside the block count.
    std::int64_t cells = 1;
    for (int d = 0; d < dims; ++d) cells *= sizes[d];
    std::vector<Block> blocks;
    for (std::int64_t cell = 0; cell < cells; ++cell) {
      std::int64_t rest = cell;
      bool inside = true;
      for (int i = 0; i < dims; ++i) {
        const int d = is_c ? dims - 1 - i : i;
        const std::int64_t index = rest % sizes[d];
        rest /= sizes[d];
        inside = inside && index >= starts[d] && index < starts[d] + parts[d];
      }
      if (inside) blocks.push_back({&old.oracle, 1, cell * old.oracle.extent()});
    }
    Oracle made = combine(blocks);
    made.marked = true;
    made.lb = 0;
    made.ub = cells * old.oracle.extent();
    made.text = "subarray";
    return {type, made};
  }

  std::mt19937 random_;
};

// Memory around a buffer of `count` elements, so that any access outside the type shows.
struct Arena {
  std::int64_t low = 0;
  std::vector<unsigned char> memory;
  Arena(const std::vector<std::int64_t>& places, unsigned char fill) {
    std::int64_t high = 0;
    for (std::int64_t place : places) {
      low = std::min(low, place);
      high = std::max(high, place + 1);
    }
    memory.assign(static_cast<std::size_t>(high - low) + 64, fill);
    low -= 32;
  }
  unsigned char* base() { return memory.data() - low; }
};

void check_bounds(const Sample& sample) {
  const Oracle& oracle = sample.oracle;
  int size = -1;
  MPI_Aint low = -1, extent = -1;
  REQUIRE(MPI_Type_size(sample.type, &size) == MPI_SUCCESS);
  REQUIRE(size == oracle.size());
  REQUIRE(MPI_Type_get_extent(sample.type, &low, &extent) == MPI_SUCCESS);
  REQUIRE(low == oracle.lb);
  REQUIRE(extent == oracle.extent());
  REQUIRE(MPI_Type_get_true_extent(sample.type, &low, &extent) == MPI_SUCCESS);
  REQUIRE(low == oracle.true_lb());
  REQUIRE(extent == oracle.true_ub() - oracle.true_lb());
}

void check_data(const Sample& sample, int count) {
  const std::vector<std::int64_t> places = sample.oracle.bytes(count);
  const int bytes = static_cast<int>(places.size());
  Arena source(places, 0);
  for (std::size_t i = 0; i < source.memory.size(); ++i)
    source.memory[i] = static_cast<unsigned char>(i * 7 + i / 251);
  std::vector<unsigned char> packed(places.size() + 8, 0xee);
  int position = 3;
  REQUIRE(MPI_Pack(source.base(), count, sample.type, packed.data(), bytes + 3, &position,
                   MPI_COMM_SELF) == MPI_SUCCESS);
  REQUIRE(position == bytes + 3);
  std::vector<unsigned char> expected(places.size() + 8, 0xee);
  for (int i = 0; i < bytes; ++i) expected[i + 3] = source.base()[places[i]];
  REQUIRE(packed == expected);

  if (std::set<std::int64_t>(places.begin(), places.end()).size() != places.size()) return;
  for (int part : {bytes, bytes / 2, bytes - 1, 1}) {
    if (part < 0 || part > bytes) continue;
    Arena target(places, 0xa5), wanted(places, 0xa5);
    for (int i = 0; i < part; ++i) wanted.base()[places[i]] = packed[i + 3];
    MPI_Status status;
    REQUIRE(MPI_Sendrecv(packed.data() + 3, part, MPI_PACKED, 0, 0, target.base(), count,
                         sample.type, 0, 0, MPI_COMM_SELF, &status) == MPI_SUCCESS);
    REQUIRE(target.memory == wanted.memory);
    if (part != bytes) continue;
    Arena again(places, 0xa5);
    position = 3;
    REQUIRE(MPI_Unpack(packed.data(), bytes + 3, &position, again.base(), count, sample.type,
                       MPI_COMM_SELF) == MPI_SUCCESS);
    REQUIRE(position == bytes + 3);
    REQUIRE(again.memory == wanted.memory);
  }
}

// MPI_Get_elements of every length up to three elements of the type.
void check_elements(const Sample& sample) {
  const int size = static_cast<int>(sample.oracle.size());
  if (size == 0 || size > 2000) return;
  std::vector<int> whole(3 * size + 1, MPI_UNDEFINED);
  int at = 0, elements = 0;
  whole[0] = 0;
  for (int i = 0; i < 3; ++i)
    for (const Entry& entry : sample.oracle.entries) whole[at += entry.bytes] = ++elements;
  for (int bytes = 0; bytes <= 3 * size; ++bytes) {
    MPI_Status status;
    int count = -1;
    std::memset(&status, 0, sizeof status);
    MPI_Status_set_elements(&status, MPI_BYTE, bytes);
    MPI_Get_elements(&status, sample.type, &count);
    if (count != whole[bytes])  // one assertion a length would take most of the test's time
      FAIL("Get_elements of " << bytes << " bytes: " << count << ", not " << whole[bytes]);
    MPI_Get_count(&status, sample.type, &count);
    if (count != (bytes % size == 0 ? bytes / size : MPI_UNDEFINED)) FAIL("Get_count");
  }
}

TEST_CASE("random nested types are what the standard says", "[datatype]") {
  const unsigned block = GENERATE(0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u);
  for (unsigned seed = block * 250; seed < block * 250 + 250; ++seed) {
    Generator generator(seed);
    Sample sample = generator.make(1 + static_cast<int>(seed % 4));
    CAPTURE(seed, sample.oracle.text);
    REQUIRE(MPI_Type_commit(&sample.type) == MPI_SUCCESS);
    check_bounds(sample);
    if (sample.oracle.size() <= 20000)
      for (int count = 0; count <= 3; ++count) check_data(sample, count);
    check_elements(sample);
    Generator::drop(sample);
  }
}

TEST_CASE("bounds set by hand stay in what is made of the type", "[datatype]") {
  MPI_Datatype wide, pair;
  MPI_Aint lb = -1, extent = -1;
  REQUIRE(MPI_Type_create_resized(MPI_INT, 0, 16, &wide) == MPI_SUCCESS);
  const int lengths[2] = {1, 1};
  const MPI_Aint places[2] = {0, 100};
  for (const bool first : {true, false}) {
    const MPI_Datatype types[2] = {first ? wide : MPI_INT, first ? MPI_INT : wide};
    REQUIRE(MPI_Type_create_struct(2, lengths, places, types, &pair) == MPI_SUCCESS);
    REQUIRE(MPI_Type_get_extent(pair, &lb, &extent) == MPI_SUCCESS);
    CHECK(lb == (first ? 0 : 100));
    CHECK(extent == 16);
    REQUIRE(MPI_Type_free(&pair) == MPI_SUCCESS);
  }
  REQUIRE(MPI_Type_free(&wide) == MPI_SUCCESS);
}

TEST_CASE("structs are padded as the compiler pads them", "[datatype]") {
  struct Mixed {
    char a;
    double b;
    char c;
  };
  const int lengths[] = {1, 1, 1};
  const MPI_Aint places[] = {offsetof(Mixed, a), offsetof(Mixed, b), offsetof(Mixed, c)};
  const MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_CHAR};
  MPI_Datatype type;
  REQUIRE(MPI_Type_create_struct(3, lengths, places, types, &type) == MPI_SUCCESS);
  MPI_Aint low, extent;
  REQUIRE(MPI_Type_get_extent(type, &low, &extent) == MPI_SUCCESS);
  REQUIRE(low == 0);
  REQUIRE(extent == sizeof(Mixed));
  REQUIRE(MPI_Type_free(&type) == MPI_SUCCESS);
}

TEST_CASE("counts beyond 2^31 without memory", "[datatype]") {
  constexpr MPI_Count kMany = MPI_Count{1} << 40;
  MPI_Datatype row, table;
  REQUIRE(MPI_Type_vector_c(kMany, 1, 2, MPI_DOUBLE, &row) == MPI_SUCCESS);
  REQUIRE(MPI_Type_contiguous_c(1 << 10, row, &table) == MPI_SUCCESS);
  REQUIRE(MPI_Type_free(&row) == MPI_SUCCESS);
  REQUIRE(MPI_Type_commit(&table) == MPI_SUCCESS);
  MPI_Count size, low, extent;
  int small = 0;
  REQUIRE(MPI_Type_size_c(table, &size) == MPI_SUCCESS);
  REQUIRE(size == (kMany << 13));
  REQUIRE(MPI_Type_size(table, &small) == MPI_SUCCESS);
  REQUIRE(small == MPI_UNDEFINED);
  REQUIRE(MPI_Type_get_extent_c(table, &low, &extent) == MPI_SUCCESS);
  REQUIRE(extent == (kMany * 16 - 8) * 1024);
  REQUIRE(MPI_Pack_size(1, table, MPI_COMM_SELF, &small) == MPI_SUCCESS);
  REQUIRE(small == MPI_UNDEFINED);
  MPI_Status status;
  std::memset(&status, 0, sizeof status);
  REQUIRE(MPI_Status_set_elements_c(&status, MPI_DOUBLE, kMany + 5) == MPI_SUCCESS);
  MPI_Count elements = 0;
  REQUIRE(MPI_Get_elements_c(&status, table, &elements) == MPI_SUCCESS);
  REQUIRE(elements == kMany + 5);
  REQUIRE(MPI_Get_elements(&status, table, &small) == MPI_SUCCESS);
  REQUIRE(small == MPI_UNDEFINED);
  REQUIRE(MPI_Type_free(&table) == MPI_SUCCESS);
}

TEST_CASE("what does not fit into 63 bits is an error", "[datatype]") {
  constexpr MPI_Count kHuge = MPI_Count{1} << 62;
  const auto class_of = [](int code) {
    int found = -1;
    MPI_Error_class(code, &found);
    return found;
  };
  MPI_Datatype type = MPI_DATATYPE_NULL;
  REQUIRE(class_of(MPI_Type_contiguous_c(kHuge, MPI_DOUBLE, &type)) == MPI_ERR_COUNT);
  REQUIRE(class_of(MPI_Type_vector_c(2, 1, kHuge, MPI_DOUBLE, &type)) == MPI_ERR_COUNT);
  REQUIRE(class_of(MPI_Type_create_hvector_c(8, 1, kHuge, MPI_CHAR, &type)) == MPI_ERR_COUNT);
  const MPI_Count one = 1;
  REQUIRE(class_of(MPI_Type_indexed_c(1, &one, &kHuge, MPI_DOUBLE, &type)) == MPI_ERR_COUNT);
  REQUIRE(class_of(MPI_Type_create_indexed_block_c(1, 1, &kHuge, MPI_DOUBLE, &type)) ==
          MPI_ERR_COUNT);
  const MPI_Count sizes[] = {kHuge, 16}, parts[] = {1, 1}, starts[] = {0, 0};
  REQUIRE(class_of(MPI_Type_create_subarray_c(2, sizes, parts, starts, MPI_ORDER_C, MPI_DOUBLE,
                                              &type)) == MPI_ERR_COUNT);
  MPI_Count bytes = 0;
  REQUIRE(class_of(MPI_Pack_size_c(kHuge, MPI_DOUBLE, MPI_COMM_SELF, &bytes)) == MPI_ERR_COUNT);
}

TEST_CASE("elements without data cost nothing, however many", "[datatype]") {
  MPI_Datatype none, type;
  REQUIRE(MPI_Type_contiguous(0, MPI_INT, &none) == MPI_SUCCESS);
  REQUIRE(MPI_Type_create_resized(none, 0, 8, &type) == MPI_SUCCESS);
  REQUIRE(MPI_Type_free(&none) == MPI_SUCCESS);
  REQUIRE(MPI_Type_commit(&type) == MPI_SUCCESS);
  MPI_Request request;
  MPI_Status status;
  char nothing = 0;
  const MPI_Count many = MPI_Count{1}
                         << 50;  // a loop over them would end after the test's deadline
  REQUIRE(MPI_Irecv_c(&nothing, many, type, 0, 1, MPI_COMM_SELF, &request) == MPI_SUCCESS);
  REQUIRE(MPI_Send_c(&nothing, many, type, 0, 1, MPI_COMM_SELF) == MPI_SUCCESS);
  REQUIRE(MPI_Wait(&request, &status) == MPI_SUCCESS);
  REQUIRE(MPI_Type_free(&type) == MPI_SUCCESS);
}

// Not a test of speed: `datatype_test '[.time]'` prints what docs/use/performance.md quotes.
TEST_CASE("time of packing a strided vector of doubles", "[.time]") {
  using Clock = std::chrono::steady_clock;
  for (int stride : {2, 1000}) {
    const int count = stride == 2 ? 1 << 14 : 1 << 12;
    std::vector<double> from(static_cast<std::size_t>(count) * stride, 1.5), to(count);
    MPI_Datatype type;
    REQUIRE(MPI_Type_vector(count, 1, stride, MPI_DOUBLE, &type) == MPI_SUCCESS);
    REQUIRE(MPI_Type_commit(&type) == MPI_SUCCESS);
    std::vector<double> ours, plain;
    for (int round = 0; round < 300; ++round) {
      auto start = Clock::now();
      int position = 0;
      MPI_Pack(from.data(), 1, type, to.data(), count * 8, &position, MPI_COMM_SELF);
      ours.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count());
      start = Clock::now();
      for (int i = 0; i < count; ++i) to[i] = from[static_cast<std::size_t>(i) * stride];
      asm volatile("" : : "r"(to.data()) : "memory");
      plain.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count());
    }
    std::sort(ours.begin(), ours.end());
    std::sort(plain.begin(), plain.end());
    std::printf("stride %4d: MPI_Pack %.3f ns, plain loop %.3f ns a double (medians)\n", stride,
                ours[150] / count, plain[150] / count);
    REQUIRE(MPI_Type_free(&type) == MPI_SUCCESS);
  }
}

// MPI around the run of all cases.
struct Library : Catch::TestEventListenerBase {
  using TestEventListenerBase::TestEventListenerBase;
  void testRunStarting(const Catch::TestRunInfo&) override {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  }
  void testRunEnded(const Catch::TestRunStats&) override { MPI_Finalize(); }
};
CATCH_REGISTER_LISTENER(Library)

}  // namespace
