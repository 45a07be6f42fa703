// A GGUF model on disk: one file or all parts of a split one, mapped read-only.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/gguf_table.h"
#include "quire/status.h"

namespace quire::model {

// One mapped file.  The descriptor stays open, so replacing the file on disk changes nothing here;
// writing into it does, and cutting it short ends the process at the next read of a lost page.
class MappedFile {
 public:
  // kNotFound, kIo (with the system's reason), kCorrupt (empty).
  static Result<std::unique_ptr<MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  // kIo when the file at the path, or its size or time, is no longer what was opened.
  Status unchanged() const;
  // The whole pages inside the range are no longer needed in memory.
  void forget(std::size_t offset, std::size_t bytes) const;

 private:
  MappedFile(std::string path, int descriptor, const struct stat& opened);

  std::string path_;
  int descriptor_;
  struct stat opened_;
  std::span<const std::byte> bytes_;
};

class GgufFile {
 public:
  // `path` is the file, or the first part of a split one (NAME-00001-of-0000N.gguf, key
  // split.count).  Errors as GgufTable::parse() and MappedFile::open(); a missing part is
  // kNotFound.
  static Result<GgufFile> open(const std::string& path);

  // Keys, from the first part.
  const GgufTable& keys() const { return tables_.front(); }
  const std::string& path() const { return files_.front()->path(); }
  int descriptor() const { return files_.front()->descriptor(); }
  std::size_t bytes() const;
  std::vector<std::string> paths() const;

  struct Found {
    const MappedFile* file;
    const GgufTensor* tensor;
    const std::byte* data() const { return file->bytes().data() + tensor->offset; }
  };
  // The tensors of all parts.
  const std::vector<Found>& tensors() const { return tensors_; }
  Status unchanged() const;

 private:
  Status add(const std::string& path);
  Status add_other_parts(const std::string& first);
  Status index_tensors();

  std::vector<std::unique_ptr<MappedFile>> files_;
  std::vector<GgufTable> tables_;  // one per file; never resized once tensors_ points into them
  std::vector<Found> tensors_;
};

}  // namespace quire::model
