#include "net/tcp/address.hpp"

#include <charconv>
#include <stdexcept>

#include <fmt/format.h>

namespace sluice::net {

address parse_address(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    return std::invalid_argument(
      fmt::format("address '{}': {}; expected host:port, [ip6]:port or unix:/path", text, why));
  };
  if (constexpr std::string_view scheme = "unix:"; text.starts_with(scheme)) {
    constexpr std::size_t longest = 107; // of sockaddr_un, without the final NUL
    const auto path = text.substr(scheme.size());
    if (path.empty() || path.size() > longest)
      throw refuse(fmt::format("a path of 1 to {} bytes is needed", longest));
    return {{}, 0, std::string(path)};
  }
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0)
    throw refuse("no host or no port");
  auto host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string_view::npos)
    throw refuse("an IPv6 address goes in brackets");
  const auto digits = text.substr(colon + 1);
  std::uint16_t port = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (problem != std::errc{} || end != digits.data() + digits.size() || host.empty())
    throw refuse("no port from 0 to 65535");
  return {std::string(host), port, {}};
}

std::string to_string(const address& of) {
  if (of.is_unix())
    return "unix:" + of.path;
  const bool v6 = of.host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", of.host, of.port) : fmt::format("{}:{}", of.host, of.port);
}

} // namespace sluice::net
