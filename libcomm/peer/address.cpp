#include "peer/address.hpp"

#include <fmt/core.h>
#include <sodium.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "base/bytes.hpp"
#include "base/os/host_name.hpp"

namespace weft::peer {

namespace {
constexpr std::uint32_t kVersion = 1;
constexpr std::string_view kPrefix = "weft:";
constexpr std::size_t kMaxItems = 16;
constexpr std::size_t kMaxBootstrapBytes = 256;
constexpr std::size_t kMaxFabricBytes = 512;
}  // namespace

std::string_view NodeAddress::on(std::string_view fabric, std::size_t device) const {
  for (const OnFabric& item : fabrics)
    if (item.fabric == fabric && device-- == 0) return item.address;
  return {};
}

std::size_t NodeAddress::num_devices(std::string_view fabric) const {
  return static_cast<std::size_t>(std::ranges::count(fabrics, fabric, &OnFabric::fabric));
}

std::string encode(const NodeAddress& address) {
  std::string bytes;
  append_value(bytes, kVersion);
  append_value(bytes, address.generation);
  append_short_text(bytes, address.name);
  append_short_text(bytes, address.host);
  append_value(bytes, static_cast<std::uint8_t>(address.bootstraps.size()));
  for (const std::string& bootstrap : address.bootstraps) append_short_text(bytes, bootstrap);
  append_value(bytes, static_cast<std::uint8_t>(address.fabrics.size()));
  for (const auto& [fabric, on] : address.fabrics) {
    append_short_text(bytes, fabric);
    append_short_text(bytes, on);
  }
  return bytes;
}

Status decode(std::string_view bytes, NodeAddress& address) {
  ByteReader reader(bytes);
  const auto version = reader.value<std::uint32_t>();
  if (reader.ok() && version != kVersion)
    return {Code::corrupt,
            fmt::format("the address is of version {} and this Weft reads version {}", version,
                        kVersion)};
  NodeAddress read;
  read.generation = reader.value<std::uint64_t>();
  read.name = reader.text(kMaxNameBytes);
  read.host = reader.text(kMaxNameBytes);
  const std::size_t num_bootstraps = reader.value<std::uint8_t>();
  if (num_bootstraps > kMaxBootstraps) return {Code::corrupt, "the address of a Node is invalid"};
  for (std::size_t i = 0; i < num_bootstraps; ++i)
    read.bootstraps.emplace_back(reader.text(kMaxBootstrapBytes));
  const std::size_t num_fabrics = reader.value<std::uint8_t>();
  if (num_fabrics > kMaxItems) return {Code::corrupt, "the address of a Node is invalid"};
  for (std::size_t i = 0; i < num_fabrics; ++i) {
    std::string fabric(reader.text(kMaxNameBytes));
    read.fabrics.push_back({std::move(fabric), std::string(reader.text(kMaxFabricBytes))});
  }
  // A name with a byte 0 would be another one in C.
  if (!reader.complete() || read.generation == 0 || read.name.find('\0') != std::string::npos)
    return {Code::corrupt, "the address of a Node is invalid or truncated"};
  address = std::move(read);
  return {};
}

std::string to_text(const NodeAddress& address) {
  const std::string bytes = encode(address);
  constexpr int kVariant = sodium_base64_VARIANT_URLSAFE_NO_PADDING;
  std::string text(sodium_base64_ENCODED_LEN(bytes.size(), kVariant), '\0');
  sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                    bytes.size(), kVariant);
  text.pop_back();  // its terminating zero
  return std::string(kPrefix) + text;
}

bool is_address_text(std::string_view text) { return text.starts_with(kPrefix); }

Status from_text(std::string_view text, NodeAddress& address) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  if (!is_address_text(text) || text.size() > kMaxAddressTextBytes)
    return {Code::corrupt, "this is not the address of a Node"};
  text.remove_prefix(kPrefix.size());
  std::string bytes(text.size(), '\0');
  std::size_t length = 0;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(),
                        text.size(), nullptr, &length, nullptr,
                        sodium_base64_VARIANT_URLSAFE_NO_PADDING) != 0)
    return {Code::corrupt, "the address of a Node has letters that do not belong there"};
  bytes.resize(length);
  return decode(bytes, address);
}

std::string host_identity() {
  std::string boot;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  if (!std::getline(file, boot)) boot = host_name();
  struct stat net {};
  const bool known = ::stat("/proc/self/ns/net", &net) == 0;
  return fmt::format("{:.36}/{}", boot, known ? net.st_ino : 0);
}

}  // namespace weft::peer
