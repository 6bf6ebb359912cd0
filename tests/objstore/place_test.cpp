// Measured properties of the machine: the NUMA node of a store, and the size from which on it
// reads.
#include <hwloc.h>

#include <memory>

#include "fixture.hpp"
#include "objstore/manager/calibrate.hpp"
#include "objstore/store/bind.hpp"

using namespace weft;
using namespace weft::objstore;

namespace {

using Machine = std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)>;

// Two packages with a NUMA node each, and `devices` at the second one.
Machine machine_with(const std::string& devices) {
  hwloc_topology_t plain = nullptr;
  REQUIRE(hwloc_topology_init(&plain) == 0);
  const Machine owned(plain, hwloc_topology_destroy);
  REQUIRE(hwloc_topology_set_synthetic(plain, "pack:2 numa:1 core:2 pu:1") == 0);
  REQUIRE(hwloc_topology_load(plain) == 0);
  char* buffer = nullptr;
  int length = 0;
  REQUIRE(hwloc_topology_export_xmlbuffer(plain, &buffer, &length, 0) == 0);
  std::string text(buffer);
  hwloc_free_xmlbuffer(plain, buffer);
  const std::string end = "    </object>\n  </object>\n  <support";
  const auto at = text.rfind(end);
  REQUIRE(at != std::string::npos);
  text.insert(at, devices);
  hwloc_topology_t made = nullptr;
  REQUIRE(hwloc_topology_init(&made) == 0);
  Machine machine(made, hwloc_topology_destroy);
  hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_ALL);
  REQUIRE(hwloc_topology_set_xmlbuffer(made, text.c_str(), static_cast<int>(text.size() + 1)) == 0);
  REQUIRE(hwloc_topology_load(made) == 0);
  return machine;
}

std::string device(const char* name, int type, int number) {
  const std::string index = std::to_string(100 + 10 * number);
  return "<object type=\"Bridge\" gp_index=\"" + index +
         "1\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[" + std::to_string(10 + number) +
         "-" + std::to_string(10 + number) + "]\">\n<object type=\"PCIDev\" gp_index=\"" + index +
         "2\" pci_busid=\"0000:" + std::to_string(10 + number) +
         ":00.0\" pci_type=\"0207 [15b3:1017] [15b3:0001] 00\" pci_link_speed=\"0.0\">\n"
         "<object type=\"OSDev\" gp_index=\"" +
         index + "3\" name=\"" + name + "\" osdev_type=\"" + std::to_string(type) +
         "\"/>\n</object>\n</object>\n";
}

}  // namespace

TEST_CASE("the RDMA device's part of the machine is found") {
  std::string name;
  CHECK(part_of_rdma_device(machine_with("").get(), name) == nullptr);
  const std::string network = device("eth0", HWLOC_OBJ_OSDEV_NETWORK, 1);
  CHECK(part_of_rdma_device(machine_with(network).get(), name) == nullptr);
  const Machine machine = machine_with(network + device("mlx5_0", HWLOC_OBJ_OSDEV_OPENFABRICS, 2));
  const hwloc_obj_t part = part_of_rdma_device(machine.get(), name);
  REQUIRE(part != nullptr);
  CHECK(name == "mlx5_0");
  CHECK(hwloc_bitmap_weight(part->nodeset) == 1);
  CHECK(hwloc_bitmap_isset(part->nodeset, 1));
  CHECK(hwloc_bitmap_weight(part->cpuset) == 2);
}

TEST_CASE("a store is bound to this machine's node, or the reason is reported") {
  std::string report;
  const Status status = bind_to_numa(report);
  CHECK((status.ok() ? !report.empty() : status == Code::unsupported));
}

TEST_CASE("reading begins where it is faster from then on") {
  CHECK(crossover({}) == UINT64_MAX);
  CHECK(crossover({{1, 5, 9}, {2, 6, 9}, {4, 10, 9}, {8, 20, 10}}) == 4);
  CHECK(crossover({{1, 5, 4}, {2, 6, 9}, {4, 10, 9}}) == 4);  // once by chance before
  CHECK(crossover({{1, 5, 9}, {2, 6, 9}}) == UINT64_MAX);
  CHECK(crossover({{1, 5, 5}, {2, 6, 5}}) == 1);
  // Disturbed at the end.
  CHECK(crossover({{1, 5, 20}, {2, 20, 10}, {4, 40, 10}, {8, 90, 100}}) == 2);
}

TEST_CASE("thresholds are kept one a fabric") {
  weft::testing::StoreFixture fixture;
  const std::string file = fixture.folder() + "/deeper/thresholds";
  CHECK(read_thresholds(file).empty());
  REQUIRE(write_thresholds(file, {{"shm", 1024}, {"ofi", UINT64_MAX}}));
  CHECK(read_thresholds(file) ==
        std::map<std::string, std::uint64_t>{{"ofi", UINT64_MAX}, {"shm", 1024}});
  ::unlink(file.c_str());
  ::rmdir((fixture.folder() + "/deeper").c_str());
  CHECK(write_thresholds("/proc/none/thresholds", {}) == Code::not_permitted);
}
