// kv_client ADDRESS SECRET get KEY | set KEY VALUE
#include <cstdio>
#include <string>
#include <vector>

#include "kv.hpp"

int main(int argc, char** argv) {
  const std::string command = argc > 3 ? argv[3] : "";
  if (!(command == "get" && argc == 5) && !(command == "set" && argc == 6))
    return std::fprintf(stderr, "usage: kv_client ADDRESS SECRET get KEY | set KEY VALUE\n"), 2;
  const std::string key = argv[4];
  weft::NodeSettings settings;
  settings.name = "kv client";
  settings.secret = argv[2];
  settings.progress_thread = false;  // so callbacks come in wait_some() and wait() alone
  weft::Node node(settings);
  std::vector<std::string> answers;
  node.on_message([&](const weft::Peer&, std::span<const std::byte> bytes) {
    answers.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  weft::Peer server;
  if (weft::Status status = node.connect(argv[1], server); !status)
    return std::fprintf(stderr, "kv_client: %s\n", status.text().c_str()), 1;
  auto wait_for = [&](std::size_t count) {
    while (answers.size() < count && !server.is_lost()) node.wait_some(20);
    return answers.size() >= count;
  };
  weft::MemoryKey memory_key;
  if (!wait_for(1) || answers[0].size() != sizeof memory_key) return 1;
  std::memcpy(&memory_key, answers[0].data(), sizeof memory_key);
  if (command == "set") {
    std::string message = "s";
    message += static_cast<char>(key.size());
    message += key + argv[5];
    if (node.send(server, message.data(), message.size()) != weft::Code::ok || !wait_for(2))
      return 1;
    if (answers[1] != "k") return std::fprintf(stderr, "kv_client: %s\n", answers[1].c_str()), 1;
    return 0;
  }
  const weft::PeerMemory table = node.memory(server, memory_key);
  std::vector<kv::Entry> entries(kv::kProbes);
  weft::Operation operation;
  for (int tries = 0; tries < 1000; ++tries) {
    node.get(table, kv::place(key) * sizeof(kv::Entry), entries.data(),
             entries.size() * sizeof(kv::Entry), operation);
    if (const weft::Code code = node.wait(operation); code != weft::Code::ok)
      return std::fprintf(stderr, "kv_client: %s\n", weft::code_name(code).data()), 1;
    bool is_torn = false;
    for (const kv::Entry& entry : entries) {
      if (entry.version == 0) break;
      if (entry.key_bytes > sizeof entry.key || entry.value_bytes > sizeof entry.value) {
        is_torn = true;
        break;
      }
      const std::string_view found(entry.key, entry.key_bytes);
      const std::string_view value(entry.value, entry.value_bytes);
      is_torn =
          entry.version % 2 != 0 || entry.checksum != kv::checksum(entry.version, found, value);
      if (is_torn) break;  // once more
      if (found == key) return std::printf("%.*s\n", int(value.size()), value.data()), 0;
    }
    if (!is_torn) break;
  }
  std::fprintf(stderr, "kv_client: no such key\n");
  return 1;
}
