// objstore SOCKET: puts an object in the store, reads it back, and prints it.
#include <weft/object_store.hpp>

#include <cstdio>
#include <cstring>
#include <string_view>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  weft::ObjectStore store({.socket = argv[1]});
  weft::ObjectId id;
  constexpr std::string_view kText = "an object";
  weft::ObjectBuffer buffer;
  if (!weft::ObjectId::make("greeting", id) || !store.create(id, kText.size(), 0, buffer)) return 1;
  std::memcpy(buffer.data().data(), kText.data(), kText.size());
  weft::Object object;
  if (!store.seal(buffer) || !store.get(id, object, 1000)) return 1;
  std::printf("%.*s\n", static_cast<int>(object.data().size()),
              reinterpret_cast<const char*>(object.data().data()));
}
