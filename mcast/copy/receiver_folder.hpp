#pragma once
// The receiver's side of a file tree, confined to one folder: every path is opened below it and
// through no link, even if other processes change the tree meanwhile. Threads: one.
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
  // Opens the folder. A missing one is made; with !makes it counts as empty. is_below: the sender
  // is not trusted, so the folder must lie below the working directory, through no link.
  Status open(const std::string& path, bool is_below = false, bool makes = true);
  ~Folder();
  bool is_there() const { return root_ >= 0; }

  // True: an entry of another kind than the new one is always replaced. False: only a file (by a
  // folder) or an empty folder is; anything else is an error.
  void set_replaces(bool replaces) { replaces_ = replaces; }

  // True if one of the existing entry and the new one is a folder and the other is not.
  bool conflicts_with(const Entry& entry) const;

  // Makes a folder or link, which need no data. Ignores other kinds.
  Status make(const Entry& entry);
  // True if the file exists with the entry's kind, size and modification time.
  bool has(const Entry& entry) const;

  // Digests of the blocks of a large file that an earlier run did not finish.
  std::vector<BlockDigest> held(const Entry& entry) const;

  // Begins a file, which has a temporary name or none until finish(). resumes: the temporary name
  // survives this process, and data that exist under it are reused.
  Status begin(const Entry& entry, bool resumes = false);
  // Writes data. Calls of write and keep have ascending offsets.
  Status write(std::uint64_t offset, std::span<const std::byte> data);
  // Reuses the existing data of this range.
  Status keep(std::uint64_t offset, std::size_t length);
  // Verifies the digest and renames the file. corrupt: another digest. ok if another receiver that
  // shares the folder has put the same file there.
  Status finish(const Entry& entry, std::uint64_t size, const Digest& digest);
  void abandon();
  // Closes the file; data that can be resumed stay.
  void leave();
  bool is_open() const { return file_ >= 0; }

  // Sets owner, mode, times and extended attributes.
  Status dress(const Entry& entry);
  // Deletes entries of this folder that are not in `names`, but nothing across a mount point. With
  // `found` it only lists their paths. ok if the folder does not exist.
  Status prune(const std::string& path, const std::vector<std::string>& names,
               std::size_t& num_deleted, std::vector<std::string>* found = nullptr);

 private:
  int open_below(const std::string& path, int flags) const;
  int open_parent(const std::string& path, std::string& name) const;
  Status remove_conflicting(int parent, const std::string& name, const Entry& entry);
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
