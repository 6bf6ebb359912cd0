// The table of GIDs of a described port.
#include <cerrno>
#include <cstring>
#include <vector>

#include "tests/devices/context.hpp"

namespace weft::devices {
namespace {

constexpr std::size_t kMostReal = 512;

auto* real_table() {
  static auto* const query = real<decltype(_ibv_query_gid_table)>("_ibv_query_gid_table");
  return query;
}

std::vector<ibv_gid_entry> real_gids(ibv_context* context) {
  std::vector<ibv_gid_entry> gids(kMostReal);
  const ssize_t count = real_table()(context, gids.data(), gids.size(), 0, sizeof(ibv_gid_entry));
  gids.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  return gids;
}

bool is_link_local(const ibv_gid& gid) { return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80; }
bool is_ipv4(const ibv_gid& gid) {
  static constexpr unsigned char kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, kMapped, sizeof kMapped) == 0;
}

// The entry of the real table that stands for this one; its GID alone is of the description.
ibv_gid_entry entry_of(const Gid& gid, const std::vector<ibv_gid_entry>& all) {
  ibv_gid_entry entry{};
  if (!all.empty()) entry = all.front();
  for (const ibv_gid_entry& one : all) {
    const bool fits = gid.of == Gid::Of::literal ? std::memcmp(&one.gid, &gid.literal, 16) == 0
                      : gid.of == Gid::Of::ipv4  ? is_ipv4(one.gid)
                                                 : is_link_local(one.gid);
    if (fits) entry = one;
  }
  if (gid.of == Gid::Of::literal) entry.gid = gid.literal;
  return entry;
}

// Without those for which the real port has none.
std::vector<ibv_gid_entry> described_gids(Context& context, std::vector<std::uint32_t>& indexes) {
  const auto all = real_gids(context.context);
  std::lock_guard lock(context.device->lock);
  std::vector<ibv_gid_entry> made;
  for (const Gid& gid : context.device->described.gids) {
    ibv_gid_entry entry = entry_of(gid, all);
    if ((gid.of == Gid::Of::ipv4 && !is_ipv4(entry.gid)) ||
        (gid.of == Gid::Of::link_local && !is_link_local(entry.gid)))
      continue;
    indexes.push_back(entry.gid_index);
    entry.gid_index = static_cast<std::uint32_t>(made.size());
    entry.gid_type = gid.type;
    made.push_back(entry);
  }
  return made;
}

bool has_gids(Context& context) {
  std::lock_guard lock(context.device->lock);
  return !context.device->described.gids.empty();
}

}  // namespace

bool described_gid(Context& context, std::uint32_t port, std::uint32_t index,
                   ibv_gid_entry& entry) {
  std::vector<std::uint32_t> indexes;
  const auto all = described_gids(context, indexes);
  if (port != 1 || index >= all.size()) return false;
  entry = all[index];
  return true;
}

std::uint32_t real_gid_index(Context& context, std::uint32_t index) {
  if (!has_gids(context)) return index;
  std::vector<std::uint32_t> indexes;
  (void)described_gids(context, indexes);
  return index < indexes.size() ? indexes[index] : index;
}

}  // namespace weft::devices

using namespace weft::devices;

// As the kernel does it (rdma_query_gid_table): EINVAL, not a part of them, if there are more.
DESCRIBED_CALL ssize_t _ibv_query_gid_table(ibv_context* of, ibv_gid_entry* entries,
                                            std::size_t most, std::uint32_t flags,
                                            std::size_t bytes) {
  const auto context = find(of);
  if (context == nullptr || !has_gids(*context))
    return real_table()(of, entries, most, flags, bytes);
  if (const int error = context->device->enter("ibv_query_gid_table"); error != 0) return -error;
  std::vector<std::uint32_t> indexes;
  const auto all = described_gids(*context, indexes);
  if (all.size() > most || bytes != sizeof(ibv_gid_entry)) return -EINVAL;
  std::memcpy(entries, all.data(), all.size() * sizeof(ibv_gid_entry));
  return static_cast<ssize_t>(all.size());
}

DESCRIBED_CALL int _ibv_query_gid_ex(ibv_context* of, std::uint32_t port, std::uint32_t index,
                                     ibv_gid_entry* entry, std::uint32_t flags, std::size_t bytes) {
  static auto* const query = real<decltype(_ibv_query_gid_ex)>("_ibv_query_gid_ex");
  const auto context = find(of);
  if (context == nullptr || !has_gids(*context)) return query(of, port, index, entry, flags, bytes);
  return described_gid(*context, port, index, *entry) ? 0 : ENODATA;
}

DESCRIBED_CALL int ibv_query_gid(ibv_context* of, std::uint8_t port, int index, ibv_gid* gid) {
  static auto* const query = real<decltype(ibv_query_gid)>("ibv_query_gid");
  const auto context = find(of);
  if (context == nullptr || !has_gids(*context)) return query(of, port, index, gid);
  ibv_gid_entry entry{};
  if (!described_gid(*context, port, static_cast<std::uint32_t>(index), entry)) return -1;
  *gid = entry.gid;
  return 0;
}

DESCRIBED_CALL ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* wanted) {
  static auto* const create = real<decltype(ibv_create_ah)>("ibv_create_ah");
  const auto context = find(pd->context);
  if (context == nullptr || wanted->is_global == 0) return create(pd, wanted);
  ibv_ah_attr own = *wanted;
  own.grh.sgid_index = static_cast<std::uint8_t>(real_gid_index(*context, wanted->grh.sgid_index));
  return create(pd, &own);
}
