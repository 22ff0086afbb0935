#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "net/edge.hpp"
#include "net/frame.hpp"

namespace sluice::net {

// How the two ends of a stream greet each other: the sender of the edge connects and says hello,
// the receiver answers. The first twelve bytes stay the same in every version of the protocol.
//
//   both: 0 magic, 8 bytes; 8 u16 version; 10 u16 bytes of text
//   hello, 48 bytes: 12 u8 payload kind, 3 of zero; 16 run token, 16 bytes; 32 i32 from, to,
//     chunk; 44 u32 zero; then the text, the sender's layout; then u32 CRC-32C of all before
//   answer, 24 bytes: 12 u8 verdict, 3 of zero; 16 u32 slots; 20 u32 zero; then the text, what
//     was refused and why; then u32 CRC-32C of all before

/// Tells one attempt at a run from every other. It keeps strays out, not enemies: it passes in
/// the clear unless TLS is on.
using run_token = std::array<std::byte, 16>;

/// A token that nobody else has. Errors: std::runtime_error when there is no randomness.
run_token make_run_token();

struct hello {
  run_token token{};
  edge what;
  /// What the sender will send, or the receiver expects: any text; compared where both have one.
  std::string layout;
};

enum class verdict : std::uint8_t {
  welcome,
  another_protocol,
  another_version,
  damaged,
  another_run, ///< the only one after which asking again makes sense
  unknown_edge,
  already_connected,
  another_layout,
};

struct answer {
  net::verdict verdict = verdict::welcome;
  std::uint32_t slots = 0;
  std::string text;
};

/// Longer texts are cut.
inline constexpr std::size_t max_handshake_text_bytes = 512;

std::vector<std::byte> encode(const hello& greeting);
std::vector<std::byte> encode(const answer& reply);

/// Takes in one greeting, cut anywhere: read into wanted(), then advance(). What is none is
/// refused at the first wrong byte. Bounded memory.
/// Thread: one at a time. Errors: none thrown.
class handshake_decoder {
public:
  std::span<std::byte> wanted() noexcept;
  progress advance(std::size_t bytes);

  /// Of a refused one.
  const answer& refusal() const noexcept { return refusal_; }

protected:
  /// last_code: the largest payload kind or verdict that there is.
  handshake_decoder(std::size_t fixed_bytes, std::uint8_t last_code);
  std::span<const std::byte> fixed() const { return std::span(buffer_).first(fixed_bytes_); }
  std::string text() const;

private:
  progress refuse(verdict why, std::string text);

  static constexpr std::size_t max_fixed_bytes = 48;

  std::size_t fixed_bytes_;
  std::uint8_t last_code_;
  std::size_t wanted_bytes_;
  std::size_t filled_ = 0;
  bool refused_ = false;
  std::array<std::byte, max_fixed_bytes + max_handshake_text_bytes + 4> buffer_{};
  answer refusal_;
};

class hello_decoder : public handshake_decoder {
public:
  hello_decoder();
  hello result() const;
};

class answer_decoder : public handshake_decoder {
public:
  answer_decoder();
  answer result() const;
};

} // namespace sluice::net
