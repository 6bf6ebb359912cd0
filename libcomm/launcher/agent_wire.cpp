#include "launcher/agent_wire.hpp"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <type_traits>

namespace weft::weftrun {

using rendezvous::BodyReader;

namespace {

void append(Body& body, const Binding& binding) {
  body.word(static_cast<std::size_t>(binding.unit));
  body.word(static_cast<std::size_t>(binding.units_each));
  body.word(binding.hwthreads).word(binding.if_supported);
  body.word(static_cast<std::size_t>(binding.map_unit));
  body.word(static_cast<std::size_t>(binding.ranks_per_map_unit));
  body.word(binding.cpus.size());
  for (const int cpu : binding.cpus) body.word(static_cast<std::size_t>(cpu));
  body.word(binding.report);
}

Binding read_binding(BodyReader& reader) {
  Binding binding;
  binding.unit = static_cast<Bind>(reader.word());
  binding.units_each = static_cast<int>(reader.word());
  binding.hwthreads = reader.word() != 0;
  binding.if_supported = reader.word() != 0;
  binding.map_unit = static_cast<Bind>(reader.word());
  binding.ranks_per_map_unit = static_cast<int>(reader.word());
  for (std::uint32_t n = reader.word(); n > 0 && reader.ok(); --n)
    binding.cpus.push_back(static_cast<int>(reader.word()));
  binding.report = reader.word() != 0;
  return binding;
}

}  // namespace

std::string encode(const Assignment& assignment) {
  Body body;
  body.word(assignment.ranks.size());
  for (int rank : assignment.ranks) body.word(static_cast<std::size_t>(rank));
  body.word(static_cast<std::size_t>(assignment.job_size));
  body.word(assignment.environment.size());
  for (const auto& [name, value] : assignment.environment) body.text(name).text(value);
  body.word(assignment.programs.size());
  for (const Program& program : assignment.programs) {
    body.word(static_cast<std::size_t>(program.num_ranks));
    body.word(program.environment.size());
    for (const auto& [name, value] : program.environment) body.text(name).text(value);
    body.word(program.command.size());
    for (const std::string& word : program.command) body.text(word);
  }
  body.text(assignment.folder);
  append(body, assignment.binding);
  body.word(static_cast<std::size_t>(assignment.input));
  body.word(assignment.rendezvous.size());
  for (const std::string& address : assignment.rendezvous) body.text(address);
  body.text(assignment.key);
  body.word(static_cast<std::size_t>(assignment.visitor));
  body.word(static_cast<std::size_t>(assignment.hang_report_ms)).word(assignment.core);
  return make_message(Message::start, body);
}

bool decode(std::string_view bytes, Assignment& assignment) {
  BodyReader reader(bytes);
  // A count is valid only as far as there are words for it.
  for (std::uint32_t n = reader.word(); n > 0 && reader.ok(); --n)
    assignment.ranks.push_back(static_cast<int>(reader.word()));
  assignment.job_size = static_cast<int>(reader.word());
  for (std::uint32_t n = reader.word(); n > 0 && reader.ok(); --n) {
    std::string name(reader.text());
    assignment.environment.emplace_back(std::move(name), reader.text());
  }
  for (std::uint32_t n = reader.word(); n > 0 && reader.ok(); --n) {
    Program& program = assignment.programs.emplace_back();
    program.num_ranks = static_cast<int>(reader.word());
    for (std::uint32_t m = reader.word(); m > 0 && reader.ok(); --m) {
      std::string name(reader.text());
      program.environment.emplace_back(std::move(name), reader.text());
    }
    for (std::uint32_t m = reader.word(); m > 0 && reader.ok(); --m)
      program.command.emplace_back(reader.text());
    if (program.command.empty()) return false;
  }
  assignment.folder = reader.text();
  assignment.binding = read_binding(reader);
  assignment.input = static_cast<Input>(reader.word());
  for (std::uint32_t n = reader.word(); n > 0 && reader.ok(); --n)
    assignment.rendezvous.emplace_back(reader.text());
  assignment.key = reader.text();
  assignment.visitor = static_cast<int>(reader.word());
  assignment.hang_report_ms = static_cast<int>(reader.word());
  assignment.core = reader.word() != 0;
  return reader.complete() && !assignment.programs.empty() && !assignment.ranks.empty() &&
         !assignment.rendezvous.empty();
}

void append(Body& body, const Seen& seen) {
  body.word(seen.is_readable).word(seen.is_stopped).word(seen.found.has_value());
  if (!seen.found) return;
  static_assert(std::is_trivially_copyable_v<blocked::Found>);
  body.text({reinterpret_cast<const char*>(&*seen.found), sizeof(blocked::Found)});
  body.text(seen.place);
}

bool decode(BodyReader& reader, Seen& seen) {
  seen.is_readable = reader.word() != 0;
  seen.is_stopped = reader.word() != 0;
  if (reader.word() != 0) {
    const std::string_view bytes = reader.text();
    if (bytes.size() != sizeof(blocked::Found)) return false;
    memcpy(&seen.found.emplace(), bytes.data(), bytes.size());
    seen.place = reader.text();
  }
  return reader.complete();
}

void append(Body& body, const Crash& crash) {
  body.word(static_cast<std::size_t>(crash.rank)).word(static_cast<std::size_t>(crash.process));
  body.word(static_cast<std::size_t>(crash.signal));
  body.text(crash.cause).text(crash.call).text(crash.no_stack).text(crash.core);
  body.word(crash.stack.size());
  for (const std::string& place : crash.stack) body.text(place);
}

bool decode(BodyReader& reader, Crash& crash) {
  crash.rank = static_cast<int>(reader.word());
  crash.process = static_cast<int>(reader.word());
  crash.signal = static_cast<int>(reader.word());
  crash.cause = reader.text();
  crash.call = reader.text();
  crash.no_stack = reader.text();
  crash.core = reader.text();
  for (std::uint32_t n = reader.word(); n > 0 && reader.ok(); --n)
    crash.stack.emplace_back(reader.text());
  return reader.complete();
}

void Channel::attach(int in, int out) {
  in_ = in;
  out_ = out;
  for (int fd : {in, out}) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

void Channel::send(std::string_view bytes) {
  output_ += bytes;
  write_some();
}

void Channel::write_some() {
  std::size_t written = 0;
  while (written < output_.size() && out_ >= 0) {
    const ssize_t length = write(out_, output_.data() + written, output_.size() - written);
    if (length >= 0)
      written += static_cast<std::size_t>(length);
    else if (errno == EAGAIN)
      break;
    else if (errno != EINTR)
      break;  // the reader is gone; the end of the other direction is seen soon, and has the cause
  }
  output_.erase(0, written);
}

void Channel::stop_writing() {
  out_ = -1;
  output_.clear();
}

void Channel::read_some() {
  // Bounded, so that one side that writes without end does not keep other work waiting.
  for (int turn = 0; turn < 16 && state_ == State::open; ++turn) {
    const ssize_t length = read(in_, buffer_.data(), buffer_.size());
    if (length > 0)
      input_.append(buffer_.data(), static_cast<std::size_t>(length));
    else if (length == 0)
      state_ = State::ended;
    else if (errno == EAGAIN)
      return;
    else if (errno != EINTR)
      state_ = State::ended;
  }
}

std::optional<Channel::Received> Channel::next() {
  constexpr std::size_t kHead = 8;
  if (state_ == State::broken || input_.size() < kHead) return {};
  const std::size_t length = rendezvous::word_at(input_.data() + 4);
  if (length > kMaxFrameBytes) {
    state_ = State::broken;
    return {};
  }
  if (input_.size() < kHead + length) return {};
  Received received{static_cast<Message>(rendezvous::word_at(input_.data())),
                    input_.substr(kHead, length)};
  input_.erase(0, kHead + length);
  return received;
}

bool Channel::skip_past(std::string_view text, std::string& before) {
  const std::size_t at = input_.find(text);
  if (at == std::string::npos) {
    // Enough for any greeting of a shell; the last bytes may be the beginning of `text`.
    if (input_.size() > 64u << 10) input_.erase(0, input_.size() - text.size());
    before = input_;
    return false;
  }
  before = input_.substr(0, at);
  input_.erase(0, at + text.size());
  return true;
}

void Channel::add_polls(std::vector<pollfd>& polls) const {
  if (state_ != State::open) return;
  polls.push_back({in_, POLLIN, 0});
  if (!output_.empty() && out_ >= 0) polls.push_back({out_, POLLOUT, 0});
}

}  // namespace weft::weftrun
