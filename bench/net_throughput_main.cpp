// net_throughput [ROUNDS]

#include <cstdlib>
#include <exception>
#include <iostream>

#include "bench/net_throughput.hpp"

int main(int argc, char** argv) {
  try {
    sluice::bench::net_throughput(std::cout, argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 7);
    return EXIT_SUCCESS;
  } catch (const std::exception& problem) {
    std::cerr << "net_throughput: " << problem.what() << '\n';
    return EXIT_FAILURE;
  }
}
