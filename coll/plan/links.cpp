#include "coll/plan/links.hpp"

#include "base/wait.hpp"

namespace weft::coll {

using tagged::Request;

void Links::start_send(std::unique_ptr<Request>& request, const void* data, std::size_t bytes,
                       int to) {
  tagged::Engine& engine = team_.engine();
  const int peer = team_.world(to);
  if (engine.try_send(peer, team_.context(), tag_, data, bytes)) return;
  request = team_.take_request();
  engine.isend(*request, peer, team_.context(), tag_, data, bytes);
}

void Links::start_receive(std::unique_ptr<Request>& request, void* data, std::size_t bytes,
                          int from) {
  request = team_.take_request();
  team_.engine().irecv(*request, team_.world(from), team_.context(), tag_, data, bytes);
}

Status Links::finish(std::unique_ptr<Request>& request) {
  if (!request) return {};
  team_.engine().wait_until([&] { return request->is_complete() || deadline_.has_passed(); },
                            request->context);
  if (!request->is_complete() &&
      !(request->is_receive && team_.engine().cancel(*request) && request->is_complete())) {
    team_.abandon(std::move(request));
    return Code::peer_lost;
  }
  const Code code = request->code;
  team_.give_back(std::move(request));
  return code == Code::cancelled ? Code::peer_lost : code;
}

Status Links::send(const void* data, std::size_t bytes, int to) {
  std::unique_ptr<Request> request;
  start_send(request, data, bytes, to);
  return finish(request);
}

Status Links::receive(void* data, std::size_t bytes, int from) {
  std::unique_ptr<Request> request;
  start_receive(request, data, bytes, from);
  return finish(request);
}

Status Links::exchange(const void* data, std::size_t bytes, int to, void* into, std::size_t room,
                       int from) {
  std::unique_ptr<Request> in, out;
  start_receive(in, into, room, from);
  start_send(out, data, bytes, to);
  const Status received = finish(in);
  const Status sent = finish(out);
  return received ? sent : received;
}

}  // namespace weft::coll
