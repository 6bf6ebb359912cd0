#pragma once
// End: an endpoint of a fabric at one place of this host, which moves bytes to and from those of
// others to see how well it goes. The same code is at both ends: one measures, the other answers
// whatever comes. Messages begin with a letter, see traffic.cpp. One thread.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/settings.hpp"
#include "fabric/endpoint.hpp"
#include "fabric/inspection.hpp"

namespace weft::check {

struct Measured {
  double latency_us = 0;             // of 8 bytes one way: half a round trip
  double out_gbit = 0, in_gbit = 0;  // per second, from here and to here
};

class End final : public fabric::Events {
 public:
  // Errors as fabric::Row::make.
  static Status open(const std::string& fabric, const fabric::Place& place,
                     const Settings& settings, std::unique_ptr<End>& end);
  ~End();
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  const std::string& fabric_name() const { return fabric_; }
  const fabric::Place& place() const { return place_; }
  std::string kind() const { return endpoint_->kind(); }
  std::string address() const { return endpoint_->address(); }

  // Answers what has come. True: something has.
  bool serve();
  // Connects to the End of another host with this address, and moves bytes each way for so long.
  // Ends within seconds of a silence; the error says at which step.
  Status measure(const std::string& address, int ms, Measured& measured);

 private:
  struct Pieces;  // of a put or get
  struct Outgoing {
    fabric::Link* link;
    std::string bytes;
  };

  End(std::string fabric, fabric::Place place, std::unique_ptr<fabric::Endpoint> endpoint);

  // fabric::Events
  bool on_incoming(fabric::Link& link, fabric::Bytes hello) override;
  void on_up(fabric::Link& link) override;
  void on_down(fabric::Link& link, Code why) override;
  void on_message(fabric::Link& link, fabric::Bytes bytes) override;

  void answer(fabric::Link& link, std::string bytes);
  std::string own_key();
  bool send_waiting();
  bool stream();
  void forget(fabric::Link* link);
  template <class F>
  Status wait(const char* step, F&& is_done);
  Status send(const char* step, char kind, std::size_t body);
  Status ask(const char* step, char kind, std::size_t body = 0);
  Status measure_latency(int ms, Measured& measured);
  Status measure_messages(int ms, Measured& measured);
  Status measure_access(int ms, bool is_get, double& gbit);

  const std::string fabric_;
  const fabric::Place place_;
  std::unique_ptr<fabric::Endpoint> endpoint_;
  std::vector<fabric::Link*> links_;
  std::vector<Outgoing> waiting_;                    // there was no room for them
  std::map<fabric::Link*, std::uint64_t> streams_;   // until when data goes out over each
  std::map<fabric::Link*, std::uint64_t> received_;  // bytes of data
  std::vector<std::byte> memory_;                    // that others put to and get from
  fabric::Registration registered_;
  Status registration_;
  std::vector<std::byte> data_;

  // Of measure(): its link, and what has come of it.
  fabric::Link* own_ = nullptr;
  bool is_up_ = false;
  Status lost_;
  char answer_ = 0;  // the letter of the last one; 0: none
  std::string answered_;
};

}  // namespace weft::check
