#include "net/handshake.hpp"

#include "net/little_endian.hpp"
#include "tests/net/frames.hpp"

using namespace sluice::net;
using namespace sluice::net::test;

namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

} // namespace

TEST_CASE("a hello and its answer come out as they went in, byte by byte") {
  const hello greeting{make_run_token(), {payload::gradient, 3, 1, 7}, "F32[4, 8]"};
  hello_decoder server;
  auto text = encode(greeting);
  std::span<const std::byte> rest(text);
  REQUIRE(feed(server, rest, [] { return 1; }) == progress::complete);
  CHECK(rest.empty());
  const auto got = server.result();
  CHECK(got.token == greeting.token);
  CHECK(got.what == greeting.what);
  CHECK(got.layout == greeting.layout);

  answer_decoder client;
  text = encode(answer{verdict::another_layout, 5, "because"});
  rest = text;
  REQUIRE(feed(client, rest, [] { return 1; }) == progress::complete);
  CHECK(client.result().verdict == verdict::another_layout);
  CHECK(client.result().slots == 5);
  CHECK(client.result().text == "because");
}

TEST_CASE("no two runs have the same token") {
  CHECK(make_run_token() != make_run_token());
}

TEST_CASE("long texts are cut, and control characters of strangers do not get through") {
  answer_decoder client;
  REQUIRE(feed(client, encode(answer{verdict::damaged, 0, "a\n\x1b" + std::string(2000, 'x')}))
          == progress::complete);
  CHECK(client.result().text == "a??" + std::string(509, 'x'));
}

TEST_CASE("what is no greeting is refused at the first wrong byte") {
  hello_decoder server;
  auto bytes = encode(hello{});
  SUBCASE("another protocol, before a whole greeting has come") {
    CHECK(feed(server, bytes_of("GET /")) == progress::refused);
    CHECK(server.refusal().verdict == verdict::another_protocol);
  }
  SUBCASE("another version, before its own fields have come") {
    put_at<std::uint16_t>(bytes, 8, 9);
    bytes.resize(12);
    CHECK(feed(server, bytes) == progress::refused);
    CHECK(server.refusal().verdict == verdict::another_version);
    CHECK(server.refusal().text == "protocol version 9, here is version 1");
  }
  SUBCASE("a text longer than any") {
    put_at<std::uint16_t>(bytes, 10, 60000);
    CHECK(feed(server, bytes) == progress::refused);
    CHECK(server.refusal().verdict == verdict::damaged);
  }
  SUBCASE("a flipped bit") {
    bytes[20] ^= std::byte{4};
    CHECK(feed(server, bytes) == progress::refused);
    CHECK(server.refusal().verdict == verdict::damaged);
  }
  CHECK(server.wanted().empty());
}
