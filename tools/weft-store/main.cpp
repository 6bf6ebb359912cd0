// weft-store: the store of a host, and its commands for the shell.
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>
#include <thread>

#include "base/log_sink.hpp"
#include "commands.hpp"
#include "objstore/manager/calibrate.hpp"
#include "objstore/manager/manager.hpp"
#include "objstore/store/bind.hpp"
#include "objstore/store/log.hpp"
#include "objstore/store/server.hpp"
#include "tools/cli/cli.hpp"
#include "tools/server/endpoint.hpp"
#include "tools/server/log_lines.hpp"
#include "tools/weft-store/metrics.hpp"
#include "weft/object_store.hpp"

namespace {

using namespace weft;
using namespace weft::objstore;

Server* running = nullptr;

struct Options {
  std::string socket = default_object_store_socket();
  std::uint64_t memory_bytes = std::uint64_t{1} << 30, quota_bytes = 0;
  std::uint32_t max_objects = kMaxEntries, spin_us = 50;
  bool huge_pages = false;
  SpillSettings spill;
  ManagerSettings manager;
  std::string thresholds_file = default_thresholds_file(), bind = "none";
  bool has_threshold = false;
  std::string secret_file, registers = "segment", metrics;
  server::LogFormat log_format = server::LogFormat::text;
};

void write_server_line(LogSeverity severity, std::string_view text,
                       std::span<const LogField> fields) {
  std::vector<server::LogField> copies;
  for (const LogField& field : fields) copies.push_back({field.name, field.value});
  server::write_line(severity == LogSeverity::error     ? "error"
                     : severity == LogSeverity::warning ? "warning"
                                                        : "info",
                     text, copies);
}

// Log lines of Nodes.
void write_node_line(LogLevel level, std::string_view text) {
  write_server_line(level == LogLevel::error  ? LogSeverity::error
                    : level == LogLevel::warn ? LogSeverity::warning
                                              : LogSeverity::info,
                    text, {});
}

// The lock of a server that is at work for so long is not waited for.
constexpr int kMostAttempts = 2000;

// For the endpoint's thread: run() holds the lock while it works, so a loop that is stuck never
// gives it.
std::unique_lock<std::mutex> lock_within_seconds(Server& store) {
  auto lock = store.try_lock();
  for (int i = 0; i < kMostAttempts && !lock; ++i) {
    ::usleep(1000);
    lock = store.try_lock();
  }
  return lock;
}

server::EndpointSources sources_of(Server& store) {
  return {[&store]() -> std::optional<std::string> {
            std::string status;
            {
              const auto lock = lock_within_seconds(store);
              if (!lock) return std::nullopt;
              status = store.status_text();
            }
            return metrics_of(status);
          },
          [&store] { return lock_within_seconds(store).owns_lock(); }};
}

// Without the line's end that editors add, of one byte or two.
Status read_secret(const std::string& file, std::string& secret) {
  std::ifstream in(file);
  if (!std::getline(in, secret) || secret.empty() || secret == "\r")
    return {Code::not_found, "--secret-file " + file + ": no secret can be read there"};
  if (secret.back() == '\r') secret.pop_back();
  struct stat info {};
  if (::stat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode) && (info.st_mode & 077) != 0)
    write_log(LogSeverity::warning,
              "other users may read or change the secret in " + file + " (mode " +
                  fmt::format("{:04o}", info.st_mode & 07777) + "); chmod 600 keeps it this user's",
              {{"event", "secret_mode"}, {"file", file}});
  return Code::ok;
}

// Wrong use of the command.
int refuse(const Status& status) {
  fail(status);
  return 2;
}

// A number of a file of one line; 0: there is none.
std::uint64_t number_in(const std::string& file) {
  std::uint64_t number = 0;
  std::ifstream(file) >> number;
  return number;
}

// Says what memory the objects will have. bad_argument: more than the machine can ever give.
Status check_memory(std::uint64_t bytes, bool huge_pages) {
  if (huge_pages) {
    constexpr std::uint64_t kPage = 2 << 20;
    const std::string folder = "/sys/kernel/mm/hugepages/hugepages-2048kB/";
    const std::uint64_t all = kPage * (number_in(folder + "nr_hugepages") +
                                       number_in(folder + "nr_overcommit_hugepages"));
    const std::uint64_t free =
        std::min(all, kPage * (number_in(folder + "free_hugepages") +
                               number_in(folder + "nr_overcommit_hugepages")));
    const std::uint64_t pages = (bytes + kPage - 1) / kPage;
    if (pages * kPage > all)
      return {Code::bad_argument,
              "--huge-pages: objects of " + size_text(bytes) + " want " + std::to_string(pages) +
                  " pages of 2 MiB, and the system has set aside " + size_text(all) +
                  "; sysctl vm.nr_hugepages=" + std::to_string(pages) +
                  " sets them aside, less --memory wants fewer"};
    write_log(free < bytes ? LogSeverity::warning : LogSeverity::info,
              "memory for objects: up to " + size_text(bytes) + " in pages of 2 MiB, of which " +
                  size_text(free) + " are free" +
                  (free < bytes ? "; others use the rest, and objects have what is free" : ""),
              {{"event", "memory"}, {"bytes", std::to_string(bytes)}});
    return Code::ok;
  }
  struct sysinfo info {};
  if (::sysinfo(&info) != 0) return Code::ok;
  const std::uint64_t unit = info.mem_unit, ram = info.totalram * unit,
                      all = ram + info.totalswap * unit;
  if (bytes > all)
    return {Code::bad_argument, "--memory " + size_text(bytes) + ": this machine has " +
                                    size_text(all) + " of memory and swap"};
  const bool is_most = bytes > ram / 10 * 9;
  write_log(is_most ? LogSeverity::warning : LogSeverity::info,
            "memory for objects: up to " + size_text(bytes) + " in pages of 4 KiB, of " +
                size_text(ram) + " that the machine has" +
                (is_most ? "; that leaves next to nothing for programs" : ""),
            {{"event", "memory"}, {"bytes", std::to_string(bytes)}});
  return Code::ok;
}

int serve(const Options& options) {
  server::set_log("weft-store", options.log_format);
  set_log_sink(write_server_line);
  if (const Status status = check_memory(options.memory_bytes, options.huge_pages); !status)
    return refuse(status);
  weft::log::set_sink(write_node_line);
  if (options.manager.protocol == "socket" && !options.spill.folder.empty())
    return refuse(
        {Code::bad_argument, "--protocol socket gives nothing that is spilled: leave --spill out"});
  // Before there is memory to be bound.
  if (options.bind == "numa") {
    std::string report;
    if (const Status status = bind_to_numa(report); !status) return fail(status);
    write_log(LogSeverity::info, "--bind numa: " + report, {{"event", "bound"}});
  }
  ServerSettings settings;
  settings.socket_path = options.socket;
  settings.objects.memory_bytes = options.memory_bytes;
  settings.objects.max_objects = options.max_objects;
  settings.objects.huge_pages = options.huge_pages;
  settings.objects.spill = options.spill;
  settings.quota_bytes = options.quota_bytes;
  settings.spin_us = options.spin_us;
  Server store;
  if (const Status status = store.open(settings); !status) return fail(status);
  ManagerSettings manager_settings = options.manager;
  manager_settings.spin_us = options.spin_us;
  if (!options.secret_file.empty())
    if (const Status status = read_secret(options.secret_file, manager_settings.secret); !status)
      return fail(status);
  char host[65] = {};
  ::gethostname(host, sizeof host - 1);
  if (!options.has_threshold)
    manager_settings.thresholds = read_thresholds(options.thresholds_file);
  manager_settings.registers_objects = options.registers == "object";
  manager_settings.name = std::string("weft-store ").append(host).substr(0, 64);
  std::optional<Manager> manager;
  if (!manager_settings.listen.empty() || !manager_settings.peers.empty() ||
      manager_settings.directory != "embedded") {
    manager.emplace(store, manager_settings);
    if (const Status status = manager->open(); !status)
      return status.code() == Code::bad_argument ? refuse(status) : fail(status);
  }
  server::Endpoint endpoint;
  if (!options.metrics.empty()) {
    if (const Status status = endpoint.open(options.metrics, sources_of(store)); !status)
      return status.code() == Code::bad_argument ? refuse(status) : fail(status);
    write_log(LogSeverity::info, "metrics at " + endpoint.address(),
              {{"event", "metrics"}, {"address", endpoint.address()}});
  }
  running = &store;
  struct sigaction end {};
  end.sa_handler = [](int) { running->stop(); };
  ::sigaction(SIGTERM, &end, nullptr);
  ::sigaction(SIGINT, &end, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  std::printf("ready %s\n", options.socket.c_str());
  std::fflush(stdout);
  std::thread manager_thread;
  if (manager) manager_thread = std::thread([&manager] { manager->run(); });
  store.run();
  ::signal(SIGTERM, SIG_IGN);
  ::signal(SIGINT, SIG_IGN);
  if (manager) {
    manager->stop();
    manager_thread.join();
  }
  running = nullptr;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  cli::Command app{"weft-store",
                   "The object store of this host. Without a command it serves until SIGTERM."};
  Options options;
  app.option("--socket", options.socket, "where clients connect").shows_default();
  app.option("--memory", options.memory_bytes, "for objects, e.g. 4GiB")
      .bytes()
      .range(std::uint64_t{1} << 16, std::uint64_t{1} << 46)
      .shows_default();
  app.option("--objects", options.max_objects, "how many at most")
      .range(1u, kMaxEntries)
      .shows_default();
  app.option("--spill", options.spill.folder,
             "a folder on disk for objects that are used least when memory is short; without "
             "it they are evicted");
  app.option("--spill-limit", options.spill.limit_bytes,
             "bytes there at most; 0: as many as there is room for")
      .bytes();
  app.option("--quota", options.quota_bytes, "memory that one client's objects take; 0: any")
      .bytes();
  app.option("--spin-us", options.spin_us,
             "microseconds to poll for more calls before sleeping; 0 on a busy host")
      .range(0u, 1000000u)
      .shows_default();
  app.flag("--huge-pages", options.huge_pages,
           "objects in pages of 2 MiB, of those that vm.nr_hugepages sets aside");
  app.option("--listen", options.manager.listen,
             "host:port or unix:PATH where other hosts' stores connect; needs --secret-file");
  app.option("--peers", options.manager.peers,
             "where other stores listen; each reports those that it knows");
  app.option("--directory", options.manager.directory,
             "who knows which host has what: embedded, or redis://HOST[:PORT][/PREFIX], where "
             "the stores also find each other")
      .shows_default();
  app.option("--secret-file", options.secret_file, "its first line is what all stores know");
  const cli::Option threshold =
      app.option("--threshold", options.manager.threshold_bytes,
                 "objects from this size on are read by one-sided READ, smaller ones are sent")
          .bytes()
          .shows_default();
  app.option("--thresholds", options.thresholds_file,
             "where `calibrate` keeps its results, one a fabric; --threshold comes before them")
      .shows_default();
  app.option("--bind", options.bind,
             "numa: run, and have the memory, next to the RDMA device; none: anywhere")
      .one_of({"numa", "none"})
      .shows_default();
  app.option("--protocol", options.manager.protocol,
             "how objects come from other hosts: node; or socket, over TCP in pieces of 4 KiB "
             "and given to any process that connects, to compare with")
      .one_of({"node", "socket"})
      .shows_default();
  app.option("--lease-ms", options.manager.lease_ms,
             "how long an object is kept for a host that reads it")
      .range(100u, 3600000u)
      .shows_default();
  app.option("--register", options.registers,
             "what other hosts that have the secret can read: all memory (segment), or an "
             "object while they fetch it (object), which costs a registration for each")
      .one_of({"segment", "object"})
      .shows_default();
  app.option("--metrics", options.metrics,
             "HOST:PORT or unix:PATH where GET /metrics has the numbers for Prometheus, and "
             "GET /healthz the store's health; port 0: any, logged");
  app.choice("--log-format", options.log_format,
             {{"text", server::LogFormat::text}, {"json", server::LogFormat::json}},
             "of the lines on standard error");
  app.flag("--verify", options.manager.verifies,
           "compare the checksums of what comes from other hosts before it is seen");
  app.takes_options_anywhere();
  app.takes_command();
  std::function<int()> command;
  add_commands(app, options.socket, command);
  std::string calibrated;
  cli::Command& sub = app.command(
      "calibrate", "measure with another store from which size on reading is faster than sending");
  sub.option("ADDRESS", calibrated, "where that store listens; with --secret-file").required();
  sub.on_parse([&] {
    command = [&] {
      std::string secret;
      Status status;
      if (!options.secret_file.empty()) status = read_secret(options.secret_file, secret);
      if (status) status = calibrate(calibrated, secret, options.thresholds_file);
      return status ? 0 : fail(status);
    };
  });
  if (const auto status = app.parse(argc, argv)) return *status;
  options.has_threshold = threshold.is_given();
  return command ? command() : serve(options);
}
