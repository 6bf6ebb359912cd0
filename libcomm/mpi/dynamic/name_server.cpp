#include "mpi/dynamic/name_server.hpp"

#include <fmt/core.h>
#include <stdlib.h>

#include "job/boards.hpp"
#include "job/rendezvous_link.hpp"
#include "mpi/core/state.hpp"

namespace weft::mpi {
namespace {

using namespace rendezvous;

// The link to the server that several jobs share; guarded by board_mutex.
Immortal<Link> server;

Status visit(const Deadline& deadline) {
  const char* given = getenv(kNameServerVariable);
  if (given == nullptr) return Code::not_found;
  if (server->is_open()) return {};
  const std::string_view text = given;
  const std::size_t slash = text.rfind('/');
  if (slash == std::string_view::npos)
    return {Code::bad_setting,
            fmt::format("{}={} is not host:port/key", kNameServerVariable, text)};
  std::string body;
  append_word(body, kVersion);
  append_word(body, kAsksForNames);
  append_text(body, text.substr(slash + 1));
  const std::string address(text.substr(0, slash));
  Status status = server->greet(address, make_frame(Type::visit, body), deadline);
  if (status == Code::again)
    status = {Code::timed_out, fmt::format("no name server at {}", address)};
  return status;
}

template <class AskBoard>
Status ask(Type type, std::string_view service, std::string_view port, std::string& answer,
           AskBoard&& ask_board) {
  const std::lock_guard lock(board_mutex);
  const Deadline deadline(static_cast<int>(engine->job().settings().patience_ns() / 1'000'000));
  Status status = visit(deadline);
  if (status == Code::not_found) return ask_board();
  if (!status) return status;
  std::string body;
  append_text(body, service);
  if (type == Type::publish) append_text(body, port);
  status = server->ask(type, body, deadline, answer);
  // A late answer would be taken for that of the next request.
  if (status == Code::timed_out || status == Code::corrupt || status == Code::peer_lost)
    server->close();
  return status;
}

Board& board() { return engine->job().board(); }

}  // namespace

Status publish_name(std::string_view service, std::string_view port) {
  std::string answer;
  return ask(Type::publish, service, port, answer, [&] { return board().publish(service, port); });
}

Status look_up_name(std::string_view service, std::string& port) {
  return ask(Type::look_up, service, {}, port, [&] { return board().look_up(service, port); });
}

Status unpublish_name(std::string_view service) {
  std::string answer;
  return ask(Type::unpublish, service, {}, answer, [&] { return board().unpublish(service); });
}

void leave_name_server() {
  const std::lock_guard lock(board_mutex);
  server->close();
}

}  // namespace weft::mpi
