// Puts, gets and atomics by the provider, and registered memory.
#include <fmt/core.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/log.hpp"
#include "fabric/ofi/endpoint_impl.hpp"

namespace weft::fabric::ofi {

namespace {

using What = PostedAccess::What;

constexpr std::size_t kWords = 3 * sizeof(std::uint64_t);  // of an atomic, in `data`

const char* name_of(What what) {
  switch (what) {
    case What::put:
      return "put";
    case What::get:
      return "get";
    case What::fetch_add:
      return "fetch_add";
    case What::compare_swap:
      break;
  }
  return "cas";
}

}  // namespace

// Registered memory.

Status OfiEndpoint::register_for(void* address, std::size_t bytes, std::uint64_t access,
                                 fid_mr*& mr) {
  const std::size_t key_bytes = std::min<std::size_t>(8, ep_->info().domain_attr->mr_key_size);
  int error = 0;
  // Another try with another key, should two collide.
  for (int i = 0; i < 4; ++i) {
    std::uint64_t key = 0;
    if (::getrandom(&key, key_bytes, 0) < 0) return Code::unsupported;
    error = fi_mr_reg(ep_->domain(), address, bytes, access, 0, key, 0, &mr, nullptr);
    if (error != -FI_ENOKEY) break;
  }
  if (error == 0 && ep_->has_mode(FI_MR_ENDPOINT)) {
    error = fi_mr_bind(mr, &ep_->ep()->fid, 0);
    if (error == 0) error = fi_mr_enable(mr);
    if (error != 0) fi_close(&std::exchange(mr, nullptr)->fid);
  }
  if (error != 0)
    return {Code::no_memory, fmt::format("libfabric cannot register {} bytes: {} (see ulimit -l)",
                                         bytes, lib::error_text(error))};
  return {};
}

Status OfiEndpoint::register_memory(void* address, std::size_t bytes, std::uint32_t rights,
                                    Registration& registration) {
  std::uint64_t access = 0;
  if (limits_.gets && (rights & kRead) != 0) access |= FI_REMOTE_READ;
  if (limits_.puts && (rights & kWrite) != 0) access |= FI_REMOTE_WRITE;
  if (limits_.atomics && (rights & kAtomic) != 0) {
    constexpr std::uint64_t kBoth = FI_REMOTE_READ | FI_REMOTE_WRITE;
    // libfabric has no right for atomics alone, and this one must not let puts and gets in.
    if ((access & kBoth) != kBoth)
      return {Code::unsupported, "libfabric gives no right to atomics without puts and gets"};
  }
  // All other accesses go by target-side emulation.
  if (access == 0 || bytes == 0) return {};
  fid_mr* mr = nullptr;
  std::lock_guard lock(mutex_);
  if (Status status = register_for(address, bytes, access, mr); !status) return status;
  const std::uint64_t key = fi_mr_key(mr);
  if (key == FI_KEY_NOTAVAIL) {
    fi_close(&mr->fid);
    return {Code::unsupported, "libfabric has no key of 8 bytes for this memory"};
  }
  const std::uint64_t named =
      ep_->has_mode(FI_MR_VIRT_ADDR) ? reinterpret_cast<std::uintptr_t>(address) : 0;
  registration.handle = mr;
  registration.key = key_of({named, bytes, key});
  return {};
}

void OfiEndpoint::deregister(Registration& registration) {
  auto* mr = static_cast<fid_mr*>(std::exchange(registration.handle, nullptr));
  if (mr == nullptr) return;
  std::lock_guard lock(mutex_);
  if (const int error = fi_close(&mr->fid); error != 0)
    log_line(LogLevel::error, -1, "ofi: memory stays registered: {}", lib::error_text(error));
}

// Posting.

Code OfiEndpoint::put(Link& link, const void* from, std::size_t bytes, const Key& key,
                      std::uint64_t offset, WorkRequest& request) {
  if (!limits_.puts) return Code::unsupported;
  return post_access(static_cast<OfiLink&>(link), What::put, const_cast<void*>(from), bytes, {},
                     key, offset, request);
}

Code OfiEndpoint::get(Link& link, void* to, std::size_t bytes, const Key& key, std::uint64_t offset,
                      WorkRequest& request) {
  if (!limits_.gets) return Code::unsupported;
  return post_access(static_cast<OfiLink&>(link), What::get, to, bytes, {}, key, offset, request);
}

Code OfiEndpoint::atomic(Link& link, Atomic kind, const Key& key, std::uint64_t offset,
                         std::uint64_t operand, std::uint64_t compare, std::uint64_t& previous,
                         WorkRequest& request) {
  if (!limits_.atomics) return Code::unsupported;
  return post_access(static_cast<OfiLink&>(link),
                     kind == Atomic::fetch_add ? What::fetch_add : What::compare_swap, &previous,
                     sizeof previous, {0, operand, compare}, key, offset, request);
}

Code OfiEndpoint::post_access(OfiLink& link, What what, void* here, std::size_t bytes,
                              const Words& words, const Key& key, std::uint64_t offset,
                              WorkRequest& request) {
  std::lock_guard lock(mutex_);
  if (link.is_down) return Code::peer_lost;
  if (!link.is_up || link.accesses->num >= kAccessesOfLink) return Code::again;
  if (const Code code = need_free_access(); code != Code::ok) return code;
  PostedAccess& access = *free_accesses_.back();
  access.what = what;
  access.here = here;
  access.bytes = bytes;
  access.ep = one_sided_.is_in_place ? access_ep_ : link.ep;
  std::byte* data = nullptr;
  fid_mr* mr = nullptr;
  if (const Code code = prepare(access, words, data, mr); code != Code::ok) return code;
  const KeyParts parts = parts_of(key);
  const ssize_t error = hand_over(access, link.peer, data, mr != nullptr ? fi_mr_desc(mr) : nullptr,
                                  parts.address + offset, parts.secret, one_sided_.put_flags);
  if (error != 0) {
    let_go(access);
    if (error == -FI_EAGAIN) {
      may_hold_ = true;  // as while it connects
      return Code::again;
    }
    log_line(LogLevel::info, -1, "ofi: a {} of {} bytes at {} was not taken: {}", name_of(what),
             bytes, text_of(link.accesses->address), lib::error_text(error));
    take_down(link, Code::peer_lost);
    return Code::peer_lost;
  }
  free_accesses_.pop_back();
  access.link = link.own_token;
  access.request = &request;
  access.accesses = link.accesses;
  Accesses& all = *link.accesses;
  if (all.num++ == 0) all.moved_ns = now_ns();
  ++num_accesses_;
  if (what == What::put) {
    ++all.num_puts;
    access.put_number = ++all.puts_posted;
  }
  access.before = all.last;
  access.after = nullptr;
  (all.last != nullptr ? all.last->after : all.first) = &access;
  all.last = &access;
  return Code::ok;
}

Code OfiEndpoint::need_free_access() {
  return or_no_memory([&] {
    if (free_accesses_.empty()) {
      make_room(free_accesses_, accesses_.size() + 1);  // giving back takes no memory
      PostedAccess& made = accesses_.emplace_back();
      made.is_access = true;
      free_accesses_.push_back(&made);
    }
    if (!one_sided_.is_in_place || access_ep_ != nullptr) return Code::ok;
    std::string address;
    Status status = ep_->add_opener(access_ep_, address);
    if (!status)
      log_line(LogLevel::error, -1, "ofi: no endpoint for puts and gets: {}", status.text());
    return status.code();
  });
}

// Chooses the memory that the provider moves.
Code OfiEndpoint::prepare(PostedAccess& access, const Words& words, std::byte*& data, fid_mr*& mr) {
  const std::size_t bytes = access.is_atomic() ? kWords : access.bytes;
  if (!access.is_atomic() && bytes >= in_place_min_) {
    data = static_cast<std::byte*>(access.here);
  } else if (bytes <= buffer_bytes_) {
    if (!need_send_buffer()) return Code::again;
    access.bounce = free_.back();
    free_.pop_back();
    data = access.bounce->data;
    mr = access.bounce->mr;
  } else {
    access.copy.reset(new (std::nothrow) std::byte[bytes]);
    if (access.copy == nullptr) return Code::no_memory;
    data = access.copy.get();
  }
  if (mr == nullptr && ep_->has_mode(FI_MR_LOCAL)) {
    const std::uint64_t right = access.what == What::put ? FI_WRITE : FI_READ;
    if (Status status = register_for(data, bytes, right, access.local); !status) {
      let_go(access);
      return status.code();
    }
    mr = access.local;
  }
  if (access.is_atomic()) std::memcpy(data, &words, sizeof words);
  if (access.what == What::put && data != access.here && bytes > 0)
    std::memcpy(data, access.here, bytes);
  return Code::ok;
}

ssize_t OfiEndpoint::hand_over(PostedAccess& access, fi_addr_t peer, std::byte* data,
                               void* descriptor, std::uint64_t address, std::uint64_t key,
                               std::uint64_t put_flags) {
  void** const descriptors = descriptor != nullptr ? &descriptor : nullptr;
  if (!access.is_atomic()) {
    const iovec local{data, access.bytes};
    const fi_rma_iov remote{address, access.bytes, key};
    fi_msg_rma message{};
    message.msg_iov = &local;
    message.desc = descriptors;
    message.iov_count = 1;
    message.addr = peer;
    message.rma_iov = &remote;
    message.rma_iov_count = 1;
    message.context = &access.context;
    return access.what == What::put ? fi_writemsg(access.ep, &message, FI_COMPLETION | put_flags)
                                    : fi_readmsg(access.ep, &message, FI_COMPLETION);
  }
  const auto word = [&](std::size_t at) { return fi_ioc{data + at, 1}; };
  fi_ioc result = word(offsetof(Words, previous));
  const fi_ioc operand = word(offsetof(Words, operand)), compare = word(offsetof(Words, compare));
  const fi_rma_ioc remote{address, 1, key};
  fi_msg_atomic message{};
  message.msg_iov = &operand;
  message.desc = descriptors;
  message.iov_count = 1;
  message.addr = peer;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.datatype = FI_UINT64;
  message.op = access.what == What::fetch_add ? FI_SUM : FI_CSWAP;
  message.context = &access.context;
  if (access.what == What::fetch_add)
    return fi_fetch_atomicmsg(access.ep, &message, &result, descriptors, 1, FI_COMPLETION);
  return fi_compare_atomicmsg(access.ep, &message, &compare, descriptors, 1, &result, descriptors,
                              1, FI_COMPLETION);
}

// Gives back the memory that the provider moved.
void OfiEndpoint::let_go(PostedAccess& access) {
  if (access.local != nullptr) fi_close(&std::exchange(access.local, nullptr)->fid);
  if (access.bounce != nullptr) free_.push_back(std::exchange(access.bounce, nullptr));
  access.copy.reset();
}

// Ending.

void OfiEndpoint::unlist(PostedAccess& access) {
  Accesses& all = *access.accesses;
  (access.before != nullptr ? access.before->after : all.first) = access.after;
  (access.after != nullptr ? access.after->before : all.last) = access.before;
  access.before = access.after = nullptr;
  if (access.what == What::put) --all.num_puts;
  all.moved_ns = now_ns();
  --num_accesses_;
  if (--all.num == 0) std::erase(old_, access.accesses);
  access.accesses.reset();
}

Code OfiEndpoint::code_of(const PostedAccess& access, const fi_cq_err_entry& error) const {
  char text[128] = "";
  const char* detail =
      fi_cq_strerror(ep_->cq(), error.prov_errno, error.err_data, text, sizeof text);
  log_line(LogLevel::info, -1, "ofi: a {} of {} bytes at {} failed: {} (the provider: {}, {})",
           name_of(access.what), access.bytes, text_of(access.accesses->address),
           lib::error_text(error.err), error.prov_errno, detail != nullptr ? detail : "no more");
  switch (error.err) {
    case FI_EACCES:
    case FI_EKEYREJECTED:
    case FI_ENOKEY:
      return Code::not_permitted;
    case FI_EINVAL:
      return Code::bad_argument;
    default:
      return Code::peer_lost;
  }
}

void OfiEndpoint::end_access(PostedAccess& access, const fi_cq_err_entry* error, Lock& lock) {
  if (access.ep == nullptr) return;  // of an endpoint that is closed
  const Code code = error == nullptr ? Code::ok : code_of(access, *error);
  WorkRequest* request = std::exchange(access.request, nullptr);
  if (request != nullptr && code == Code::ok && access.what != What::put && !access.is_in_place())
    std::memcpy(access.here, access.copy != nullptr ? access.copy.get() : access.bounce->data,
                access.bytes);
  unlist(access);
  let_go(access);
  free_accesses_.push_back(&access);
  if (OfiLink* link = find(access.link); link != nullptr) {
    if (code == Code::peer_lost) take_down(*link, code);
    send_held(*link);
  }
  if (request == nullptr) return;
  lock.unlock();
  request->done(*request, code);
  lock.lock();
}

}  // namespace weft::fabric::ofi
