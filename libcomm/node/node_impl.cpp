// NodeImpl: setup and end, memory, connects, and the calls of the program.
#include "node/node_impl.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>

#include <cstdlib>

#include "base/log.hpp"
#include "base/os/thread.hpp"
#include "base/stats.hpp"
#include "base/trace.hpp"
#include "base/wait.hpp"
#include "fabric/registry.hpp"

extern char** environ;

namespace weft {

NodeImpl::NodeImpl(const NodeSettings& settings) {
  if (Status status = Settings::from_environment(environ, settings_); !status) throw Error(status);
  log::set_level(static_cast<LogLevel>(settings_.number(Setting::log)));
  if (settings_.flag(Setting::stats)) stats::print_at_exit();
  if (const std::string& path = settings_.text(Setting::trace); !path.empty())
    if (Status status = trace::open(
            path, getpid(),
            settings.name.empty() ? fmt::format("pid {}", getpid()) : std::string(settings.name));
        !status)
      throw Error(status);
  if (settings.name.size() > peer::kMaxNameBytes)
    throw Error({Code::bad_argument,
                 fmt::format("the name of a Node has at most {} letters", peer::kMaxNameBytes)});
  if (settings.name.find('\0') != std::string::npos)
    throw Error({Code::bad_argument, "the name of a Node has no byte 0 in it"});
  if (settings.timeout_ms > 0)
    if (Status status = settings_.set("PEER_TIMEOUT_MS", std::to_string(settings.timeout_ms));
        !status)
      throw Error(status);
  timeout_ns_ = settings_.ns(Setting::peer_timeout_ms);
  spin_ns_ = settings_.ns(Setting::spin_us);
  yield_ns_ = settings_.ns(Setting::yield_us);
  std::vector<std::unique_ptr<fabric::Endpoint>> endpoints;
  const std::string& fabrics =
      settings.fabrics.empty() ? settings_.text(Setting::fabric) : settings.fabrics;
  if (Status status = fabric::make_endpoints(fabrics, settings_, endpoints); !status)
    throw Error(status);
  transport_ = std::make_unique<transport::Transport>(
      *this, peer::Secret(settings.secret), settings.name, timeout_ns_, std::move(endpoints));
  if (!settings.progress_thread) return;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    throw Error({Code::no_memory, "no descriptors are left for a Node"});
  for (int i = 0; i < 2; ++i) wake_pipe_[i] = Descriptor(ends[i]);
  if (Status status = start_thread(thread_, [this] { run_thread(); }); !status) throw Error(status);
}

NodeImpl::~NodeImpl() {
  if (!is_own_process()) {
    // A forked child must not send goodbyes for its parent or withdraw its memory, and does not
    // have the thread.
    if (thread_.joinable()) thread_.detach();
    static_cast<void>(transport_.release());
    return;
  }
  stops_.store(true);
  if (thread_.joinable()) {
    wake_word_.fetch_add(1);
    futex_wake_all(&wake_word_);
    [[maybe_unused]] const auto written = ::write(wake_pipe_[1].get(), "", 1);
    thread_.join();
  }
  {
    // The program's objects may be destroyed already: members after the Node end before it.
    std::lock_guard lock(transport_->progress_lock());
    waiting_connects_.clear();
    peer_call = nullptr;
    lost_call = nullptr;
    message_call = nullptr;
    notify_call = nullptr;
  }
  transport_->close_all();
  transport_->end();
  for (auto& [address, region] : regions_)
    if (region->is_allocated) free_allocated(const_cast<void*>(address));
}

void NodeImpl::free_allocated(void* address) {
  if (transport_->mapped() != nullptr)
    transport_->mapped()->release(address);
  else
    std::free(address);
}

void NodeImpl::on_connected(transport::Session& session) {
  auto impl = std::make_shared<PeerImpl>();
  impl->session = session.shared_from_this();
  session.user = new Peer(std::move(impl));
  notify(peer_call, peer_of(session));
}

void NodeImpl::on_lost(transport::Session& session, const Status& why) {
  if (session.user == nullptr) return;  // never reported to the program
  const std::unique_ptr<const Peer> peer(&peer_of(session));
  session.user = nullptr;
  or_no_memory([&] { trace::mark("peer lost", why.text()); });
  notify(lost_call, *peer, why);
}

Status NodeImpl::add(void* address, std::size_t bytes, bool allocated) noexcept {
  return or_no_memory([&] {
    const auto entry = regions_.try_emplace(address).first;
    const Code code = or_no_memory([&] {
      entry->second = transport_->add_region(static_cast<std::byte*>(address), bytes, allocated);
    });
    if (code != Code::ok) regions_.erase(entry);
    return code;
  });
}

Status NodeImpl::take_back(void* address, bool allocated) {
  if (!is_own_process()) return refuse_child();
  std::shared_ptr<transport::Region> region;
  {
    std::lock_guard lock(transport_->progress_lock());
    const auto found = regions_.find(address);
    if (found == regions_.end() || found->second->is_allocated != allocated)
      return {Code::not_found, "no such memory of this Node"};
    region = found->second;
    regions_.erase(found);
    transport_->withdraw(region);
  }
  // A peer that does not release the memory in time may be slow or hostile; its mapping stays.
  const std::uint64_t limit = now_ns() + settings_.patience_ns();
  for (;;) {
    {
      std::lock_guard lock(transport_->progress_lock());
      if (transport_->is_free(*region) || now_ns() > limit) break;
    }
    if (!poll()) sched_yield();
  }
  std::lock_guard lock(transport_->progress_lock());
  transport_->drop(region);
  if (allocated) free_allocated(address);
  return {};
}

std::shared_ptr<NodeImpl::Connecting> NodeImpl::begin_connect(std::string_view address,
                                                              int timeout_ms) {
  auto connecting = std::make_shared<Connecting>();
  const std::uint64_t within =
      timeout_ms > 0 ? static_cast<std::uint64_t>(timeout_ms) * 1'000'000 : settings_.patience_ns();
  std::lock_guard lock(transport_->progress_lock());
  transport_->connect(address, now_ns() + within, connecting);
  return connecting;
}

Status NodeImpl::outcome(const Connecting& connecting, Peer& peer) {
  if (!connecting.status) return connecting.status;
  if (connecting.session->user == nullptr) return {Code::peer_lost, "the peer left at once"};
  peer = peer_of(*connecting.session);
  return {};
}

}  // namespace weft
