#include "kernels/safetensors.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <ostream>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace sluice::kernels {

namespace {

using json = nlohmann::json;

constexpr std::uint64_t length_bytes = 8;
constexpr std::uint64_t most_header_bytes = 100'000'000; // the format's own limit

template <class... Arguments>
[[noreturn]] void fail(const std::string& file, fmt::format_string<Arguments...> what,
                       Arguments&&... arguments) {
  throw safetensors_error(
    fmt::format("{}: {}", file, fmt::format(what, std::forward<Arguments>(arguments)...)));
}

std::string make_header(const std::string& file, std::span<const named_tensor> tensors,
                        const safetensors_metadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  std::set<std::string_view> names{"__metadata__"};
  std::uint64_t offset = 0;
  for (const auto& each : tensors) {
    if (!names.insert(each.name).second)
      fail(file, "tensor {}: the name is taken", each.name);
    const auto end = offset + each.value.bytes();
    const auto extents = each.value.shape().extents();
    header[each.name] = {{"dtype", name(each.value.type())},
                         {"shape", std::vector<std::int64_t>(extents.begin(), extents.end())},
                         {"data_offsets", {offset, end}}};
    offset = end;
  }
  auto text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

// A tensor's description in the header, checked by itself.
safetensors_file::entry parse_entry(const std::string& file, const std::string& name,
                                    const json& described) {
  try {
    safetensors_file::entry made;
    made.name = name;
    made.type = dtype_from_name(described.at("dtype").get<std::string>());
    std::uint64_t bytes = size_bytes(made.type);
    for (const auto& extent : described.at("shape")) {
      if (!extent.is_number_unsigned())
        fail(file, "tensor {}: a shape of {}", name, described.at("shape").dump());
      const auto factor = extent.get<std::uint64_t>();
      if (factor != 0 && bytes > std::numeric_limits<std::int64_t>::max() / factor)
        fail(file, "tensor {}: a shape of {}", name, described.at("shape").dump());
      bytes *= factor;
    }
    made.shape = shape(described.at("shape").get<std::vector<std::int64_t>>());
    const auto& offsets = described.at("data_offsets");
    if (offsets.size() != 2 || !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
      fail(file, "tensor {}: data offsets {}", name, offsets.dump());
    made.begin = offsets[0].get<std::uint64_t>();
    made.end = offsets[1].get<std::uint64_t>();
    if (made.end < made.begin || made.end - made.begin != bytes)
      fail(file, "tensor {}: data offsets {} for {} bytes", name, offsets.dump(), bytes);
    return made;
  } catch (const json::exception& error) {
    fail(file, "tensor {}: {}", name, error.what());
  } catch (const std::invalid_argument& error) {
    fail(file, "tensor {}: {}", name, error.what());
  }
}

// Sorted by offset, the tensors must fill the data exactly.
void check_layout(const std::string& file, std::vector<safetensors_file::entry>& entries,
                  std::uint64_t data_bytes) {
  std::ranges::sort(entries, [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t offset = 0;
  for (const auto& each : entries) {
    if (each.end > data_bytes)
      fail(file, "tensor {}: its data ends at byte {} of {}: the file is cut short", each.name,
           each.end, data_bytes);
    if (each.begin != offset)
      fail(file, "tensor {}: its data begins at byte {}, not at {}", each.name, each.begin, offset);
    offset = each.end;
  }
  if (offset != data_bytes)
    fail(file, "{} bytes follow the last tensor", data_bytes - offset);
}

json parse_header(const std::string& file, const std::string& text) {
  auto header = json::parse(text, nullptr, false);
  if (!header.is_object())
    fail(file, "not a safetensors file: its header is no JSON object");
  return header;
}

} // namespace

void write_safetensors(std::ostream& to, const std::string& file,
                       std::span<const named_tensor> tensors,
                       const safetensors_metadata& metadata) {
  const auto header = make_header(file, tensors, metadata);
  const std::uint64_t length = header.size();
  to.write(reinterpret_cast<const char*>(&length), length_bytes);
  to.write(header.data(), static_cast<std::streamsize>(header.size()));
  for (const auto& each : tensors) {
    const auto bytes = each.value.bytes_span();
    to.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
    if (!to)
      fail(file, "tensor {}: cannot be written; is the disk full?", each.name);
  }
  to.flush();
  if (!to)
    fail(file, "cannot be written; is the disk full?");
}

void write_safetensors(const std::filesystem::path& file, std::span<const named_tensor> tensors,
                       const safetensors_metadata& metadata) {
  std::ofstream to(file, std::ios::binary | std::ios::trunc);
  if (!to)
    fail(file.string(), "cannot be created");
  write_safetensors(to, file.string(), tensors, metadata);
  to.close();
  if (!to)
    fail(file.string(), "cannot be written; is the disk full?");
}

safetensors_file::safetensors_file(std::filesystem::path file) : file_(std::move(file)) {
  const auto called = file_.string();
  std::ifstream from(file_, std::ios::binary | std::ios::ate);
  if (!from)
    fail(called, "cannot be opened");
  const auto size = static_cast<std::uint64_t>(std::max<std::streamoff>(0, from.tellg()));
  std::uint64_t length = 0;
  from.seekg(0);
  if (size < length_bytes || !from.read(reinterpret_cast<char*>(&length), length_bytes))
    fail(called, "not a safetensors file: {} bytes", size);
  if (length > most_header_bytes || length > size - length_bytes)
    fail(called, "not a safetensors file, or cut short: a header of {} bytes in a file of {}",
         length, size);
  std::string text(length, '\0');
  if (!from.read(text.data(), static_cast<std::streamsize>(length)))
    fail(called, "cannot be read");
  data_begin_ = length_bytes + length;
  const auto header = parse_header(called, text);
  for (const auto& [name, described] : header.items()) {
    if (name != "__metadata__") {
      entries_.push_back(parse_entry(called, name, described));
      continue;
    }
    try {
      metadata_ = described.get<safetensors_metadata>();
    } catch (const json::exception& error) {
      fail(called, "its metadata are no strings: {}", error.what());
    }
  }
  check_layout(called, entries_, size - data_begin_);
}

const safetensors_file::entry* safetensors_file::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(entries_, name, &entry::name);
  return found == entries_.end() ? nullptr : &*found;
}

const safetensors_file::entry& safetensors_file::get(std::string_view name) const {
  const auto* found = find(name);
  if (found == nullptr)
    fail(file_.string(), "has no tensor {}", name);
  return *found;
}

void safetensors_file::read_bytes(const entry& from, std::span<std::byte> to) const {
  std::ifstream file(file_, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(data_begin_ + from.begin));
  if (!file.read(reinterpret_cast<char*>(to.data()), static_cast<std::streamsize>(to.size())))
    fail(file_.string(), "tensor {}: cannot be read", from.name);
}

tensor safetensors_file::read(stream& on, std::string_view name) const {
  const auto& found = get(name);
  auto made = on.allocate(found.type, found.shape);
  read_bytes(found, made.bytes_span());
  return made;
}

void safetensors_file::read_into(tensor& to, std::string_view name) const {
  const auto& found = get(name);
  if (found.type != to.type() || found.shape != to.shape())
    fail(file_.string(), "tensor {}: {} of {}, expected {} of {}", name, to_string(found.shape),
         kernels::name(found.type), to_string(to.shape()), kernels::name(to.type()));
  read_bytes(found, to.bytes_span());
}

} // namespace sluice::kernels
