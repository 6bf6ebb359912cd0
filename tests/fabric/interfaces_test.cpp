// Which interface the ofi fabric takes of those that there are.
#include "fabric/interfaces.hpp"

#include <netinet/in.h>

#include <catch2/catch.hpp>

namespace {

using namespace weft;
using fabric::Interface;

// The address of the one that is taken.
std::string taken(const std::vector<Interface>& interfaces, const std::string& wanted = "") {
  std::size_t chosen = 0;
  if (Status status = fabric::choose_interface(interfaces, wanted, chosen); !status)
    return status.text();
  return interfaces[chosen].address;
}

const Interface kLoopback{"lo", "127.0.0.1"}, kDocker{"docker0", "172.17.0.1"},
    kFirst{"eth0", "10.1.0.1"}, kSecond{"eth1", "10.2.0.1"}, kRouted{"wlan0", "192.168.0.9", true},
    kV6{"eth0", "fd00::1"}, kRoutedV6{"eth2", "2001:db8::1", true}, kDevice{"rdmap0s6-rdm", ""};

}  // namespace

TEST_CASE("the interface is that of the default route, else no bridge of containers",
          "[interfaces]") {
  CHECK(taken({kDocker, kFirst, kRouted, kLoopback}) == kRouted.address);
  CHECK(taken({kDocker, kLoopback, kSecond, kFirst}) == kSecond.address);  // the first
  for (const char* name : {"docker0", "br-4711", "virbr0", "veth12", "cni0"})
    CHECK(taken({{name, "172.17.0.1"}, kFirst}) == kFirst.address);
  CHECK(taken({{"br-lan", "10.9.0.1", true}, kFirst}) == "10.9.0.1");
  CHECK(taken({{"bridge0", "10.9.0.1"}, kFirst}) == "10.9.0.1");
  CHECK(taken({kLoopback, kDocker}) == kDocker.address);
  CHECK(taken({kLoopback}) == kLoopback.address);
  CHECK(taken({kDevice}) == "");
}

TEST_CASE("IPv6 is taken where there is no IPv4 that leads to other hosts", "[interfaces]") {
  CHECK(taken({kRoutedV6, kV6, kFirst, kLoopback}) == kFirst.address);
  CHECK(taken({kDocker, {"lo", "::1"}, kLoopback, kV6}) == kV6.address);
  CHECK(taken({kV6, kRoutedV6}) == kRoutedV6.address);
  CHECK(taken({{"lo", "::1"}, kLoopback}) == kLoopback.address);
}

TEST_CASE("WEFT_INTERFACE names an interface, an address or a network", "[interfaces]") {
  const std::vector<Interface> all = {kRouted, kFirst, kSecond, kV6, kDocker, kLoopback};
  CHECK(taken(all, "eth1") == kSecond.address);
  CHECK(taken(all, "eth0") == kFirst.address);
  CHECK(taken(all, "10.2.0.1") == kSecond.address);
  CHECK(taken(all, "10.2.0.0/16") == kSecond.address);
  CHECK(taken(all, "10.0.0.0/14") == kFirst.address);
  CHECK(taken(all, "172.16.0.0/12") == kDocker.address);
  CHECK(taken(all, "fd00::/8") == kV6.address);
  CHECK(taken(all, "0.0.0.0/0") == kRouted.address);
  CHECK(taken({kDevice}, "rdmap0s6-rdm") == "");
  for (const char* wrong : {"eth", "eth00", "10.2.0.0", "10.3.0.0/16", "10.2.0.0/33", "10.2.0.0/",
                            "10.2.0.0/8x", "/8", "fd00::/129"}) {
    const std::string text = taken(all, wrong);
    CHECK(text.find(wrong) != std::string::npos);
    CHECK(text.find("eth0 10.1.0.1, eth1 10.2.0.1, eth0 fd00::1, docker0") != std::string::npos);
  }
}

TEST_CASE("addresses are told as text, others as none", "[interfaces]") {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = htonl(0x0a010002);
  const std::string_view bytes(reinterpret_cast<const char*>(&v4), sizeof v4);
  CHECK(fabric::address_text(bytes) == "10.1.0.2");
  CHECK(fabric::address_text(bytes.substr(0, 4)) == "");
  CHECK(fabric::address_text("") == "");
  CHECK(fabric::address_text(std::string(64, '\xff')) == "");
}
