#include "net/probe.hpp"

#include <algorithm>
#include <stdexcept>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>
#include <fmt/format.h>

#include "net/tcp/tls.hpp"
#include "net/tcp/wire.hpp"

namespace sluice::net {

namespace asio = boost::asio;

std::string probe(const address& to, std::chrono::milliseconds deadline) {
  asio::io_context io;
  error_code problem;
  asio::ip::tcp::resolver resolver(io);
  const auto found = resolver.resolve(to.host, std::to_string(to.port), problem);
  if (problem)
    return fmt::format("{}: {}", to.host, reason_of(problem));
  asio::ip::tcp::socket socket(io);
  std::string why = fmt::format("no answer within {} ms", deadline.count());
  asio::async_connect(socket, found, [&](const error_code& ended, const auto&) {
    why = ended ? reason_of(ended) : std::string{};
  });
  io.run_for(deadline);
  return why;
}

std::string local_host_towards(const address& to) {
  asio::io_context io;
  asio::ip::udp::resolver resolver(io);
  asio::ip::udp::socket socket(io);
  try {
    asio::connect(socket, resolver.resolve(to.host, std::to_string(to.port)));
    return socket.local_endpoint().address().to_string();
  } catch (const boost::system::system_error& problem) {
    throw std::runtime_error(fmt::format("{}: {}", to.host, reason_of(problem.code())));
  }
}

bool is_this_host_only(const address& at) {
  if (at.is_unix())
    return true;
  asio::io_context io;
  error_code problem;
  const auto found = asio::ip::tcp::resolver(io).resolve(at.host, std::to_string(at.port), problem);
  if (problem)
    throw std::runtime_error(fmt::format("{}: {}", at.host, reason_of(problem)));
  return std::ranges::all_of(
    found, [](const auto& each) { return each.endpoint().address().is_loopback(); });
}

void check_tls_files(const tls_files& files) {
  make_tls_context(files);
}

} // namespace sluice::net
