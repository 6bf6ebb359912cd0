// Built where libibverbs and librdmacm are missing.
#include "multicast/channel.hpp"

namespace weft::mcast {

Status open_ud_channel(const ChannelAddress&, bool, std::unique_ptr<Channel>&) {
  return {Code::unsupported, "this Weft was built without libibverbs and librdmacm"};
}

}  // namespace weft::mcast
