#include <filesystem>
#include <fstream>
#include <iterator>

#include <unistd.h>

#include "kernels/digest.hpp"
#include "kernels/safetensors.hpp"
#include "tests/kernels/fixtures.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

// A file of this test alone, removed with it.
class scratch_file {
public:
  scratch_file()
    : path_(std::filesystem::temp_directory_path()
            / ("sluice-" + std::to_string(getpid()) + ".safetensors")) {}
  ~scratch_file() { std::filesystem::remove(path_); }
  scratch_file(const scratch_file&) = delete;
  scratch_file& operator=(const scratch_file&) = delete;

  const std::filesystem::path& path() const { return path_; }

  std::string bytes() const {
    std::ifstream from(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(from), {}};
  }

  void write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }

  // A file of this header and so many bytes of data.
  void write(const std::string& header, std::size_t data_bytes) const {
    const std::uint64_t length = header.size();
    std::string bytes(reinterpret_cast<const char*>(&length), 8);
    write(bytes + header + std::string(data_bytes, '\1'));
  }

private:
  std::filesystem::path path_;
};

std::string error_of(const scratch_file& file) {
  try {
    safetensors_file opened(file.path());
  } catch (const safetensors_error& error) {
    const std::string what = error.what();
    CHECK(what.starts_with(file.path().string() + ": "));
    return what.substr(file.path().string().size() + 2);
  }
  return "no error";
}

} // namespace

TEST_CASE("tensors and metadata come back from a safetensors file as they went") {
  auto on = make_stream();
  const scratch_file file;
  const std::vector<named_tensor> tensors{{"z", random_tensor(on, dtype::float32, {3, 5}, 1)},
                                          {"a", random_tensor(on, dtype::float64, {7}, 2)},
                                          {"ids", random_ids(on, {2, 2, 2}, 3, 100)},
                                          {"scalar", random_tensor(on, dtype::float64, {}, 4)},
                                          {"empty", on.zeros(dtype::float32, {0, 4})}};
  write_safetensors(file.path(), tensors, {{"step", "7"}, {"sluice", "\"quoted\""}});
  const safetensors_file opened(file.path());
  CHECK(opened.metadata() == safetensors_metadata{{"step", "7"}, {"sluice", "\"quoted\""}});
  CHECK(opened.entries().size() == 5);
  for (const auto& each : tensors) {
    CHECK(same_bits(opened.read(on, each.name), each.value));
    auto into = on.zeros(each.value.type(), each.value.shape());
    opened.read_into(into, each.name);
    CHECK(same_bits(into, each.value));
  }
  CHECK_FALSE(opened.contains("b"));
  CHECK_THROWS_WITH_AS(opened.read(on, "b"), (file.path().string() + ": has no tensor b").c_str(),
                       safetensors_error);
  auto other = on.zeros(dtype::float32, {5, 3});
  CHECK_THROWS_WITH_AS(
    opened.read_into(other, "z"),
    (file.path().string() + ": tensor z: [3, 5] of F32, expected [5, 3] of F32").c_str(),
    safetensors_error);
  // What others rely on: the data begin at a multiple of 8.
  CHECK(static_cast<unsigned char>(file.bytes()[0]) % 8 == 0);
}

TEST_CASE("a damaged safetensors file is refused with its name and what is wrong") {
  const scratch_file file;
  const std::string f32 = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":)";
  SUBCASE("missing") {
    CHECK(error_of(file) == "cannot be opened");
  }
  SUBCASE("empty") {
    file.write("");
    CHECK(error_of(file) == "not a safetensors file: 0 bytes");
  }
  SUBCASE("text") {
    file.write("Once upon a time there was");
    CHECK(error_of(file).starts_with("not a safetensors file, or cut short: a header of "));
  }
  SUBCASE("no JSON") {
    file.write("{\"a\": ", 0);
    CHECK(error_of(file) == "not a safetensors file: its header is no JSON object");
  }
  SUBCASE("a list") {
    file.write("[1, 2]", 0);
    CHECK(error_of(file) == "not a safetensors file: its header is no JSON object");
  }
  SUBCASE("data cut short") {
    file.write(f32 + "[0,8]}}", 7);
    CHECK(error_of(file) == "tensor a: its data ends at byte 8 of 7: the file is cut short");
  }
  SUBCASE("more data than tensors") {
    file.write(f32 + "[0,8]}}", 9);
    CHECK(error_of(file) == "1 bytes follow the last tensor");
  }
  SUBCASE("offsets that are not the shape's") {
    file.write(f32 + "[0,12]}}", 12);
    CHECK(error_of(file) == "tensor a: data offsets [0,12] for 8 bytes");
  }
  SUBCASE("a gap") {
    file.write(f32 + "[4,12]}}", 12);
    CHECK(error_of(file) == "tensor a: its data begins at byte 4, not at 0");
  }
  SUBCASE("an overlap") {
    file.write(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
               R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
               12);
    CHECK(error_of(file) == "tensor b: its data begins at byte 4, not at 8");
  }
  SUBCASE("a type that is not ours") {
    file.write(R"({"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})", 4);
    CHECK(error_of(file).starts_with("tensor a: unknown element type 'F16'"));
  }
  SUBCASE("a negative extent") {
    file.write(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8);
    CHECK(error_of(file) == "tensor a: a shape of [-2]");
  }
  SUBCASE("a shape that overflows") {
    file.write(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,0]}})",
               0);
    CHECK(error_of(file) == "tensor a: a shape of [4294967296,4294967296,4]");
  }
  SUBCASE("a missing key") {
    file.write(R"({"a":{"dtype":"F32","shape":[2]}})", 8);
    CHECK(error_of(file).find("data_offsets") != std::string::npos);
  }
  SUBCASE("metadata that are no strings") {
    file.write(R"({"__metadata__":{"step":7}})", 0);
    CHECK(error_of(file).starts_with("its metadata are no strings"));
  }
}

TEST_CASE("a full disk, a folder that is not there and a name used twice are errors") {
  auto on = make_stream();
  const std::vector<named_tensor> tensors{{"a", random_tensor(on, dtype::float32, {100000}, 1)}};
  CHECK_THROWS_WITH_AS(write_safetensors("/dev/full", tensors),
                       "/dev/full: tensor a: cannot be written; is the disk full?",
                       safetensors_error);
  const std::vector<named_tensor> small{{"a", random_tensor(on, dtype::float32, {1}, 1)}};
  CHECK_THROWS_AS(write_safetensors("/dev/full", small), safetensors_error);
  CHECK_THROWS_WITH_AS(write_safetensors("/nowhere/at/all", small),
                       "/nowhere/at/all: cannot be created", safetensors_error);
  const scratch_file file;
  const std::vector<named_tensor> twice{small[0], small[0]};
  CHECK_THROWS_AS(write_safetensors(file.path(), twice), safetensors_error);
}

TEST_CASE("the digest is the SHA-256 of names, types, shapes and bytes in order of names") {
  auto on = make_stream();
  auto b = on.allocate(dtype::float32, {2});
  b.data<float>()[0] = 1;
  b.data<float>()[1] = -2;
  auto a = on.allocate(dtype::int32, {1, 2});
  a.data<std::int32_t>()[0] = 3;
  a.data<std::int32_t>()[1] = -1;
  // printf 'a.w\0I32\0001,2\0\3\0\0\0\377\377\377\377b\0F32\0002\0\0\0\200\77\0\0\0\300' |
  // sha256sum
  const std::string expected = "7223ad682b6fadc31281d8f130d25d4d68c6f7874d9338b3a3f1572acc2ae406";
  const std::vector<named_tensor> tensors{{"b", b}, {"a.w", a}};
  CHECK(weights_sha256(tensors) == expected);
  // Of a tied weight the first counts.
  const std::vector<named_tensor> tied{{"b", b}, {"a.w", a}, {"b", a}};
  CHECK(weights_sha256(tied) == expected);
  b.data<float>()[1] = 2;
  CHECK(weights_sha256(tensors) != expected);
}
