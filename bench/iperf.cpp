#include "bench/iperf.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/process/args.hpp>
#include <boost/process/child.hpp>
#include <boost/process/exe.hpp>
#include <boost/process/io.hpp>
#include <boost/process/pipe.hpp>

#include "bench/programs.hpp"

namespace sluice::bench {

namespace bp = boost::process;
using strings = std::vector<std::string>;

namespace {

std::string free_port() {
  using boost::asio::ip::tcp;
  boost::asio::io_context io;
  const tcp::acceptor probe(io, {boost::asio::ip::address_v4::loopback(), 0});
  return std::to_string(probe.local_endpoint().port());
}

/// The last field of the report as comma-separated values: bits per second.
double rate_of(const std::string& report) {
  try {
    return std::stod(report.substr(report.rfind(',') + 1));
  } catch (const std::logic_error&) {
    throw std::runtime_error("iperf: no rate in its report \"" + report + '"');
  }
}

/// iperf under coreutils' timeout: Boost's own wait_for() misses an end where there are threads.
bp::child start(const std::string& path, strings arguments, bp::ipstream& output) {
  strings words{"60", path};
  std::ranges::move(arguments, std::back_inserter(words));
  return bp::child(bp::exe = find_program("timeout"), bp::args = words,
                   (bp::std_out & bp::std_err) > output, bp::std_in < bp::null);
}

} // namespace

iperf::iperf() : path_(find_program("iperf")) {}

double iperf::bytes_per_second(std::size_t block_bytes, std::size_t volume_bytes) const {
  const auto port = free_port();
  const auto block = std::to_string(block_bytes);
  bp::ipstream heard;
  auto server = start(
    path_, {"--server", "--parallel", "1", "--bind", "127.0.0.1", "--port", port, "--len", block},
    heard);
  for (std::string line; line.find("listening") == std::string::npos;)
    if (!std::getline(heard, line))
      throw std::runtime_error("iperf: its server did not start");
  bp::ipstream said;
  auto client = start(path_,
                      {"--client", "127.0.0.1", "--port", port, "--reportstyle", "C", "--len",
                       block, "--num", std::to_string(volume_bytes)},
                      said);
  std::string report;
  std::getline(said, report);
  client.wait();
  if (client.exit_code() != 0) {
    server.terminate();
    throw std::runtime_error("iperf failed or took more than a minute: " + report);
  }
  for (std::string rest; std::getline(heard, rest);) // Until it has ended: a full pipe stops it.
    ;
  server.wait();
  return rate_of(report) / 8;
}

} // namespace sluice::bench
