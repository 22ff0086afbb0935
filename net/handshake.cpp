#include "net/handshake.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>
#include <openssl/rand.h>

#include "net/checksum.hpp"
#include "net/little_endian.hpp"

namespace sluice::net {

namespace {

// The first byte is no text and the last two show a transfer that changes line ends.
constexpr std::array<unsigned char, 8> magic{0x89, 'S', 'L', 'U', 'I', 'C', '\r', '\n'};
constexpr std::size_t version_at = magic.size();
constexpr std::size_t text_bytes_at = 10;
constexpr std::size_t prefix_bytes = 12;
constexpr std::size_t code_at = 12; // payload kind or verdict

constexpr std::size_t hello_bytes = 48;
constexpr std::size_t token_at = 16;
constexpr std::size_t from_at = 32;
constexpr std::size_t to_at = 36;
constexpr std::size_t chunk_at = 40;

constexpr std::size_t answer_bytes = 24;
constexpr std::size_t slots_at = 16;

std::vector<std::byte> prefixed(std::size_t fixed_bytes, std::string_view text) {
  text = text.substr(0, max_handshake_text_bytes);
  std::vector<std::byte> to(fixed_bytes + text.size() + 4);
  put_at(std::span(to), 0, magic);
  put_at(std::span(to), version_at, protocol_version);
  put_at(std::span(to), text_bytes_at, static_cast<std::uint16_t>(text.size()));
  std::ranges::copy(std::as_bytes(std::span(text)), to.begin() + static_cast<long>(fixed_bytes));
  return to;
}

std::vector<std::byte> sealed(std::vector<std::byte> message) {
  const std::span all(message);
  put_at(all, all.size() - 4, crc32c(all.first(all.size() - 4)));
  return message;
}

} // namespace

run_token make_run_token() {
  run_token made;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(made.data()), static_cast<int>(made.size())) != 1)
    throw std::runtime_error("no randomness for a run token");
  return made;
}

std::vector<std::byte> encode(const hello& greeting) {
  auto to = prefixed(hello_bytes, greeting.layout);
  put_at(std::span(to), code_at, greeting.what.payload);
  put_at(std::span(to), token_at, greeting.token);
  put_at(std::span(to), from_at, greeting.what.from);
  put_at(std::span(to), to_at, greeting.what.to);
  put_at(std::span(to), chunk_at, greeting.what.chunk);
  return sealed(std::move(to));
}

std::vector<std::byte> encode(const answer& reply) {
  auto to = prefixed(answer_bytes, reply.text);
  put_at(std::span(to), code_at, reply.verdict);
  put_at(std::span(to), slots_at, reply.slots);
  return sealed(std::move(to));
}

handshake_decoder::handshake_decoder(std::size_t fixed_bytes, std::uint8_t last_code)
  : fixed_bytes_(fixed_bytes),
    last_code_(last_code),
    wanted_bytes_(fixed_bytes) {}

std::span<std::byte> handshake_decoder::wanted() noexcept {
  if (refused_)
    return {};
  return std::span(buffer_).subspan(filled_, wanted_bytes_ - filled_);
}

progress handshake_decoder::advance(std::size_t bytes) {
  if (refused_)
    return progress::refused;
  const auto had = std::exchange(filled_, filled_ + bytes);
  const std::span<const std::byte> got(buffer_.data(), filled_);
  if (const auto check = std::min(filled_, magic.size());
      !std::ranges::equal(got.first(check), std::as_bytes(std::span(magic)).first(check)))
    return refuse(verdict::another_protocol, "this is not Sluice's tensor protocol");
  if (filled_ < prefix_bytes)
    return progress::more;
  if (const auto version = get_at<std::uint16_t>(got, version_at); version != protocol_version)
    return refuse(verdict::another_version, fmt::format("protocol version {}, here is version {}",
                                                        version, protocol_version));
  const auto text_bytes = get_at<std::uint16_t>(got, text_bytes_at);
  if (text_bytes > max_handshake_text_bytes)
    return refuse(verdict::damaged, fmt::format("a greeting with a text of {} bytes", text_bytes));
  if (had < prefix_bytes)
    wanted_bytes_ = fixed_bytes_ + text_bytes + 4;
  if (filled_ < wanted_bytes_)
    return progress::more;
  if (get_at<std::uint32_t>(got, filled_ - 4) != crc32c(got.first(filled_ - 4)))
    return refuse(verdict::damaged, "a damaged greeting");
  if (const auto code = get_at<std::uint8_t>(got, code_at); code > last_code_)
    return refuse(verdict::damaged, fmt::format("a greeting with the unknown code {}", code));
  return progress::complete;
}

progress handshake_decoder::refuse(verdict why, std::string text) {
  refusal_ = {why, 0, std::move(text)};
  refused_ = true;
  return progress::refused;
}

std::string handshake_decoder::text() const {
  const auto bytes = std::span(buffer_).subspan(fixed_bytes_, filled_ - fixed_bytes_ - 4);
  std::string result(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  // It ends in messages and logs: no control characters from strangers.
  std::ranges::replace_if(
    result, [](char each) { return each >= 0 && each < ' '; }, '?');
  return result;
}

hello_decoder::hello_decoder()
  : handshake_decoder(hello_bytes, static_cast<std::uint8_t>(payload::state)) {}

hello hello_decoder::result() const {
  return {get_at<run_token>(fixed(), token_at),
          {get_at<payload>(fixed(), code_at), get_at<std::int32_t>(fixed(), from_at),
           get_at<std::int32_t>(fixed(), to_at), get_at<std::int32_t>(fixed(), chunk_at)},
          text()};
}

answer_decoder::answer_decoder()
  : handshake_decoder(answer_bytes, static_cast<std::uint8_t>(verdict::another_layout)) {}

answer answer_decoder::result() const {
  return {get_at<verdict>(fixed(), code_at), get_at<std::uint32_t>(fixed(), slots_at), text()};
}

} // namespace sluice::net
