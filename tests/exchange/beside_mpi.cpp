// A program that uses MPI and the threaded transport, which know nothing of each other: a message
// goes around by the one while the other is open. With any MPI.
//
//   beside_mpi mpi-first | job-first | job-before | job-after
//
// mpi-first, job-first: which of the two begins first; it ends last. job-before, job-after: the
// job's whole life is before MPI_Init, or after MPI_Finalize.
#include <mpi.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <weft/weft.hpp>

namespace {

bool good = true;

void expect(bool right, const char* what) {
  if (right) return;
  good = false;
  std::fprintf(stderr, "beside_mpi: %s\n", what);
}

int mpi_number(bool of_ranks) {
  int number = -1;
  if (of_ranks)
    MPI_Comm_size(MPI_COMM_WORLD, &number);
  else
    MPI_Comm_rank(MPI_COMM_WORLD, &number);
  return number;
}

void around_by_mpi() {
  const int rank = mpi_number(false), size = mpi_number(true);
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  int sent = rank, got = -1;
  MPI_Sendrecv(&sent, 1, MPI_INT, to, 5, &got, 1, MPI_INT, from, 5, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  expect(got == from, "MPI brought another message");
}

void around_by_weft(weft::Job& job) {
  weft::Exchange<int> exchange(job, 1);
  const int to = (job.rank() + 1) % job.size(), from = (job.rank() + job.size() - 1) % job.size();
  int got = -1;
  expect(exchange.send(to, 0, job.rank()) == weft::Code::ok, "send failed");
  const weft::Status status = exchange.quiesce(0, [&](int message) { got = message; });
  expect(status.ok(), status.text().c_str());
  expect(got == from, "Weft brought another message");
}

void both(weft::Job& job) {
  expect(job.rank() == mpi_number(false) && job.size() == mpi_number(true),
         "the two count the ranks differently");
  for (int i = 0; i < 100; ++i) {
    around_by_mpi();
    around_by_weft(job);
  }
}

void job_alone() {
  weft::Job job;
  around_by_weft(job);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string way = argc > 1 ? argv[1] : "";
  try {
    std::unique_ptr<weft::Job> job;
    if (way == "job-before") job_alone();
    if (way == "job-first") job = std::make_unique<weft::Job>();
    MPI_Init(&argc, &argv);
    around_by_mpi();
    if (way == "mpi-first") {
      weft::Job inner;
      both(inner);
    }
    if (way == "job-first") both(*job);
    MPI_Finalize();
    if (way == "job-first") around_by_weft(*job);
    if (way == "job-after") job_alone();
  } catch (const weft::Error& error) {
    expect(false, error.what());
  }
  return good ? 0 : 1;
}
