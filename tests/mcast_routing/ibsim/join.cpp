// Joins ports to multicast groups through the subnet manager: on standard input one group a line,
// port GUIDs in hexadecimal. Prints each group's MLID. Status 1 if a join was refused or got lost.
//
// A program of its own, since OpenSM knows of no member that has not joined; it accepts joins sent
// for others from any port. Some 32 joins are under way at a time.
#include <infiniband/mad.h>
#include <infiniband/umad.h>

#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Join {
  uint32_t group;
  uint64_t guid;
};

constexpr uint64_t kJoinMask = 1u << 0 | 1u << 1 | 1u << 2 | 1u << 4 | 1u << 5 | 1u << 6 | 1u << 7 |
                               1u << 8 | 1u << 9 | 1u << 12 | 1u << 13 |
                               1u << 16;  // the fields that fill() sets
constexpr int kTimeoutMs = 20000;

void fill(const Join& join, uint8_t* record) {
  std::memset(record, 0, IB_SA_DATA_SIZE);
  uint8_t group_gid[16] = {0xff, 0x18}, port_gid[16] = {0xfe, 0x80};
  for (int i = 0; i < 4; ++i) group_gid[12 + i] = static_cast<uint8_t>(join.group >> (24 - 8 * i));
  for (int i = 0; i < 8; ++i) port_gid[8 + i] = static_cast<uint8_t>(join.guid >> (56 - 8 * i));
  mad_set_array(record, 0, IB_SA_MCM_MGID_F, group_gid);
  mad_set_array(record, 0, IB_SA_MCM_PORTGID_F, port_gid);
  mad_set_field(record, 0, IB_SA_MCM_QKEY_F, 0x80010000);
  mad_set_field(record, 0, IB_SA_MCM_PKEY_F, 0xffff);
  mad_set_field(record, 0, IB_SA_MCM_JOIN_STATE_F, 1);
  // Exactly 256 bytes and 10 Gb/s, which the least able port can do.
  record[38] = 2 << 6 | 1;
  record[42] = 2 << 6 | 3;
}

}  // namespace

int main() {
  std::vector<Join> joins;
  uint32_t groups = 0;
  for (std::string line; std::getline(std::cin, line); ++groups) {
    std::istringstream words(line);
    uint64_t guid = 0;
    while (words >> std::hex >> guid) joins.push_back({groups, guid});
  }
  int classes[] = {IB_SMI_CLASS, IB_SMI_DIRECT_CLASS, IB_SA_CLASS};
  ibmad_port* port = mad_rpc_open_port(nullptr, 0, classes, 3);
  ib_portid_t manager;
  if (port == nullptr || ib_resolve_smlid_via(&manager, 1000, port) < 0 || manager.lid == 0) {
    std::fprintf(stderr, "no subnet manager\n");
    return 1;
  }
  manager.qp = 1;
  manager.qkey = IB_DEFAULT_QP1_QKEY;
  const int device = mad_rpc_portid(port), agent = mad_rpc_class_agent(port, IB_SA_CLASS);
  const auto umad = std::make_unique<uint8_t[]>(umad_size() + IB_MAD_SIZE);
  std::vector<unsigned> mlids(groups);
  size_t sent = 0;
  for (size_t done = 0; done < joins.size(); ++done) {
    for (; sent < joins.size() && sent < done + 32; ++sent) {
      ib_rpc_t request = {};
      request.mgtclass = IB_SA_CLASS;
      request.method = IB_MAD_METHOD_SET;
      request.attr.id = IB_SA_ATTR_MCRECORD;
      request.mask = kJoinMask;
      request.trid = sent + 1;
      request.datasz = IB_SA_DATA_SIZE;
      request.dataoffs = IB_SA_DATA_OFFS;
      uint8_t record[IB_SA_DATA_SIZE];
      fill(joins[sent], record);
      std::memset(umad.get(), 0, umad_size() + IB_MAD_SIZE);
      mad_build_pkt(umad.get(), &request, &manager, nullptr, record);
      if (umad_send(device, agent, umad.get(), IB_MAD_SIZE, kTimeoutMs, 0) < 0) {
        std::perror("umad_send");
        return 1;
      }
    }
    int length = IB_MAD_SIZE;
    if (umad_recv(device, umad.get(), &length, kTimeoutMs) < 0) {
      std::perror("umad_recv");
      return 1;
    }
    uint8_t* mad = static_cast<uint8_t*>(umad_get_mad(umad.get()));
    const uint64_t number = mad_get_field64(mad, 0, IB_MAD_TRID_F) & 0xffffffff;
    const uint32_t status = mad_get_field(mad, 0, IB_MAD_STATUS_F);
    if (umad_status(umad.get()) != 0 || status != 0 || number == 0 || number > joins.size()) {
      std::fprintf(stderr, "join %llu: status %#x\n", static_cast<unsigned long long>(number),
                   status);
      return 1;
    }
    mlids[joins[number - 1].group] = mad_get_field(mad + IB_SA_DATA_OFFS, 0, IB_SA_MCM_MLID_F);
  }
  for (const unsigned mlid : mlids) std::printf("%#x\n", mlid);
  mad_rpc_close_port(port);
  return 0;
}
