#pragma once
// The receiver's side of a file tree: a folder that nothing leads out of. Every path is opened
// below it, through no link, even if other processes change it meanwhile. Threads: one.
#include <sodium.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mcast/copy/records.hpp"
#include "weft/status.hpp"

namespace weft::copy {

class Folder {
 public:
  // Makes the folder if it is not there, unless !makes: then it is as one that is empty. is_below:
  // a foreign sender has named it, so it lies below the working directory, through no link.
  Status open(const std::string& path, bool is_below = false, bool makes = true);
  ~Folder();
  bool is_there() const { return root_ >= 0; }

  // An entry in the way of one of another kind is replaced, whatever it is; else a file where
  // a folder comes and an empty folder are, and other things are reported.
  void set_replaces(bool replaces) { replaces_ = replaces; }

  // True if a folder is where something else comes, or the other way round.
  bool is_in_the_way(const Entry& entry) const;

  // Makes a folder or link, which needs no data. Of others: nothing.
  Status make(const Entry& entry);
  // True if the file is there as the entry says: kind, size and time of change.
  bool has(const Entry& entry) const;

  // Of a large file that was not finished: digests of its blocks.
  std::vector<BlockDigest> held(const Entry& entry) const;

  // A file's data, under a temporary name or none, until finish. resumes: under a name that stays
  // when this process ends, and from what is there under it.
  Status begin(const Entry& entry, bool resumes = false);
  // In the order of offsets, as keep.
  Status write(std::uint64_t offset, std::span<const std::byte> data);
  // The data there are those of the file.
  Status keep(std::uint64_t offset, std::size_t length);
  // corrupt: the data are not what the digest says. Where another receiver shares the folder and
  // has put the same file there: ok.
  Status finish(const Entry& entry, std::uint64_t size, const Digest& digest);
  void abandon();
  // Lets go of the file; what can be resumed stays.
  void leave();
  bool is_open() const { return file_ >= 0; }

  // Owner, mode, times, extended attributes.
  Status dress(const Entry& entry);
  // Deletes what is in this folder and not in `names`, but nothing across a mount point. `found`:
  // only finds the paths. ok: the folder is not there.
  Status prune(const std::string& path, const std::vector<std::string>& names,
               std::size_t& num_deleted, std::vector<std::string>* found = nullptr);

 private:
  int open_below(const std::string& path, int flags) const;
  int open_parent(const std::string& path, std::string& name) const;
  Status clear_way(int parent, const std::string& name, const Entry& entry);
  Status put_in_place(int parent, const std::string& temporary, const std::string& name,
                      const Entry& entry);
  Status link_to(const Entry& entry, int parent, const std::string& name) const;
  bool has_link(int parent, const std::string& name, const Entry& entry) const;
  Status clear_to(std::uint64_t offset);
  Status dress_at(int file, const Entry& entry) const;

  int root_ = -1;
  int file_ = -1, parent_ = -1;
  std::string name_, temporary_;
  bool resumes_ = false, replaces_ = false;
  std::uint64_t old_bytes_ = 0;  // of what is resumed
  std::uint64_t next_ = 0;       // after what has come
  crypto_generichash_state hash_;
};

}  // namespace weft::copy
