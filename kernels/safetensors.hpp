#pragma once

#include <filesystem>
#include <iosfwd>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/digest.hpp"
#include "kernels/shape.hpp"
#include "kernels/stream.hpp"

namespace sluice::kernels {

/// A file that is not the safetensors file it should be, or cannot be read or written; the
/// message names the file and, where there is one, the tensor.
class safetensors_error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// The strings of the header's "__metadata__".
using safetensors_metadata = std::map<std::string, std::string>;

/// Writes tensors in the safetensors format: the header's length (8 bytes, little-endian), the
/// header (JSON, padded with spaces to a multiple of 8), the elements in the order given.
///
/// Not atomic: write to a temporary name, then rename. `file` is what errors call it.
/// Errors: safetensors_error for two tensors of one name, or a short write (a full disk included).
void write_safetensors(std::ostream& to, const std::string& file,
                       std::span<const named_tensor> tensors,
                       const safetensors_metadata& metadata = {});

/// The same into a file, flushed to the operating system.
void write_safetensors(const std::filesystem::path& file, std::span<const named_tensor> tensors,
                       const safetensors_metadata& metadata = {});

/// A safetensors file opened for reading. Its header is checked as a whole when it is opened:
/// length, types, shapes, offsets (in bounds, without gaps or overlaps) and the file's size.
class safetensors_file {
public:
  struct entry {
    std::string name;
    dtype type;
    kernels::shape shape;
    std::uint64_t begin = 0; ///< in the data, which follows the header
    std::uint64_t end = 0;
  };

  /// Errors: safetensors_error.
  explicit safetensors_file(std::filesystem::path file);

  const safetensors_metadata& metadata() const noexcept { return metadata_; }
  const std::vector<entry>& entries() const noexcept { return entries_; } ///< by offset

  bool contains(std::string_view name) const noexcept { return find(name) != nullptr; }

  /// Reads one tensor into memory of the stream's device.
  /// Errors: safetensors_error when there is none of this name, or the file cannot be read.
  tensor read(stream& on, std::string_view name) const;

  /// Reads one tensor into `to`. Errors: also when its shape or type is another.
  void read_into(tensor& to, std::string_view name) const;

private:
  const entry* find(std::string_view name) const noexcept;
  const entry& get(std::string_view name) const;
  void read_bytes(const entry& from, std::span<std::byte> to) const;

  std::filesystem::path file_;
  std::uint64_t data_begin_ = 0;
  safetensors_metadata metadata_;
  std::vector<entry> entries_;
};

} // namespace sluice::kernels
