// kv_server ADDRESS SECRET: holds the table until it is interrupted.
#include <signal.h>

#include <atomic>
#include <cstdio>
#include <string>

#include "kv.hpp"

namespace {

volatile sig_atomic_t is_over = 0;

const char* change(kv::Entry* table, std::string_view key, std::string_view value) {
  for (std::uint32_t i = 0; i < kv::kProbes; ++i) {
    kv::Entry& entry = table[kv::place(key) + i];
    const bool is_free = entry.version == 0;
    if (!is_free && std::string_view(entry.key, entry.key_bytes) != key) continue;
    std::atomic_ref<std::uint64_t> version(entry.version);
    const std::uint64_t next = entry.version + 2;
    version.store(next - 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    entry.key_bytes = static_cast<std::uint32_t>(key.size());
    entry.value_bytes = static_cast<std::uint32_t>(value.size());
    std::memcpy(entry.key, key.data(), key.size());
    std::memcpy(entry.value, value.data(), value.size());
    entry.checksum = kv::checksum(next, key, value);
    version.store(next, std::memory_order_release);
    return "k";
  }
  return "full";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: kv_server ADDRESS SECRET\n"), 2;
  weft::NodeSettings settings;
  settings.name = "kv server";
  settings.secret = argv[2];
  weft::Node node(settings);
  void* memory = nullptr;
  weft::MemoryKey key;
  weft::Status status = node.allocate(kv::kEntries * sizeof(kv::Entry), memory);
  if (status) status = node.key(memory, weft::kRead, key);
  auto* table = static_cast<kv::Entry*>(memory);
  node.on_peer([&](const weft::Peer& peer) {
    // The first message to a peer always has room.
    if (node.send(peer, &key, sizeof key) != weft::Code::ok) node.close(peer);
  });
  node.on_message([&](const weft::Peer& peer, std::span<const std::byte> bytes) {
    // A copy, as a hostile client could change the message during the checks.
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::size_t length = text.size() > 1 ? static_cast<unsigned char>(text[1]) : 0;
    const char* answer = "bad";
    if (text.size() >= 2 + length && text[0] == 's' && length > 0 && length <= sizeof table->key &&
        text.size() - 2 - length <= sizeof table->value)
      answer = change(table, std::string_view(text).substr(2, length),
                      std::string_view(text).substr(2 + length));
    // A client that does not read its answers gets none.
    [[maybe_unused]] const weft::Code code = node.send(peer, answer, std::strlen(answer));
  });
  if (status) status = node.listen(argv[1]);
  if (!status) return std::fprintf(stderr, "kv_server: %s\n", status.text().c_str()), 1;
  ::signal(SIGTERM, [](int) { is_over = 1; });
  ::signal(SIGINT, [](int) { is_over = 1; });
  std::printf("ready\n");
  std::fflush(stdout);
  while (is_over == 0) node.wait_some(100);
}
