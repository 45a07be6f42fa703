#include "model/gguf_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

namespace quire::model {
namespace {

constexpr std::uint32_t kMaxParts = 1024;

std::string reason() {
  return std::strerror(errno);
}

bool same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

}  // namespace

Result<std::unique_ptr<MappedFile>> MappedFile::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    if (errno == ENOENT) return Status(Code::kNotFound, path + ": no such file");
    return Status(Code::kIo, path + ": cannot open (" + reason() + ")");
  }
  struct stat opened {};
  if (::fstat(descriptor, &opened) != 0 || !S_ISREG(opened.st_mode)) {
    ::close(descriptor);
    return Status(Code::kIo, path + ": not a regular file");
  }
  std::unique_ptr<MappedFile> file(new MappedFile(path, descriptor, opened));
  if (opened.st_size <= 0) return Status(Code::kCorrupt, path + ": the file is empty");
  const auto size = static_cast<std::size_t>(opened.st_size);
  void* base = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (base == MAP_FAILED) return Status(Code::kIo, path + ": cannot map (" + reason() + ")");
  file->bytes_ = {static_cast<const std::byte*>(base), size};
  return file;
}

MappedFile::MappedFile(std::string path, int descriptor, const struct stat& opened)
    : path_(std::move(path)), descriptor_(descriptor), opened_(opened) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  ::close(descriptor_);
}

Status MappedFile::unchanged() const {
  struct stat now {};
  if (::fstat(descriptor_, &now) != 0 || !same(now, opened_)) {
    return {Code::kIo, path_ + ": the file was changed while it was being loaded"};
  }
  if (::stat(path_.c_str(), &now) != 0 || !same(now, opened_)) {
    return {Code::kIo, path_ + ": the file was replaced while it was being loaded"};
  }
  return {};
}

void MappedFile::forget(std::size_t offset, std::size_t bytes) const {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t first = (offset + page - 1) / page * page;
  const std::size_t end = (offset + bytes) / page * page;
  if (first >= end) return;
  ::madvise(const_cast<std::byte*>(bytes_.data()) + first, end - first, MADV_DONTNEED);
}

Result<GgufFile> GgufFile::open(const std::string& path) {
  GgufFile model;
  if (Status status = model.add(path); !status.ok()) return status;
  if (Status status = model.add_other_parts(path); !status.ok()) return status;
  if (Status status = model.index_tensors(); !status.ok()) return status;
  return model;
}

Status GgufFile::add(const std::string& path) {
  Result<std::unique_ptr<MappedFile>> file = MappedFile::open(path);
  if (!file.ok()) return file.status();
  Result<GgufTable> table = GgufTable::parse((*file)->bytes(), path);
  if (!table.ok()) return table.status();
  files_.push_back(*std::move(file));
  tables_.push_back(*std::move(table));
  return {};
}

Status GgufFile::add_other_parts(const std::string& first) {
  Result<std::uint32_t> parts = keys().u32("split.count", 1);
  if (!parts.ok()) return parts.status();
  Result<std::uint32_t> number = keys().u32("split.no", 0);
  if (!number.ok()) return number.status();
  if (*parts <= 1) return {};
  if (*parts > kMaxParts) {
    return keys().fault(Code::kCorrupt,
                        "key 'split.count' says " + std::to_string(*parts) + " parts");
  }
  if (*number != 0) {
    return keys().fault(Code::kInvalidArgument, "this is part " + std::to_string(*number + 1) +
                                                    " of " + std::to_string(*parts) +
                                                    "; name the first part");
  }
  char suffix[32];
  const auto suffix_of = [&](std::uint32_t part) {
    std::snprintf(suffix, sizeof(suffix), "-%05u-of-%05u.gguf", part, *parts);
    return std::string_view(suffix);
  };
  if (!first.ends_with(suffix_of(1))) {
    return keys().fault(Code::kInvalidArgument, "the first of " + std::to_string(*parts) +
                                                    " parts must be named NAME" + suffix);
  }
  const std::string stem = first.substr(0, first.size() - suffix_of(1).size());
  for (std::uint32_t part = 2; part <= *parts; ++part) {
    const std::string path = stem + std::string(suffix_of(part));
    if (Status status = add(path); !status.ok()) {
      if (status.code() != Code::kNotFound) return status;
      return {Code::kNotFound, path + ": part " + std::to_string(part) + " of " +
                                   std::to_string(*parts) + " of the model is missing"};
    }
    Result<std::uint32_t> index = tables_.back().u32("split.no");
    if (!index.ok()) return index.status();
    if (*index != part - 1) {
      return tables_.back().fault(Code::kCorrupt, "key 'split.no' is " + std::to_string(*index) +
                                                      ", expected " + std::to_string(part - 1));
    }
  }
  return {};
}

Status GgufFile::index_tensors() {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    for (const GgufTensor& tensor : tables_[i].tensors()) {
      if (!names.insert(tensor.name).second) {
        return tables_[i].fault(Code::kCorrupt,
                                "tensor '" + tensor.name + "' is also in another part");
      }
      tensors_.push_back({files_[i].get(), &tensor});
    }
  }
  Result<std::uint32_t> expected =
      keys().u32("split.tensors.count", static_cast<std::uint32_t>(tensors_.size()));
  if (!expected.ok()) return expected.status();
  if (files_.size() > 1 && *expected != tensors_.size()) {
    return keys().fault(Code::kCorrupt, "key 'split.tensors.count' is " +
                                            std::to_string(*expected) + ", the parts hold " +
                                            std::to_string(tensors_.size()));
  }
  return {};
}

std::size_t GgufFile::bytes() const {
  std::size_t sum = 0;
  for (const auto& file : files_) sum += file->bytes().size();
  return sum;
}

std::vector<std::string> GgufFile::paths() const {
  std::vector<std::string> paths;
  for (const auto& file : files_) paths.push_back(file->path());
  return paths;
}

Status GgufFile::unchanged() const {
  for (const auto& file : files_) {
    if (Status status = file->unchanged(); !status.ok()) return status;
  }
  return {};
}

}  // namespace quire::model
