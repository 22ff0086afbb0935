#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <sstream>
#include <string>

namespace {

/// What a program that ends badly says, and whether it did end badly.
struct outcome {
  std::string text;
  int status;
};

outcome run(const std::string& which) {
  auto* pipe = popen((std::string(SLUICE_FAULTY_PROGRAM) + " " + which + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  outcome result;
  std::array<char, 256> piece;
  while (const auto count = std::fread(piece.data(), 1, piece.size(), pipe))
    result.text.append(piece.data(), count);
  result.status = pclose(pipe);
  return result;
}

} // namespace

TEST_CASE("host code that reads device memory ends the program, and is named") {
  const auto result = run("host-reads-device");
  CHECK(result.status != 0);
  CHECK(result.text.find("host code touched the memory of device 0, which it may not")
        != std::string::npos);
}

TEST_CASE("a kernel that reaches another device ends the program, with block and thread named") {
  const auto result = run("kernel-reaches-other-device");
  CHECK(result.status != 0);
  CHECK(result.text.find("kernel out_of_bounds_kernel, block (0, 0, 0), thread (0, 0, 0) touched "
                         "the memory of device 1, which it may not")
        != std::string::npos);
}

TEST_CASE("a kernel that writes behind an allocation is caught, by AddressSanitizer at the place") {
  const auto result = run("kernel-writes-behind-allocation");
  CHECK(result.status != 0);
#ifdef __SANITIZE_ADDRESS__
  CHECK(result.text.find("AddressSanitizer: use-after-poison") != std::string::npos);
  CHECK(result.text.find("out_of_bounds_kernel") != std::string::npos);
#else
  CHECK(result.text.find("kernel out_of_bounds_kernel wrote to memory behind an allocation of 124 "
                         "bytes")
        != std::string::npos);
#endif
}

TEST_CASE("every line of the emulation says what it is") {
  const auto text = run("host-reads-device").text;
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    if (line != "Segmentation fault") // the shell's
      CHECK(line.starts_with("[emulated CUDA, no GPU] "));
  CHECK(count >= 2);
}
