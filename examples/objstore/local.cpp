// local STORE_SOCKET [REDIS_SOCKET]: put, get and delete of this host's store, beside SET, GET and
// DEL of a Redis server through hiredis, one client and one call at a time. Rates are medians of
// rounds that alternate between the two.
#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "weft/job.hpp"
#include "weft/object_store.hpp"
#ifdef WEFT_HAVE_HIREDIS
#include <hiredis/hiredis.h>
#endif

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kRounds = 5;

double seconds_of(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}
double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}
[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "local: %s\n", what.c_str());
  std::exit(1);
}
void check(const weft::Status& status) {
  if (!status) fail(status.text());
}
// Reads every byte.
std::uint64_t sum(std::span<const std::byte> data) {
  std::uint64_t total = 0;
  std::size_t i = 0;
  for (; i + 8 <= data.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, data.data() + i, 8);
    total += word;
  }
  return total;
}
volatile std::uint64_t sink;

weft::ObjectId id_of(std::size_t bytes, int round, int number) {
  weft::ObjectId id;
  weft::ObjectId::parse(
      std::to_string(bytes) + "-" + std::to_string(round) + "-" + std::to_string(number), id);
  return id;
}

#ifdef WEFT_HAVE_HIREDIS
redisContext* redis = nullptr;
void command(int type, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  auto* reply = static_cast<redisReply*>(redisvCommand(redis, format, arguments));
  va_end(arguments);
  if (reply == nullptr || reply->type != type) fail("Redis does not answer as expected");
  if (type == REDIS_REPLY_STRING)
    sink = sum({reinterpret_cast<const std::byte*>(reply->str), reply->len});
  freeReplyObject(reply);
}
#endif

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: local STORE_SOCKET [REDIS_SOCKET]\n"), 2;
  try {
    weft::ObjectStore store({.socket = argv[1], .name = "local"});
    bool has_redis = false;
#ifdef WEFT_HAVE_HIREDIS
    if (argc > 2) {
      redis = redisConnectUnix(argv[2]);
      if (redis == nullptr || redis->err != 0) fail(std::string("no Redis at ") + argv[2]);
      has_redis = true;
    }
#endif
    std::printf("%9s %11s %11s %11s %11s %11s | %11s %11s %11s   calls/s\n", "bytes", "put",
                "get first", "get again", "get + read", "delete", "SET", "GET + read", "DEL");
    for (const std::size_t bytes : {1024u, 4096u, 16384u, 65536u, 262144u, 1048576u, 4194304u}) {
      const int num = static_cast<int>(std::clamp<std::size_t>((16 << 20) / bytes, 8, 2000));
      const int again = static_cast<int>(std::clamp<std::size_t>((256 << 20) / bytes, 64, 2000));
      std::vector<std::byte> data(bytes, std::byte{7});
      std::vector<double> rates[8];
      for (int round = 0; round < kRounds; ++round) {
        std::vector<weft::ObjectId> ids;
        for (int i = 0; i < num; ++i) ids.push_back(id_of(bytes, round, i));
        const auto rate = [](int count, const std::function<void()>& work) {
          return count / seconds_of(work);
        };
        rates[0].push_back(rate(num, [&] {
          for (const auto& id : ids) check(store.put(id, data));
        }));
        // A client that has not seen them yet.
        weft::ObjectStore fresh({.socket = argv[1], .name = "local"});
        rates[1].push_back(rate(num, [&] {
          for (const auto& id : ids) {
            weft::Object object;
            check(fresh.get(id, object));
          }
        }));
        constexpr int kRepeated = 1'000'000;
        rates[2].push_back(rate(kRepeated, [&] {
          for (int i = 0; i < kRepeated; ++i) {
            weft::Object object;
            check(fresh.get(ids[static_cast<std::size_t>(i % 8)], object));
          }
        }));
        rates[3].push_back(rate(again, [&] {
          for (int i = 0; i < again; ++i) {
            weft::Object object;
            check(fresh.get(ids[static_cast<std::size_t>(i % num)], object));
            sink = sum(object.data());
          }
        }));
        rates[4].push_back(rate(num, [&] {
          for (const auto& id : ids) check(store.erase(id));
        }));
#ifdef WEFT_HAVE_HIREDIS
        if (!has_redis) continue;
        rates[5].push_back(rate(num, [&] {
          for (const auto& id : ids)
            command(REDIS_REPLY_STATUS, "SET %b %b", id.bytes.data(), std::size_t{id.size},
                    data.data(), data.size());
        }));
        rates[6].push_back(rate(std::min(again, num * 4), [&] {
          for (int i = 0; i < std::min(again, num * 4); ++i)
            command(REDIS_REPLY_STRING, "GET %b",
                    ids[static_cast<std::size_t>(i % num)].bytes.data(),
                    std::size_t{ids[static_cast<std::size_t>(i % num)].size});
        }));
        rates[7].push_back(rate(num, [&] {
          for (const auto& id : ids)
            command(REDIS_REPLY_INTEGER, "DEL %b", id.bytes.data(), std::size_t{id.size});
        }));
#endif
      }
      std::printf("%9zu", bytes);
      for (int i = 0; i < (has_redis ? 8 : 5); ++i)
        std::printf("%s %11.0f", i == 5 ? " |" : "", median(rates[i]));
      std::printf("\n");
      std::fflush(stdout);
    }
    std::string json;
    check(store.status(json));
    std::vector<weft::ObjectCall> calls(64);
    // The cost of a million objects beside their bytes.
    constexpr int kMany = 1'000'000;
    const std::vector<std::byte> small(1024);
    for (int i = 0; i < kMany + 64; ++i) {
      weft::ObjectCall& call = calls[static_cast<std::size_t>(i % 64)];
      if (i >= 64) check(store.wait(call));
      if (i < kMany) check(store.put_async(id_of(0, 0, i), small, call));
    }
    check(store.status(json));
    std::printf("%s\n", json.c_str());
  } catch (const weft::Error& error) {
    fail(error.what());
  }
}
