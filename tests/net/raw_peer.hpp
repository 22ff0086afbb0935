#pragma once

#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/handshake.hpp"
#include "net/tcp/address.hpp"

namespace sluice::net::test {

/// A TCP connection that says whatever a test wants.
class raw_peer {
public:
  explicit raw_peer(const std::string& to) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const auto parts = parse_address(to);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(parts.port);
    ::inet_pton(AF_INET, parts.host.c_str(), &at.sin_addr);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0)
      throw std::runtime_error(std::string("connect: ") + std::strerror(errno));
  }
  ~raw_peer() { ::close(socket_); }
  raw_peer(const raw_peer&) = delete;
  raw_peer& operator=(const raw_peer&) = delete;

  int handle() const noexcept { return socket_; }

  /// False when the other end has closed.
  bool write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0)
        return false;
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
    return true;
  }
  bool write(std::string_view text) { return write(std::as_bytes(std::span(text))); }

  /// What comes until the other end closes, or no more than `most` bytes.
  std::vector<std::byte> read(std::size_t most = 1 << 16) {
    std::vector<std::byte> got(most);
    std::size_t filled = 0;
    while (filled < most) {
      pollfd ready{socket_, POLLIN, 0};
      if (::poll(&ready, 1, 30'000) != 1)
        throw std::runtime_error("nothing came");
      const auto some = ::recv(socket_, got.data() + filled, most - filled, 0);
      if (some <= 0)
        break;
      filled += static_cast<std::size_t>(some);
    }
    got.resize(filled);
    return got;
  }

  /// The answer to a greeting.
  answer read_answer() {
    answer_decoder decoder;
    for (auto state = progress::more; state == progress::more;) {
      const auto to = decoder.wanted();
      const auto got = read(to.size());
      if (got.size() < to.size())
        throw std::runtime_error("closed without an answer");
      std::memcpy(to.data(), got.data(), got.size());
      state = decoder.advance(got.size());
      if (state == progress::refused)
        return decoder.refusal();
    }
    return decoder.result();
  }

private:
  int socket_;
};

} // namespace sluice::net::test
