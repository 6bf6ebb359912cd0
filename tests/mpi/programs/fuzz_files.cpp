// fuzz_files SEED ROUNDS: random views, types and ways to write and to read, against a model. All
// processes draw the same numbers, so each knows what the file must hold.
//
// In every round the file is divided into blocks, which are dealt out to the members in turn, and
// each member's view is of its own; what members write is a function of the round and the place.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "expect.h"

namespace {

struct Random {
  std::uint64_t state;
  int below(int n) { return static_cast<int>(next_random(&state) % static_cast<unsigned>(n)); }
  int from_to(int low, int high) { return low + below(high - low + 1); }
};

struct Round {
  int displacement, block, gap, tiles_a_time;
  int blocks_of_tile;  // of one member
  int members;         // that the tile has room for
  int first, num;      // what is written, in etypes of the view
  bool memory_strided;
  int write_way, read_way;
  const char* collective;
  const char* sieve;
};

int value_at(int round, int place) { return round * 1000003 + place * 7; }

class Files {
 public:
  Files(std::uint64_t seed) : random_{seed} {
    char name[100] = "";
    if (rank == 0) {
      std::snprintf(name, sizeof name, "/tmp/fuzz_files.XXXXXX");
      close(mkstemp(name));
    }
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    name_ = name;
    EXPECT_OK(MPI_File_open(MPI_COMM_WORLD, name,
                            MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                            MPI_INFO_NULL, &file_));
  }
  ~Files() { EXPECT_OK(MPI_File_close(&file_)); }

  void run(int round) {
    Round r = draw();
    // Place k of the member's data, in ints of the file.
    const auto place = [&r](int member, int k) {
      const int tile = k / (r.block * r.blocks_of_tile), rest = k % (r.block * r.blocks_of_tile);
      const int line = r.block * size + r.gap;
      return r.displacement + (tile * r.blocks_of_tile + rest / r.block) * line + member * r.block +
             rest % r.block;
    };
    MPI_Datatype vector, filetype;
    const int line = r.block * size + r.gap;
    MPI_Type_vector(r.blocks_of_tile, r.block, line, MPI_INT, &vector);
    MPI_Type_create_resized(vector, 0, MPI_Aint{4} * line * r.blocks_of_tile, &filetype);
    MPI_Type_commit(&filetype);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", r.collective);
    MPI_Info_set(info, "romio_cb_read", r.collective);
    MPI_Info_set(info, "romio_ds_write", r.sieve);
    MPI_Info_set(info, "cb_buffer_size", "65536");
    MPI_Info_set(info, "ind_rd_buffer_size", "5000");
    MPI_Info_set(info, "ind_wr_buffer_size", "4096");
    EXPECT_OK(MPI_File_set_view(file_, MPI_Offset{4} * (r.displacement + rank * r.block), MPI_INT,
                                filetype, "native", info));
    MPI_Info_free(&info);
    MPI_Type_free(&vector);
    MPI_Type_free(&filetype);

    // Memory: one after the other, or every third int.
    const int step = r.memory_strided ? 3 : 1;
    std::vector<int> out(static_cast<std::size_t>(r.num * step + 1), -5), in(out.size(), -7);
    for (int i = 0; i < r.num; ++i)
      out[static_cast<std::size_t>(i * step)] = value_at(round, place(rank, r.first + i));
    MPI_Datatype type = MPI_INT;
    if (step != 1) {
      MPI_Type_create_resized(MPI_INT, 0, 12, &type);
      MPI_Type_commit(&type);
    }
    write(r, out.data(), type);
    const int highest = place(size - 1, r.first + r.num - 1);
    if (static_cast<int>(model_.size()) <= highest)
      model_.resize(static_cast<std::size_t>(highest) + 1, 0);
    for (int member = 0; member < size; ++member)
      for (int i = 0; i < r.num; ++i) {
        const int at = place(member, r.first + i);
        model_[static_cast<std::size_t>(at)] = value_at(round, at);
      }
    MPI_Barrier(MPI_COMM_WORLD);
    check_file(round);
    // What comes behind the end is not read.
    const int read = read_back(r, in.data(), type);
    int expected = 0;
    while (expected < r.num && place(rank, r.first + expected) < static_cast<int>(model_.size()))
      ++expected;
    EXPECT_EQ(read, expected);
    for (int i = 0; i < expected; ++i)
      EXPECT_EQ(in[static_cast<std::size_t>(i * step)],
                model_[static_cast<std::size_t>(place(rank, r.first + i))]);
    for (int i = 0; i < r.num * step; ++i)
      if (i % step != 0) EXPECT_EQ(in[static_cast<std::size_t>(i)], -7);
    if (step != 1) MPI_Type_free(&type);
    MPI_Barrier(MPI_COMM_WORLD);
  }

 private:
  Round draw() {
    static const char* const kChoices[] = {"automatic", "enable", "disable"};
    Round r{};
    r.displacement = random_.below(50);
    r.block = random_.from_to(1, 40);
    r.gap = random_.below(3) == 0 ? random_.below(2000) : 0;
    r.blocks_of_tile = random_.from_to(1, 5);
    r.first = random_.below(300);
    r.num = random_.from_to(1, 3000);
    r.memory_strided = random_.below(2) == 1;
    r.write_way = random_.below(6);
    r.read_way = random_.below(6);
    r.collective = kChoices[random_.below(3)];
    r.sieve = random_.below(2) == 0 ? "enable" : "disable";
    return r;
  }

  void write(const Round& r, const int* data, MPI_Datatype type) {
    MPI_Status status;
    MPI_Request request;
    if (r.write_way >= 3) EXPECT_OK(MPI_File_seek(file_, r.first, MPI_SEEK_SET));
    switch (r.write_way) {
      case 0:
        EXPECT_OK(MPI_File_write_at(file_, r.first, data, r.num, type, &status));
        break;
      case 1:
        EXPECT_OK(MPI_File_write_at_all(file_, r.first, data, r.num, type, &status));
        break;
      case 2:
        EXPECT_OK(MPI_File_iwrite_at_all(file_, r.first, data, r.num, type, &request));
        EXPECT_OK(MPI_Wait(&request, &status));
        break;
      case 3:
        EXPECT_OK(MPI_File_write_all(file_, data, r.num, type, &status));
        break;
      case 4:
        EXPECT_OK(MPI_File_write_all_begin(file_, data, r.num, type));
        EXPECT_OK(MPI_File_write_all_end(file_, data, &status));
        break;
      default:
        EXPECT_OK(MPI_File_iwrite(file_, data, r.num, type, &request));
        EXPECT_OK(MPI_Wait(&request, &status));
        break;
    }
    int count = -1;
    MPI_Get_elements(&status, type, &count);
    EXPECT_EQ(count, r.num);
  }

  int read_back(const Round& r, int* data, MPI_Datatype type) {
    MPI_Status status;
    MPI_Request request;
    if (r.read_way >= 3) EXPECT_OK(MPI_File_seek(file_, r.first, MPI_SEEK_SET));
    switch (r.read_way) {
      case 0:
        EXPECT_OK(MPI_File_read_at(file_, r.first, data, r.num, type, &status));
        break;
      case 1:
        EXPECT_OK(MPI_File_read_at_all(file_, r.first, data, r.num, type, &status));
        break;
      case 2:
        EXPECT_OK(MPI_File_iread_at(file_, r.first, data, r.num, type, &request));
        EXPECT_OK(MPI_Wait(&request, &status));
        break;
      case 3:
        EXPECT_OK(MPI_File_read_all(file_, data, r.num, type, &status));
        break;
      case 4:
        EXPECT_OK(MPI_File_read_all_begin(file_, data, r.num, type));
        EXPECT_OK(MPI_File_read_all_end(file_, data, &status));
        break;
      default:
        EXPECT_OK(MPI_File_iread_all(file_, data, r.num, type, &request));
        EXPECT_OK(MPI_Wait(&request, &status));
        break;
    }
    int count = -1;
    MPI_Get_elements(&status, type, &count);
    return count;
  }

  // As the system has it.
  void check_file(int round) {
    const int descriptor = open(name_.c_str(), O_RDONLY);
    std::vector<int> found(model_.size() + 1, -1);
    const ssize_t bytes = pread(descriptor, found.data(), found.size() * 4, 0);
    close(descriptor);
    EXPECT_EQ(bytes, model_.size() * 4);
    for (std::size_t i = 0; i < model_.size(); ++i)
      if (found[i] != model_[i]) {
        std::fprintf(stderr, "round %d, place %zu\n", round, i);
        EXPECT_EQ(found[i], model_[i]);
        return;
      }
  }

  Random random_;
  std::string name_;
  MPI_File file_ = MPI_FILE_NULL;
  std::vector<int> model_;
};

}  // namespace

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const auto seed = std::strtoull(argc > 1 ? argv[1] : "1", nullptr, 10);
  const int rounds = std::atoi(argc > 2 ? argv[2] : "100");
  {
    Files files(seed);
    for (int round = 1; round <= rounds && num_failures == 0; ++round) files.run(round);
  }
  return end();
}
