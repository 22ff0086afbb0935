#include "bench/iperf3.hpp"

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
#include <fmt/format.h>
#include <nlohmann/json.hpp>

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

} // namespace

iperf3::iperf3() : path_(find_program("iperf3")) {}

double iperf3::bytes_per_second(std::size_t block_bytes, std::size_t volume_bytes) const {
  const auto port = free_port();
  bp::ipstream heard;
  bp::child server(bp::exe = path_, bp::std_out > heard, bp::std_in < bp::null,
                   bp::args = strings{"--server", "--one-off", "--bind", "127.0.0.1", "--port",
                                      port, "--forceflush"});
  for (std::string line; line.find("listening") == std::string::npos;)
    if (!std::getline(heard, line))
      throw std::runtime_error("iperf3: its server did not start");
  bp::ipstream said;
  bp::child client(bp::exe = path_, bp::std_out > said, bp::std_in < bp::null,
                   bp::args =
                     strings{"--client", "127.0.0.1", "--port", port, "--json", "--length",
                             std::to_string(block_bytes), "--bytes", std::to_string(volume_bytes)});
  const auto report = nlohmann::json::parse(said, nullptr, false);
  client.wait();
  if (report.is_discarded() || report.contains("error")) {
    server.terminate();
    throw std::runtime_error(fmt::format(
      "iperf3: {}", report.is_discarded() ? "no report" : report["error"].get<std::string>()));
  }
  for (std::string rest; std::getline(heard, rest);) // Until it has ended: a full pipe stops it.
    ;
  server.wait();
  return report.at("end").at("sum_received").at("bits_per_second").get<double>() / 8;
}

} // namespace sluice::bench
