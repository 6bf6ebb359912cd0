#include "commands.hpp"
#include "tools/cli/cli.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "objstore/shared/memory.hpp"
#include "tools/weft-store/metrics.hpp"
#include "weft/job.hpp"
#include "weft/object_store.hpp"

namespace weft::objstore {
namespace {

struct Arguments {
  std::string id, file;
  std::vector<std::string> ids, hosts;
  bool is_json = false, is_prometheus = false, is_pinned = false, fetches = false;
  std::uint64_t offset = 0, length = UINT64_MAX;
  double watch_seconds = 0, timeout_seconds = 10, push_seconds = 60, ttl_seconds = 0;
  std::size_t least = 0;
  std::uint32_t copies = 1;
};

constexpr const char* kIdHelp =
    "1 to 255 bytes; of bytes that are no text 0x and their hexadecimal digits";
constexpr int kStartMs = 3000;  // how long a store is waited for that was started just before

// A shell that starts a store in the background goes on before it listens.
std::unique_ptr<ObjectStore> connect(const std::string& socket) {
  for (int waited_ms = 0;; waited_ms += 20) {
    try {
      return std::make_unique<ObjectStore>(
          ObjectStoreSettings{.socket = socket, .name = "weft-store"});
    } catch (const Error& error) {
      if (error.status().code() != Code::not_found || waited_ms >= kStartMs) throw;
    }
    ::usleep(20'000);
  }
}

ObjectId parse(const std::string& text) {
  ObjectId id;
  if (!ObjectId::parse(text, id))
    throw Error(Status(Code::bad_argument, "an object's id is 1 to 255 bytes, and this one is of " +
                                               std::to_string(text.size())));
  return id;
}

std::int64_t milliseconds(double seconds) {
  return seconds < 0 ? -1 : static_cast<std::int64_t>(seconds * 1000);
}

void check(const Status& status) {
  if (!status) throw Error(status);
}

// From a file, or standard input as it comes.
std::vector<std::byte> read_all(const std::string& file) {
  Descriptor opened;
  int fd = 0;
  if (!file.empty() && file != "-") {
    opened = Descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!opened) check(system_error("opening " + file));
    fd = opened.get();
  }
  std::vector<std::byte> data;
  struct stat info;
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
    data.reserve(static_cast<std::size_t>(info.st_size) + 1);
  for (;;) {
    const std::size_t before = data.size();
    data.resize(std::max<std::size_t>(data.capacity(), before + (64 << 10)));
    const ssize_t got = ::read(fd, data.data() + before, data.size() - before);
    if (got < 0 && errno != EINTR) check(system_error("reading " + file));
    data.resize(before + (got > 0 ? static_cast<std::size_t>(got) : 0));
    if (got == 0) return data;
  }
}

void write_all(std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t put = ::write(1, data.data(), data.size());
    if (put < 0 && errno != EINTR) check(system_error("writing to standard output"));
    if (put > 0) data = data.subspan(static_cast<std::size_t>(put));
  }
}

// Numbers of a nested object, with their path as a name.
void flatten(const nlohmann::json& json, const std::string& prefix,
             const std::function<void(const std::string&, const nlohmann::json&)>& print) {
  for (const auto& [key, value] : json.items()) {
    const std::string name = prefix.empty() ? key : prefix + "_" + key;
    if (value.is_object()) flatten(value, name, print);
    if (value.is_number()) print(name, value);
  }
}

void print_status(const std::string& text, const Arguments& arguments) {
  if (arguments.is_json) {
    std::printf("%s\n", text.c_str());
    return;
  }
  if (arguments.is_prometheus) {
    std::printf("%s", metrics_of(text).c_str());
    return;
  }
  const auto json = nlohmann::json::parse(text);
  flatten(json, "", [](const std::string& name, const nlohmann::json& value) {
    std::printf("%-28s %s\n", name.c_str(), value.dump().c_str());
  });
  for (const char* list : {"clients", "peers"}) {
    if (!json.contains(list)) continue;
    for (const auto& row : json[list]) std::printf("%s %s\n", list, row.dump().c_str());
  }
}

int show_status(ObjectStore& store, const Arguments& arguments) {
  for (;;) {
    std::string text;
    check(store.status(text));
    if (arguments.watch_seconds > 0) std::printf("\033[H\033[J");
    print_status(text, arguments);
    if (std::fflush(stdout) != 0) return 1;
    if (arguments.watch_seconds <= 0) return 0;
    ::usleep(static_cast<useconds_t>(std::min(arguments.watch_seconds, 3600.0) * 1e6));
  }
}

int list(ObjectStore& store) {
  std::vector<ObjectEntry> objects;
  check(store.list(objects));
  for (const ObjectEntry& object : objects)
    std::printf("%-40s %12llu %8u%s%s%s\n", object.id.text().c_str(),
                static_cast<unsigned long long>(object.data_bytes), object.metadata_bytes,
                object.is_pinned ? " pinned" : "", object.is_referenced ? " referenced" : "",
                object.is_spilled ? " spilled" : "");
  return 0;
}

int wait(ObjectStore& store, const Arguments& arguments) {
  std::vector<ObjectId> ids;
  for (const std::string& text : arguments.ids) ids.push_back(parse(text));
  std::vector<bool> is_here;
  const Status status =
      store.wait(ids, arguments.least == 0 ? ids.size() : arguments.least,
                 milliseconds(arguments.timeout_seconds), is_here, arguments.fetches);
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (is_here[i]) std::printf("%s\n", arguments.ids[i].c_str());
  check(status);
  return 0;
}

// Without a copy that stays here.
int get_range(ObjectStore& store, const Arguments& arguments) {
  const ObjectId id = parse(arguments.id);
  const std::int64_t timeout_ms = milliseconds(arguments.timeout_seconds);
  std::uint64_t data_bytes = 0;
  check(store.get_into(id, 0, {}, data_bytes, timeout_ms));
  // An offset behind the end is get_into's error.
  const std::uint64_t begin = arguments.offset;
  ObjectMemory memory;
  if (begin > data_bytes) check(store.get_into(id, begin, {}, data_bytes, timeout_ms));
  check(store.allocate(std::min(arguments.length, data_bytes - begin), memory));
  std::uint64_t again = 0;
  check(store.get_into(id, begin, memory.data(), again, timeout_ms));
  if (again != data_bytes)
    throw Error(Status(Code::not_found, "object " + arguments.id + " was replaced by another"));
  write_all(memory.data());
  return 0;
}

int get(ObjectStore& store, const Arguments& arguments) {
  if (arguments.offset != 0 || arguments.length != UINT64_MAX) return get_range(store, arguments);
  Object object;
  check(store.get(parse(arguments.id), object, milliseconds(arguments.timeout_seconds)));
  write_all(object.data());
  return 0;
}

int put(ObjectStore& store, const Arguments& arguments) {
  ObjectOptions options;
  options.is_pinned = arguments.is_pinned;
  options.copies = arguments.copies;
  options.is_first = true;
  options.timeout_ms = milliseconds(arguments.timeout_seconds);
  options.ttl_ms = static_cast<std::uint64_t>(arguments.ttl_seconds * 1000);
  check(store.put(parse(arguments.id), read_all(arguments.file), {}, options));
  return 0;
}

// A line for each host.
int push(ObjectStore& store, const Arguments& arguments) {
  std::vector<std::string> hosts = arguments.hosts;
  if (hosts == std::vector<std::string>{"all"}) hosts.clear();
  std::vector<ObjectPush> pushes;
  const Status status =
      store.push(parse(arguments.id), hosts, pushes, milliseconds(arguments.push_seconds));
  for (const ObjectPush& push : pushes)
    std::printf("%s %s\n", push.host.c_str(),
                push.was_there          ? "had it"
                : push.code == Code::ok ? "has it"
                                        : std::string(code_name(push.code)).c_str());
  check(status);
  return 0;
}

}  // namespace

int fail(const Status& status) {
  std::fprintf(stderr, "weft-store: %s\n", status.text().c_str());
  return 1;
}

void add_commands(cli::Command& app, const std::string& socket, std::function<int()>& command) {
  const auto arguments = std::make_shared<Arguments>();
  const auto add = [&](const char* name, const char* help,
                       std::function<int(ObjectStore&, const Arguments&)> run) -> cli::Command& {
    cli::Command& sub = app.command(name, help);
    sub.on_parse([&command, &socket, arguments, run] {
      command = [&socket, arguments, run] {
        try {
          const auto store = connect(socket);
          return run(*store, *arguments);
        } catch (const Error& error) {
          return fail(error.status());
        }
      };
    });
    return sub;
  };
  const auto add_id = [&](cli::Command& sub) {
    sub.option("ID", arguments->id, kIdHelp).required();
  };
  const auto add_timeout = [&](cli::Command& sub) {
    sub.option("--timeout", arguments->timeout_seconds, "seconds; below 0: for ever")
        .range_real(-1.0, 1e9)
        .shows_default();
  };
  cli::Command& status_command = add("status", "objects, memory, evictions, clients", show_status);
  const cli::Option json = status_command.flag("--json", arguments->is_json, "as one line of JSON");
  status_command
      .flag("--prometheus", arguments->is_prometheus,
            "the numbers as --metrics gives them to Prometheus")
      .excludes(json);
  status_command.option("--watch", arguments->watch_seconds, "again every so many seconds")
      .value_or("1")
      .range_real(0.01, 3600.0);
  cli::Command& put_command = add("put", "a file, or standard input, as an object", put);
  add_id(put_command);
  put_command.option("FILE", arguments->file, "- or nothing: standard input");
  put_command.option("--ttl", arguments->ttl_seconds, "seconds until it goes by itself")
      .range_real(0.0, 1e12);
  put_command.flag("--pin", arguments->is_pinned, "never evict it");
  put_command.option("--copies", arguments->copies, "hosts that have it before this returns")
      .range(1, 1000)
      .shows_default();
  add_timeout(put_command);
  cli::Command& get_command = add("get", "an object's data to standard output", get);
  add_id(get_command);
  get_command
      .option("--offset", arguments->offset,
              "from this byte on; of another host's object no copy is kept here then")
      .bytes();
  get_command.option("--length", arguments->length, "so many bytes at most; as with --offset")
      .bytes();
  add_timeout(get_command);
  add("ls", "the objects of this host: id, data and metadata in bytes",
      [](ObjectStore& store, const Arguments&) { return list(store); });
  cli::Command& push_command =
      add("push", "an object to other hosts at once; prints the result of each", push);
  add_id(push_command);
  push_command
      .option("--to", arguments->hosts,
              "all; or hosts, as `status` names them or by the address where their store "
              "listens, with commas between them")
      .required()
      .separated_by_commas();
  push_command.option("--timeout", arguments->push_seconds, "seconds; below 0: for ever")
      .range_real(-1.0, 1e9)
      .shows_default();
  cli::Command& delete_command =
      add("delete", "as soon as nobody uses it", [](ObjectStore& store, const Arguments& given) {
        check(store.erase(parse(given.id)));
        return 0;
      });
  add_id(delete_command);
  cli::Command& wait_command = add("wait", "for objects; prints those that are here", wait);
  wait_command.option("ID", arguments->ids, kIdHelp).required();
  wait_command.option("--least", arguments->least, "how many are enough; 0: all");
  wait_command.flag("--fetch", arguments->fetches, "and bring them here from other hosts");
  add_timeout(wait_command);
  cli::Command& pin_command =
      add("pin", "never evict it", [](ObjectStore& store, const Arguments& given) {
        check(store.pin(parse(given.id)));
        return 0;
      });
  add_id(pin_command);
  cli::Command& unpin_command =
      add("unpin", "evict it when its time comes", [](ObjectStore& store, const Arguments& given) {
        check(store.unpin(parse(given.id)));
        return 0;
      });
  add_id(unpin_command);
}

}  // namespace weft::objstore
