// Handles: valid ones are found, null, freed, foreign and garbage ones never are.
#include "mpi/core/handle_table.hpp"

#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "mpi/core/abi.hpp"
#include "mpi/core/status.hpp"

namespace weft::mpi {
namespace {

using Table = HandleTable<MPI_Comm, int, Kind::comm>;
using OtherTable = HandleTable<MPI_Group, int, Kind::group>;

MPI_Comm handle_of(std::uintptr_t value) { return reinterpret_cast<MPI_Comm>(value); }

TEST_CASE("handles are found until they are erased") {
  Table table;
  std::vector<int> objects(5000);  // more than one chunk
  std::vector<MPI_Comm> handles;
  for (int& object : objects) handles.push_back(table.insert(&object));
  CHECK(std::set<MPI_Comm>(handles.begin(), handles.end()).size() == objects.size());
  for (std::size_t i = 0; i < objects.size(); ++i) {
    CHECK(table.find(handles[i]) == &objects[i]);
    CHECK_FALSE(is_predefined(handles[i]));
  }
  for (std::size_t i = 0; i < objects.size(); i += 2) CHECK(table.erase(handles[i]) == &objects[i]);
  for (std::size_t i = 0; i < objects.size(); ++i)
    CHECK(table.find(handles[i]) == (i % 2 == 0 ? nullptr : &objects[i]));
  CHECK(table.erase(handles[0]) == nullptr);
}

TEST_CASE("a freed handle is not found when its slot is used again") {
  Table table;
  int first = 0;
  int second = 0;
  const MPI_Comm old = table.insert(&first);
  table.erase(old);
  const MPI_Comm fresh = table.insert(&second);
  CHECK(fresh != old);
  CHECK(table.find(old) == nullptr);
  CHECK(table.find(fresh) == &second);
}

TEST_CASE("null, predefined, garbage and foreign handles find nothing") {
  Table table;
  OtherTable others;
  int object = 0;
  table.insert(&object);
  const MPI_Group foreign = others.insert(&object);
  for (std::uintptr_t value = 0; value < 5000; ++value)
    CHECK(table.find(handle_of(value)) == nullptr);
  for (unsigned bit = 0; bit < 64; ++bit) {
    CHECK(table.find(handle_of(std::uintptr_t{1} << bit)) == nullptr);
    CHECK(table.find(handle_of(~(std::uintptr_t{1} << bit))) == nullptr);
  }
  CHECK(table.find(handle_of(~std::uintptr_t{0})) == nullptr);
  CHECK(table.find(reinterpret_cast<MPI_Comm>(&object)) == nullptr);
  CHECK(table.find(reinterpret_cast<MPI_Comm>(foreign)) == nullptr);
}

TEST_CASE("ints stand for handles and back") {
  Table table;
  int object = 0;
  const MPI_Comm handle = table.insert(&object);
  CHECK(Table::to_int(handle) > 4095);
  CHECK(table.from_int(Table::to_int(handle)) == handle);
  CHECK(Table::to_int(MPI_COMM_WORLD) == 257);
  CHECK(table.from_int(257) == MPI_COMM_WORLD);
  const int number = Table::to_int(handle);
  table.erase(handle);
  CHECK(table.find(table.from_int(number)) == nullptr);
  CHECK(table.find(table.from_int(-1)) == nullptr);
}

TEST_CASE("a status keeps the bytes and the cancelled mark and nothing else") {
  MPI_Status status{};
  status.MPI_ERROR = 42;
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1} << 40}) {
    fill_status(&status, 3, 4, bytes);
    CHECK(load_private(status).bytes == bytes);
    CHECK(load_private(status).cancelled == 0);
  }
  store_private(status, 7, true);
  CHECK(load_private(status).bytes == 7);
  CHECK(load_private(status).cancelled == 1);
  CHECK(status.MPI_SOURCE == 3);
  CHECK(status.MPI_TAG == 4);
  CHECK(status.MPI_ERROR == 42);
}

TEST_CASE("an object with a place gets a new handle each time") {
  Table table;
  int number = 1, other = 2;
  const Table::SlotRef slot = table.reserve(&number);
  REQUIRE(slot.is_valid());
  const MPI_Comm first = table.open(slot);
  CHECK(table.find(first) == &number);
  table.close(slot);
  CHECK(table.find(first) == nullptr);
  // The place is kept: others go elsewhere.
  const MPI_Comm elsewhere = table.insert(&other);
  const MPI_Comm second = table.open(slot);
  CHECK(second != first);
  CHECK(table.find(first) == nullptr);
  CHECK(table.find(second) == &number);
  CHECK(table.find(elsewhere) == &other);
  CHECK_FALSE(Table::SlotRef().is_valid());
}

}  // namespace
}  // namespace weft::mpi
