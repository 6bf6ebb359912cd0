// storm_threads THREADS MESSAGES SEED: every thread of every process exchanges messages with the
// thread of the same number in every other process, all on one communicator, told apart by tag;
// at the same time one thread takes part in collectives on another communicator, one makes and
// frees communicators of one, and two hang attributes on the one these are made of.
// MPI_THREAD_MULTIPLE.
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "expect.h"

namespace {

std::atomic<int> problems{0};

void expect(bool condition, int line) {
  if (!condition && problems.fetch_add(1) < 10)
    fprintf(stderr, "rank %d of %d: storm_threads.cpp:%d\n", rank, size, line);
}
#define CHECK(condition) expect(condition, __LINE__)

int size_of_message(std::uint64_t seed, int thread, int from, int to, int i) {
  std::uint64_t v = seed_of(seed + thread, from * 100 + to, i);
  if (v % 20 == 0) return static_cast<int>(v / 20 % 300000);
  if (v % 4 == 0) return static_cast<int>(v / 4 % 10000);
  return static_cast<int>(v / 4 % 200);
}

void pair_traffic(int thread, int messages, std::uint64_t seed) {
  for (int i = 0; i < messages; ++i) {
    std::vector<MPI_Request> requests(2 * size);
    std::vector<std::vector<unsigned char>> out(size), in(size);
    for (int peer = 0; peer < size; ++peer) {
      in[peer].resize(size_of_message(seed, thread, peer, rank, i) + 1);
      MPI_Irecv(in[peer].data(), static_cast<int>(in[peer].size()), MPI_BYTE, peer, thread,
                MPI_COMM_WORLD, &requests[peer]);
    }
    for (int k = 0; k < size; ++k) {
      int peer = (rank + k + thread) % size;
      out[peer].resize(size_of_message(seed, thread, rank, peer, i));
      fill(out[peer].data(), out[peer].size(), seed_of(thread, rank * 100 + peer, i));
      MPI_Isend(out[peer].data(), static_cast<int>(out[peer].size()), MPI_BYTE, peer, thread,
                MPI_COMM_WORLD, &requests[size + peer]);
    }
    std::vector<MPI_Status> statuses(2 * size);
    CHECK(MPI_Waitall(2 * size, requests.data(), statuses.data()) == MPI_SUCCESS);
    for (int peer = 0; peer < size; ++peer) {
      int bytes = -1, expected = size_of_message(seed, thread, peer, rank, i);
      MPI_Get_count(&statuses[peer], MPI_BYTE, &bytes);
      CHECK(bytes == expected);
      CHECK(statuses[peer].MPI_TAG == thread);
      CHECK(first_difference(in[peer].data(), expected, seed_of(thread, peer * 100 + rank, i)) ==
            -1);
    }
  }
}

// Several threads of this process receive from anywhere with one tag; each message is taken by
// exactly one, and the sum says that none was lost or doubled.
void shared_receives(int messages, std::atomic<long>* sum) {
  for (int i = 0; i < messages; ++i) {
    long value = 0;
    CHECK(MPI_Recv(&value, 1, MPI_LONG, MPI_ANY_SOURCE, 1000, MPI_COMM_WORLD, MPI_STATUS_IGNORE) ==
          MPI_SUCCESS);
    sum->fetch_add(value);
  }
}

// The same by matched probes: the message found is the message received.
void shared_probes(int messages, std::atomic<long>* sum) {
  for (int i = 0; i < messages; ++i) {
    MPI_Message message;
    MPI_Status status;
    long value[3] = {0, 0, 0};
    int count = 0;
    CHECK(MPI_Mprobe(MPI_ANY_SOURCE, 1001, MPI_COMM_WORLD, &message, &status) == MPI_SUCCESS);
    MPI_Get_count(&status, MPI_LONG, &count);
    CHECK(MPI_Mrecv(value, 3, MPI_LONG, &message, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(count == value[0] % 3 + 1);
    sum->fetch_add(value[0]);
  }
}

void collectives(MPI_Comm comm, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    int value = rank + i, sum = -1, token = rank == i % size ? i : -1;
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(sum == size * (size - 1) / 2 + size * i);
    MPI_Bcast(&token, 1, MPI_INT, i % size, comm);
    CHECK(token == i);
    if (i % 10 == 0) MPI_Barrier(comm);
  }
}

void communicators(int rounds) {
  for (int i = 0; i < rounds; ++i) {
    MPI_Comm own;
    CHECK(MPI_Comm_dup(MPI_COMM_SELF, &own) == MPI_SUCCESS);
    int out = i, in = -1;
    MPI_Sendrecv(&out, 1, MPI_INT, 0, 0, &in, 1, MPI_INT, 0, 0, own, MPI_STATUS_IGNORE);
    CHECK(in == i);
    CHECK(MPI_Comm_free(&own) == MPI_SUCCESS);
  }
}

// Attributes of one communicator under keys of several threads.
void attributes(int rounds) {
  int key;
  CHECK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, nullptr) ==
        MPI_SUCCESS);
  for (int i = 0; i < rounds; ++i) {
    void* value = nullptr;
    int flag = -1;
    CHECK(MPI_Comm_set_attr(MPI_COMM_SELF, key, &key) == MPI_SUCCESS);
    CHECK(MPI_Comm_get_attr(MPI_COMM_SELF, key, &value, &flag) == MPI_SUCCESS);
    CHECK(flag == 1 && value == &key);
    CHECK(MPI_Comm_delete_attr(MPI_COMM_SELF, key) == MPI_SUCCESS);
    CHECK(MPI_Comm_get_attr(MPI_COMM_SELF, key, &value, &flag) == MPI_SUCCESS);
    CHECK(flag == 0);
    CHECK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag) == MPI_SUCCESS);
    CHECK(flag == 1 && *static_cast<int*>(value) >= 32767);
  }
  CHECK(MPI_Comm_free_keyval(&key) == MPI_SUCCESS);
}

}  // namespace

int main(int argc, char** argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  learn_place();
  EXPECT_EQ(provided, MPI_THREAD_MULTIPLE);
  int num_threads = argc > 1 ? atoi(argv[1]) : 3, messages = argc > 2 ? atoi(argv[2]) : 100;
  std::uint64_t seed = argc > 3 ? strtoull(argv[3], nullptr, 10) : 1;
  MPI_Comm other;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);

  std::vector<std::thread> threads;
  for (int t = 0; t < num_threads; ++t) threads.emplace_back(pair_traffic, t, messages, seed);
  threads.emplace_back(collectives, other, messages);
  threads.emplace_back(communicators, messages);
  for (int t = 0; t < 2; ++t) threads.emplace_back(attributes, 50 * messages);
  for (std::thread& thread : threads) thread.join();
  threads.clear();

  // Each process sends `messages` values for each receiving thread to its neighbour.
  for (int probing = 0; probing < 2; ++probing) {
    std::atomic<long> sum{0};
    for (int t = 0; t < num_threads; ++t)
      threads.emplace_back(probing ? shared_probes : shared_receives, messages, &sum);
    std::vector<std::thread> senders;
    long total = static_cast<long>(messages) * num_threads;
    for (int t = 0; t < num_threads; ++t)
      senders.emplace_back([t, messages, probing] {
        for (int i = 0; i < messages; ++i) {
          long value[3] = {static_cast<long>(t) * messages + i, 0, 0};
          int count = probing ? static_cast<int>(value[0] % 3 + 1) : 1;
          MPI_Send(value, count, MPI_LONG, (rank + 1) % size, 1000 + probing, MPI_COMM_WORLD);
        }
      });
    for (std::thread& thread : senders) thread.join();
    for (std::thread& thread : threads) thread.join();
    threads.clear();
    EXPECT_EQ(sum.load(), total * (total - 1) / 2);
  }
  MPI_Comm_free(&other);
  num_failures += problems;
  return end();
}
