#include "push_groups.hpp"

#include "weft/job.hpp"

namespace weft::objstore {

// Groups listen at the interfaces (the first part of the addresses) where the store listens, on
// other ports.
Status PushGroups::open() {
  if (multicast_ != nullptr) return Code::ok;
  if (core_.settings.listen.empty()) return Code::unsupported;
  NodeSettings settings;
  settings.name = core_.settings.name;
  settings.secret = core_.settings.secret;
  settings.fabrics = core_.settings.fabrics;
  try {
    auto made = std::make_unique<Multicast>(settings);
    for (const std::string& address : core_.settings.listen) {
      if (address.starts_with("unix:")) continue;
      const std::string any_port = address.substr(0, address.rfind(':')) + ":0";
      if (Status status = made->node().listen(any_port); !status) return status;
    }
    if (Status status = made->node().address(address_); !status) return status;
    multicast_ = std::move(made);
  } catch (const Error& error) {
    return error.status();
  }
  return Code::ok;
}

std::unique_ptr<PushGroup> PushGroups::make(std::uint64_t number, PushGroupSettings settings) {
  return std::make_unique<PushGroup>(
      *multicast_, std::move(settings),
      [this, number] {
        inbox_.post({CommandKind::group_arrived, {}, number});
      },
      [this, number](const Status& status) {
        Command command{CommandKind::group_ended, {}, number};
        command.code = status.code();
        inbox_.post(command);
      });
}

}  // namespace weft::objstore
