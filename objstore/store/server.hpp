#pragma once
// Server: the store of a host. Accepts clients through a Unix socket, carries out the requests in
// their control areas, and completes them there.
//
// Threads. run() is the store's thread. Everything that another thread (the manager's) calls takes
// lock(), which run() holds while it works and not while it waits.
//
// Files: server_loop.cpp (the order of polling), server_sockets.cpp (clients come and go),
// server_calls.cpp (each call), server_waits.cpp (calls that wait), server_spill.cpp (spilled
// objects that are wanted), server_into.cpp (reading into a client's memory), server_copies.cpp and
// server_push.cpp (copies on other hosts), server_status.cpp.
#include <array>
#include <atomic>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "objects.hpp"

namespace weft::objstore {

struct ServerSettings {
  ObjectsSettings objects;
  std::string socket_path;
  std::uint64_t quota_bytes = 0;  // of memory that one client's objects take; 0: none
  std::uint32_t spin_us = 50;     // how long the store polls for more before it sleeps
};

// The destination of a part of an object's data: memory of a client's, which stays as long as this
// refers to it.
struct IntoTarget {
  ObjectId id;
  std::shared_ptr<Mapping> memory;
  std::byte* to = nullptr;
  std::uint64_t offset = 0, bytes = 0;  // of the data, as far as there are so many
};

// The result of a push to one host.
struct PushResult {
  std::string host;
  Outcome outcome;  // ok with Reason::exists: it was there before
};

// The interface to other hosts; all calls under the server's lock.
class Remote {
 public:
  virtual ~Remote() = default;
  virtual void sealed(const ObjectId& id, std::uint32_t entry) = 0;
  virtual void gone(const ObjectId& id, bool is_deleted) = 0;
  // A spilled object is in memory again.
  virtual void restored(const ObjectId& id) = 0;
  // A client waits for this object, which is not here and shall be fetched.
  virtual void wanted(const ObjectId& id) = 0;
  // Nobody waits for it any longer.
  virtual void unwanted(const ObjectId& id) = 0;
  // Brings part of an object that is not here into a client's memory; ends with
  // Server::into_ended(), before long after no_more_into(). Until then nobody else writes there.
  virtual void read_into(std::uint64_t number, const IntoTarget& target) = 0;
  virtual void no_more_into(std::uint64_t number) = 0;
  // Makes replicas on so many other hosts; ends with Server::replicated(), before long after
  // no_more_copies().
  virtual void replicate(std::uint64_t number, const ObjectId& id, std::uint32_t num_others) = 0;
  virtual void no_more_copies(std::uint64_t number) = 0;
  // Requests whether the object that will be sealed next is the first of its id on all hosts; ends
  // with Server::confirmed().
  virtual void confirm(std::uint64_t number, const ObjectId& id) = 0;
  // Sends an object that is here to these hosts, or to all (none named), at once; ends with
  // Server::pushed(), before long after no_more_push().
  virtual void push(std::uint64_t number, const ObjectId& id,
                    const std::vector<std::string>& hosts) = 0;
  virtual void no_more_push(std::uint64_t number) = 0;
  // True if other hosts are notified, too.
  virtual bool erased(const ObjectId& id) = 0;
  virtual void status(nlohmann::json& json) = 0;
};

// Does the work of Remote on the store's thread, instead of waking a thread of its own.
class Helper {
 public:
  virtual ~Helper() = default;
  // Called without the server's lock; often, and cheap where there is nothing to do. True if
  // something progressed.
  virtual bool help() = 0;
  // The store's thread is about to sleep.
  virtual void idle() = 0;
};

class Server final : private References, private Observer {
 public:
  Server();
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Makes memory and socket. bad_argument: another store serves that path; no_memory;
  // not_permitted.
  Status open(const ServerSettings& settings);
  // Serves until stop(). Afterwards nobody is served, and the socket is gone.
  void run();
  // Any thread, and signal handlers.
  void stop();

  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  // Without waiting; the lock is not held if run() is at work.
  std::unique_lock<std::mutex> try_lock() { return std::unique_lock(mutex_, std::try_to_lock); }
  // Under lock(). The JSON of `weft-store status`.
  std::string status_text();
  Objects& objects() { return objects_; }
  void set_remote(Remote* remote) { remote_ = remote; }
  // Without lock(). The one before is no longer in use afterwards.
  void set_helper(Helper* helper) {
    const std::lock_guard guard(helper_mutex_);
    helper_ = helper;
  }
  // Creates in place for another host's bytes; waits for nobody.
  Outcome create_in_place(const ObjectId& id, std::uint64_t data_bytes,
                          std::uint32_t metadata_bytes, std::uint32_t& entry);
  // Ends all waits for an object that will not come.
  void fail_waits(const ObjectId& id, Code code, Reason reason);
  // lacks_room: a wanted object is on another host and finds no room here.
  void set_lacks_room(const ObjectId& id, bool lacks_room);
  // The end of Remote::replicate(): the number of hosts that have the object.
  void replicated(std::uint64_t number, std::uint32_t num_hosts);
  // The end of Remote::confirm().
  void confirmed(std::uint64_t number, bool is_first);
  // The end of Remote::push(); outcome: whether it began at all; value: as Reason has it.
  void pushed(std::uint64_t number, Outcome outcome, const std::vector<PushResult>& results,
              std::uint64_t value = 0);
  // Brings a spilled object back into memory when there is room; ends with Remote::restored() or
  // gone().
  void restore(const ObjectId& id);
  bool is_wanted(const ObjectId& id) const { return waiting_for_.contains(id); }
  // The end of Remote::read_into(); data_bytes: of the whole object.
  void into_ended(std::uint64_t number, Outcome outcome, std::uint64_t data_bytes);
  // Remote has ended, and nothing is written on its behalf any more.
  void end_remote_intos();
  // Room may have come, or work for run(): it polls again.
  void wake();

 private:
  struct Extent {
    std::shared_ptr<Mapping> memory;  // null: no such extent
  };
  struct Client {
    std::uint32_t serial = 0;
    std::string name;
    int pid = 0;
    bool has_met = false;
    bool is_active = false;  // polled, not slept for
    bool is_subscribed = false;
    bool is_broken = false;  // to be disconnected
    // process: readable once it has ended; its children may hold the socket open.
    Descriptor socket, process, doorbell, bell;
    Mapping memory;
    std::uint32_t taken = 0, completed = 0, under_way = 0;
    std::uint64_t events_written = 0, events_lost = 0;
    std::uint64_t charged_bytes = 0;
    std::uint64_t met_ns = 0;
    std::array<Extent, kMaxExtents> extents;
    std::unordered_map<ObjectId, std::uint32_t> creating;
    std::vector<std::uint32_t> seen_uses;  // of each slot

    Control& control() const { return *reinterpret_cast<Control*>(memory.data()); }
  };
  // A call that waits for objects.
  struct Wait {
    std::uint32_t client, tag;
    std::vector<ObjectId> missing;
    std::uint32_t here, least;
    bool fetches;
    std::multimap<std::uint64_t, std::uint64_t>::iterator deadline;
  };
  // A call that waits for room.
  struct RoomWait {
    std::uint32_t client;
    Request request;
    std::uint64_t deadline_ns;
  };
  // A call that reads into its client's memory.
  struct Into {
    std::uint32_t client, tag;
    ObjectId id;
    std::uint64_t deadline_ns;
    bool is_remote;   // Remote was asked, and reports the end
    Outcome outcome;  // set once no_more_into() was called
  };
  // A seal that waits for copies on other hosts.
  struct Replication {
    std::uint32_t client, tag, num_wanted;
    std::uint64_t deadline_ns;
  };
  // A seal that waits for the directory.
  struct Confirm {
    std::uint32_t client;
    Request request;
    std::uint64_t deadline_ns;
  };
  // A call that waits until an object is on other hosts; Remote reports the end.
  struct Push {
    std::uint32_t client;
    Request request;
    std::uint64_t deadline_ns;
  };
  // A long copy from an extent, done a piece at a time between other work.
  struct Copy {
    std::uint32_t client;
    Request request;
    std::uint32_t entry;
    std::uint64_t done, total;
  };

  // server_loop.cpp
  bool serve_active();
  bool serve(Client& client);
  void run_short(Client& client, const Request& request);
  void serve_events(int timeout_ms);
  int run_clocks(std::uint64_t now_ns);
  bool fall_asleep();
  bool help();
  void idle();
  void activate(Client& client);

  // server_sockets.cpp
  Status listen(const std::string& path);
  void accept_clients();
  void read_socket(Client& client);
  void meet(Client& client, const Hello& hello);
  void give_extent(Client& client, const ExtentWish& wish);
  Outcome make_extent(Client& client, std::uint64_t bytes, std::uint32_t& number, Descriptor& file);
  void watch(int fd, std::uint64_t tag);
  void remove(std::uint32_t serial);
  void remove_broken();

  // server_calls.cpp
  void carry_out(Client& client, const Request& request);
  bool create(Client& client, const Request& request);
  void write(Client& client, const Request& request);
  void seal(Client& client, const Request& request);
  void wait(Client& client, const Request& request);
  void list(Client& client, const Request& request);
  void cancel(Client& client, std::uint32_t tag);
  void complete(Client& client, std::uint32_t tag, Outcome outcome, std::uint64_t value = 0,
                std::uint32_t count = 0);
  std::byte* extent_bytes(Client& client, const Request& request, std::uint64_t bytes);
  void start_copy(Client& client, const Request& request, std::uint32_t entry,
                  const std::byte* from);
  void advance_copy();
  void finish_seal(Client& client, const Request& request, std::uint32_t entry);
  void retry_creates();

  // server_copies.cpp
  void replicate(Client& client, const Request& request);
  void end_replications(std::uint64_t now_ns);
  void end_confirms(std::uint64_t now_ns);

  // server_push.cpp
  void push(Client& client, const Request& request);
  void end_pushes(std::uint64_t now_ns);
  void end_pushes_of(std::uint32_t client);

  // server_spill.cpp
  void restored(const ObjectId& id) override;
  void unreadable(const ObjectId& id) override;
  void advance_restores();
  // server_waits.cpp
  void appeared(const ObjectId& id);

  // server_into.cpp
  void read_into(Client& client, const Request& request);
  void end_into(std::uint64_t number, Outcome outcome);
  void end_intos_here(const ObjectId& id);
  void end_intos_of_spilled(const ObjectId& id, Outcome outcome);
  void end_intos_of(std::uint32_t client);
  std::uint64_t end_due_intos(std::uint64_t now_ns);

  // server_waits.cpp
  void end_wait(std::uint64_t number, Outcome outcome);
  void end_waits_of(std::uint32_t client);
  void end_late_wait(std::uint64_t number);
  void notify_subscribers(const ObjectId& id, std::uint32_t entry);
  static void ring(Client& client);

  // References
  void read(std::vector<std::uint64_t>& held, std::vector<std::uint64_t>& used) override;
  // Observer
  void sealed(const ObjectId& id, std::uint32_t entry) override;
  void gone(const ObjectId& id, bool is_deleted) override;
  void freed(std::uint32_t owner, std::uint64_t bytes) override;

  ServerSettings settings_;
  std::mutex mutex_;
  Objects objects_;
  Remote* remote_ = nullptr;
  std::mutex helper_mutex_;
  Helper* helper_ = nullptr;  // under helper_mutex_
  std::atomic<bool> is_over_{false};
  Descriptor listener_, epoll_, wake_;
  bool owns_path_ = false;
  std::uint32_t next_serial_ = 1;
  std::unordered_map<std::uint32_t, std::unique_ptr<Client>> clients_;
  std::vector<Client*> active_;
  std::vector<std::uint32_t> broken_;
  std::uint64_t next_wait_ = 1;
  std::unordered_map<std::uint64_t, Wait> waits_;
  std::unordered_multimap<ObjectId, std::uint64_t> waiting_for_;
  std::unordered_set<ObjectId> lack_room_;  // a subset of waiting_for_
  std::multimap<std::uint64_t, std::uint64_t> deadlines_;
  std::map<std::uint64_t, Into> intos_;
  std::map<std::uint64_t, Replication> replications_;
  std::map<std::uint64_t, Confirm> confirms_;
  std::map<std::uint64_t, Push> pushes_;
  struct Restore {
    ObjectId id;
    std::uint64_t until_ns;
  };
  std::deque<Restore> restores_;  // that wait for room
  std::unordered_set<ObjectId> restoring_;
  struct Grace {
    std::uint32_t entry;
    std::uint64_t until_ns;
  };
  std::deque<Grace> graces_;  // restored ones that are held for a moment
  std::deque<RoomWait> room_waits_;
  bool room_may_have_come_ = false;
  std::list<Copy> copies_;
  std::uint64_t next_sweep_ns_ = 0, started_ns_ = 0;
  std::uint64_t num_clients_met_ = 0, num_calls_ = 0, num_refused_ = 0;
  std::uint64_t waits_here_ = 0, waits_missed_ = 0;  // ids asked for by message
};

}  // namespace weft::objstore
