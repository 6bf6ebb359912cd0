// Ids are bytes with a length: in every call, in the index, on the wire, as text.
#include "fixture.hpp"
#include "objstore/shared/index.hpp"
#include "objstore/shared/peer_wire.hpp"
#include "objstore/store/id_text.hpp"
#include "weft/object_store.h"

using namespace weft;
using namespace weft::objstore;
using namespace weft::testing;

namespace {

ObjectId made(std::string_view bytes) {
  ObjectId id;
  REQUIRE(ObjectId::make(bytes, id));
  return id;
}

// One id for each length, of which none is another's part by chance; and some that differ late.
std::vector<ObjectId> all_kinds() {
  std::vector<ObjectId> ids;
  std::string text;
  for (std::size_t length = 1; length <= ObjectId::kMostBytes; ++length) {
    text += static_cast<char>(length * 7);
    ids.push_back(made(text));
  }
  for (const char* end : {"a", "b"}) ids.push_back(made(std::string(200, 'x') + end));
  using std::string_view_literals::operator""sv;
  for (const std::string_view text : {"a"sv, "a\0"sv, "a\0b"sv, "\0"sv, "\0\0"sv})
    ids.push_back(made(text));
  return ids;
}

}  // namespace

TEST_CASE("an id has 1 to 255 bytes, and text that gives it back") {
  ObjectId id;
  CHECK_FALSE(ObjectId::make("", id));
  CHECK_FALSE(ObjectId::make(std::string(256, 'x'), id));
  CHECK_FALSE(ObjectId::parse(std::string(256, 'x'), id));
  CHECK(made("kv/llama-3-70b/layer.12/block-000123").text() ==
        "kv/llama-3-70b/layer.12/block-000123");
  CHECK(made(std::string("a\0b", 3)).text() == "0x610062");
  CHECK(made("0x61").text() == "0x30783631");
  CHECK(made("0x6").text() == "0x6");
  CHECK(made("two words").text() == "0x" + hex_of(made("two words")));
  for (const ObjectId& one : all_kinds()) {
    ObjectId again;
    REQUIRE(ObjectId::parse(one.text(), again));
    CHECK(again == one);
    REQUIRE(id_of_hex(hex_of(one), again));
    CHECK(again == one);
  }
}

TEST_CASE("ids of all lengths are different objects") {
  StoreFixture fixture(64 << 20);
  ObjectStore store({.socket = fixture.socket()}), other({.socket = fixture.socket()});
  const std::vector<ObjectId> ids = all_kinds();
  REQUIRE(store.subscribe());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    CHECK_FALSE(other.contains(ids[i]));
    const Status status = store.put(ids[i], contents_of(ids[i], 100 + i));
    INFO(status.text());
    REQUIRE(status.ok());
    ObjectEntry event;
    REQUIRE(store.next_event(event, 20000));
    CHECK(event.id == ids[i]);
  }
  std::vector<Object> objects(ids.size());
  REQUIRE(other.get(ids, objects, 0));
  for (std::size_t i = 0; i < ids.size(); ++i)
    CHECK(equal(objects[i].data(), contents_of(ids[i], 100 + i)));
  std::vector<ObjectEntry> entries;
  REQUIRE(other.list(entries));
  std::vector<ObjectId> listed;
  for (const ObjectEntry& entry : entries) listed.push_back(entry.id);
  std::vector<ObjectId> expected = ids;
  std::sort(listed.begin(), listed.end());
  std::sort(expected.begin(), expected.end());
  CHECK(listed == expected);
  objects.clear();
  for (std::size_t i = 0; i < ids.size(); i += 2) REQUIRE(store.erase(ids[i]));
  for (std::size_t i = 0; i < ids.size(); ++i) CHECK(other.contains(ids[i]) == (i % 2 == 1));
  // An entry that had a long id is used for a short one, and the other way round.
  for (std::size_t i = 0; i < ids.size(); i += 2) {
    const ObjectId& id = ids[ids.size() - 1 - i - (ids.size() % 2 == 0 ? 1 : 0)];
    if (!other.contains(id)) REQUIRE(store.put(id, contents_of(id, 10)));
    CHECK(other.contains(id));
  }
  std::vector<bool> is_here;
  REQUIRE(other.wait(std::span(ids).last(8), 1, 0, is_here));
}

TEST_CASE("an id of no bytes is refused by name") {
  StoreFixture fixture;
  ObjectStore store({.socket = fixture.socket()});
  const ObjectId none;
  Object object;
  std::uint64_t whole = 0;
  std::vector<bool> is_here;
  for (const Status& status :
       {store.put(none, {}), store.get(none, object), store.erase(none), store.pin(none),
        store.get_into(none, 0, {}, whole, 100), store.wait({&none, 1}, 1, 0, is_here)}) {
    CHECK(status == Code::bad_argument);
    CHECK(status.text().find("1 to 255 bytes") != std::string::npos);
  }
}

TEST_CASE("managers send ids of any length and take none that is cut") {
  for (const ObjectId& id : all_kinds()) {
    PeerMessage message;
    message.kind = PeerKind::watch;
    message.id = id;
    message.number = 7;
    const std::string bytes = encode(message);
    PeerMessage again;
    REQUIRE(decode(std::as_bytes(std::span(bytes)), again));
    CHECK(again.id == id);
    CHECK(again.number == 7);
    for (std::size_t length = 0; length < bytes.size(); ++length)
      CHECK_FALSE(decode(std::as_bytes(std::span(bytes)).first(length), again));
  }
  PeerMessage nameless;
  nameless.kind = PeerKind::announce;
  const std::string bytes = encode(nameless);
  PeerMessage again;
  CHECK_FALSE(decode(std::as_bytes(std::span(bytes)), again));
}

TEST_CASE("ranges outside of an object are errors, in C, too") {
  StoreFixture fixture;
  ObjectStore store({.socket = fixture.socket()});
  REQUIRE(store.put(made("t"), contents_of(id_of(1), 10)));
  std::array<std::byte, 16> into{};
  std::uint64_t whole = 0;
  CHECK(store.get_into(made("t"), 10, into, whole).ok());
  for (const std::uint64_t offset : {std::uint64_t{11}, UINT64_MAX, std::uint64_t{1} << 63})
    CHECK(store.get_into(made("t"), offset, into, whole) == Code::bad_argument);
  ObjectMemory memory;
  for (const std::uint64_t bytes :
       {UINT64_MAX, UINT64_MAX - 62, std::uint64_t{1} << 63, std::uint64_t{1} << 60})
    CHECK(store.allocate(bytes, memory) == Code::no_memory);
  ObjectBuffer buffer;
  CHECK(store.create(made("u"), UINT64_MAX, 5, buffer) == Code::no_memory);
  CHECK(store.put(made("u"), contents_of(id_of(2), 10)).ok());

  weft_object_store* c = nullptr;
  REQUIRE(weft_object_store_open(fixture.socket().c_str(), "c", &c) == 0);
  weft_object_id id;
  CHECK(weft_object_id_make("", 0, &id) == WEFT_BAD_ARGUMENT);
  CHECK(weft_object_id_make(into.data(), 256, &id) == WEFT_BAD_ARGUMENT);
  REQUIRE(weft_object_id_make("t", 1, &id) == 0);
  CHECK(weft_object_get_into(c, &id, static_cast<std::uint64_t>(-1), into.data(), 12, 0, &whole) ==
        WEFT_BAD_ARGUMENT);
  CHECK(weft_object_get_into(c, &id, 0, into.data(), static_cast<std::uint64_t>(-1), 0, &whole) ==
        WEFT_BAD_ARGUMENT);
  weft_object_memory* none = nullptr;
  CHECK(weft_object_memory_allocate(c, static_cast<std::uint64_t>(-1), &none) == WEFT_NO_MEMORY);
  // Objects keep what they need of a store that was closed.
  weft_object* object = nullptr;
  REQUIRE(weft_object_get(c, &id, 1, 0, &object) == 0);
  weft_object_store_close(c);
  std::uint64_t bytes = 0;
  const auto* data = static_cast<const std::byte*>(weft_object_data(object, &bytes));
  CHECK(equal({data, bytes}, contents_of(id_of(1), 10)));
  weft_object_release(object);
}
