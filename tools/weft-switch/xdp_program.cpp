#include "tools/weft-switch/xdp_program.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

namespace weft::innet {
namespace {

using Program = std::vector<bpf_insn>;

// What 16 bits of a frame have to be, in the mask's bits; numbers in host order. Frames are read by
// 16 bits, to which all processors' frames are aligned.
struct Field {
  int offset;
  unsigned mask, value;
};

// Registers: 0 the result, 1 to 5 arguments, of which 1 is the frame's description at the start.
constexpr int kFrame = 2, kEnd = 3, kQueue = 4, kScratch = 5;

void add(Program& program, int code, int to, int from, std::size_t offset, std::int32_t number) {
  bpf_insn step{};
  step.code = static_cast<std::uint8_t>(code);
  step.dst_reg = static_cast<std::uint8_t>(to & 15);
  step.src_reg = static_cast<std::uint8_t>(from & 15);
  step.off = static_cast<std::int16_t>(offset);
  step.imm = number;
  program.push_back(step);
}
void set(Program& program, int to, std::int32_t number) {
  add(program, BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, number);
}
void copy(Program& program, int to, int from) {
  add(program, BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0);
}
std::int32_t as_in_frame(unsigned value) { return htons(static_cast<std::uint16_t>(value)); }

Program write_program(const Mac& mac, std::uint32_t ipv4, int sockets) {
  const auto pair = [&](std::size_t i) { return static_cast<unsigned>(mac[i] << 8 | mac[i + 1]); };
  constexpr int kIp = kEthernetBytes, kUdp = kIp + 20;
  const Field fields[] = {
      {0, 0xffff, pair(0)},
      {2, 0xffff, pair(2)},
      {4, 0xffff, pair(4)},
      {12, 0xffff, ETHERTYPE_IP},
      {kIp, 0xff00, 0x4500},  // no options
      {kIp + 6, 0x3fff, 0},   // no fragment
      {kIp + 8, 0x00ff, IPPROTO_UDP},
      {kIp + 16, 0xffff, ipv4 >> 16},
      {kIp + 18, 0xffff, ipv4 & 0xffff},
      {kUdp + 2, 0xffff, kRocePort},
  };
  Program program;
  std::vector<std::size_t> to_pass;  // jumps whose target is the end
  add(program, BPF_LDX | BPF_MEM | BPF_W, kQueue, 1, offsetof(xdp_md, rx_queue_index), 0);
  add(program, BPF_LDX | BPF_MEM | BPF_W, kFrame, 1, offsetof(xdp_md, data), 0);
  add(program, BPF_LDX | BPF_MEM | BPF_W, kEnd, 1, offsetof(xdp_md, data_end), 0);
  copy(program, kScratch, kFrame);
  add(program, BPF_ALU64 | BPF_ADD | BPF_K, kScratch, 0, 0, kEthernetBytes + kIpUdpBytes);
  to_pass.push_back(program.size());
  add(program, BPF_JMP | BPF_JGT | BPF_X, kScratch, kEnd, 0, 0);
  for (const Field& field : fields) {
    add(program, BPF_LDX | BPF_MEM | BPF_H, kScratch, kFrame,
        static_cast<std::size_t>(field.offset), 0);
    if (field.mask != 0xffff)
      add(program, BPF_ALU64 | BPF_AND | BPF_K, kScratch, 0, 0, as_in_frame(field.mask));
    to_pass.push_back(program.size());
    add(program, BPF_JMP | BPF_JNE | BPF_K, kScratch, 0, 0, as_in_frame(field.value));
  }
  // The third argument is the verdict if the queue has no socket.
  copy(program, 2, kQueue);
  add(program, BPF_LD | BPF_IMM | BPF_DW, 1, BPF_PSEUDO_MAP_FD, 0, sockets);
  add(program, 0, 0, 0, 0, 0);  // the second half
  set(program, 3, XDP_PASS);
  add(program, BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect_map);
  add(program, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
  for (const std::size_t jump : to_pass)
    program[jump].off = static_cast<std::int16_t>(program.size() - jump - 1);
  set(program, 0, XDP_PASS);
  add(program, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
  return program;
}

int bpf(bpf_cmd command, bpf_attr& attributes) noexcept {
  return static_cast<int>(syscall(SYS_bpf, command, &attributes, sizeof attributes));
}
bpf_attr no_attributes() noexcept {
  bpf_attr attributes;
  std::memset(&attributes, 0, sizeof attributes);
  return attributes;
}
std::uint64_t pointer(const void* to) noexcept { return reinterpret_cast<std::uintptr_t>(to); }

Status bpf_failure(const char* what) {
  const int error = errno;
  const bool forbidden = error == EPERM;  // EACCES: the kernel's verifier refuses the program
  return {
      forbidden ? Code::not_permitted : Code::unsupported,
      fmt::format("{}: {}{}", what, std::strerror(error),
                  forbidden ? "; it takes CAP_NET_ADMIN and CAP_BPF outside of containers" : "")};
}

}  // namespace

XdpProgram::~XdpProgram() {
  for (const int fd : {link_, program_, sockets_})
    if (fd >= 0) ::close(fd);
}

Status XdpProgram::load(const Mac& mac, std::uint32_t ipv4, unsigned num_queues) {
  bpf_attr map = no_attributes();
  map.map_type = BPF_MAP_TYPE_XSKMAP;
  map.key_size = sizeof(std::uint32_t);
  map.value_size = sizeof(int);
  map.max_entries = num_queues;
  sockets_ = bpf(BPF_MAP_CREATE, map);
  if (sockets_ < 0) return bpf_failure("no map of BPF to be had");
  const Program steps = write_program(mac, ipv4, sockets_);
  bpf_attr load = no_attributes();
  load.prog_type = BPF_PROG_TYPE_XDP;
  load.expected_attach_type = BPF_XDP;
  load.insns = pointer(steps.data());
  load.insn_cnt = static_cast<std::uint32_t>(steps.size());
  load.license = pointer("Apache-2.0");
  std::memcpy(load.prog_name, "weft_switch", sizeof "weft_switch");
  // Frames in several pieces, which only pass, need not be copied together; before Linux 5.18 they
  // had to be.
  load.prog_flags = BPF_F_XDP_HAS_FRAGS;
  program_ = bpf(BPF_PROG_LOAD, load);
  if (program_ < 0 && errno == EINVAL) {
    load.prog_flags = 0;
    program_ = bpf(BPF_PROG_LOAD, load);
  }
  if (program_ < 0) return bpf_failure("the kernel does not load a program of BPF");
  return {};
}

Status XdpProgram::set_socket(unsigned queue, int socket) {
  bpf_attr element = no_attributes();
  element.map_fd = static_cast<std::uint32_t>(sockets_);
  element.key = pointer(&queue);
  element.value = pointer(&socket);
  if (bpf(BPF_MAP_UPDATE_ELEM, element) != 0)
    return bpf_failure("a socket does not go into the map");
  return {};
}

Status XdpProgram::attach(unsigned interface, bool by_driver) {
  bpf_attr link = no_attributes();
  link.link_create.prog_fd = static_cast<std::uint32_t>(program_);
  link.link_create.target_ifindex = interface;
  link.link_create.attach_type = BPF_XDP;
  link.link_create.flags = by_driver ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE;
  link_ = bpf(BPF_LINK_CREATE, link);
  if (link_ >= 0) return {};
  if (errno == EBUSY || errno == EEXIST)
    return {Code::exists, "another XDP program is at the interface: see ip link show"};
  return bpf_failure(by_driver ? "its driver takes no XDP program" : "it takes no XDP program");
}

}  // namespace weft::innet
