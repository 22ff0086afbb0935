#include "net/frame.hpp"

#include <boost/crc.hpp>

#include "net/checksum.hpp"
#include "net/frame_layout.hpp"
#include "net/little_endian.hpp"
#include "tests/net/frames.hpp"

using namespace sluice::net;
using namespace sluice::net::test;

namespace {

constexpr edge to_one{payload::activation, 0, 1, 1};

struct receiver {
  explicit receiver(frame_limits limits = {}, edge of = to_one)
    : decoder(of, frame_reader::receiver, limits, &pool) {
    decoder.add_slots(1000);
  }

  std::string refusal_of(std::span<const std::byte> bytes) {
    return feed(decoder, bytes) == progress::refused ? decoder.reason() : "not refused";
  }

  buffer_pool pool{make_cpu_device()};
  frame_decoder decoder;
};

frame some_frame(buffer_pool& pool) {
  return {frame_kind::data, activation(0, 1, 3, 9), {counting(pool, 5), {}, counting(pool, 2)}, 0};
}

// With the checksums made right again, as a peer that means it would.
std::vector<std::byte> with(std::vector<std::byte> bytes, std::size_t at, std::uint64_t value,
                            std::size_t size) {
  using namespace frame_layout;
  std::memcpy(&bytes[at], &value, size);
  const std::span all(bytes);
  put_at(all, header_crc_at, crc32c(all.first(header_crc_at)));
  const auto table = all.subspan(header_bytes, 3 * description_bytes + 4);
  put_at(table, table.size() - 4, crc32c(table.first(table.size() - 4)));
  return bytes;
}

} // namespace

TEST_CASE("the checksum is CRC-32C, whatever the pieces") {
  const std::string_view text = "123456789";
  CHECK(crc32c(std::as_bytes(std::span(text))) == 0xE3069283); // RFC 3720's check value
  std::mt19937 random(1);
  std::vector<std::byte> bytes(10007);
  for (auto& each : bytes)
    each = static_cast<std::byte>(random());
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> reference;
  reference.process_bytes(bytes.data(), bytes.size());
  std::uint32_t sum = 0;
  for (std::span<const std::byte> rest(bytes); !rest.empty();) {
    const auto some = std::min<std::size_t>(rest.size(), random() % 50);
    sum = crc32c(rest.first(some), sum);
    rest = rest.subspan(some);
  }
  CHECK(sum == reference.checksum());
}

TEST_CASE("a frame comes out as it went in, however its bytes are cut") {
  bool checksum = false;
  SUBCASE("without a checksum") {}
  SUBCASE("with a checksum") {
    checksum = true;
  }
  buffer_pool pool(make_cpu_device());
  const auto tensors = all_kinds_of_tensors(pool);
  receiver at;
  std::mt19937 random(7);
  for (const std::size_t largest : {1, 2, 3, 50, 1000, 1 << 20}) {
    std::vector<std::byte> stream;
    for (std::int32_t i = 0; i < 3; ++i) {
      const auto one = encoded(
        {frame_kind::data, activation(0, 1, i, 5), i == 1 ? tensor_list{} : tensors, 0}, checksum);
      stream.insert(stream.end(), one.begin(), one.end());
    }
    std::span<const std::byte> rest(stream);
    for (std::int32_t i = 0; i < 3; ++i) {
      REQUIRE(feed(at.decoder, rest, [&] { return 1 + random() % largest; }) == progress::complete);
      const auto got = at.decoder.take();
      CHECK(got.what == activation(0, 1, i, 5));
      REQUIRE(got.tensors.size() == (i == 1 ? 0 : tensors.size()));
      for (std::size_t t = 0; t < got.tensors.size(); ++t)
        CHECK(same_bytes(got.tensors[t], tensors[t]));
    }
    CHECK(rest.empty());
    CHECK(at.decoder.between_frames());
  }
  CHECK(at.pool.usage().live_total_bytes == 0);
}

TEST_CASE("a large tensor with a checksum is encoded and decoded in pieces") {
  buffer_pool pool(make_cpu_device());
  const auto sent = counting(pool, 300'001);
  receiver at;
  auto bytes =
    encoded({frame_kind::data, activation(0, 1), {sent, sent.slice(5, 100'000)}, 0}, true);
  SUBCASE("whole") {
    REQUIRE(feed(at.decoder, bytes) == progress::complete);
    const auto got = at.decoder.take();
    CHECK(same_bytes(got.tensors[0], sent));
    CHECK(same_bytes(got.tensors[1], sent.slice(5, 100'000)));
    CHECK(at.pool.usage().live(buffer_use::transfer) > 0);
  }
  SUBCASE("damaged") {
    bytes[bytes.size() - 200'000] ^= std::byte{1};
    CHECK(at.refusal_of(bytes) == to_string(activation(0, 1)) + ": the checksum does not match");
  }
}

TEST_CASE("a tensor's bytes are written from where they lie and wanted where they stay") {
  buffer_pool pool(make_cpu_device());
  const auto sent = counting(pool, 1000);
  frame_encoder encoder;
  encoder.start({frame_kind::data, activation(0, 1), {sent}, 0}, false);
  REQUIRE(encoder.pending().size() == 2);
  CHECK(encoder.pending()[1].data() == sent.bytes_span().data());
  receiver at;
  REQUIRE(feed(at.decoder, encoder.pending()[0]) == progress::more);
  const auto* place = at.decoder.wanted().data();
  REQUIRE(at.decoder.wanted().size() == 4000);
  REQUIRE(feed(at.decoder, encoder.pending()[1]) == progress::complete);
  CHECK(at.decoder.take().tensors[0].bytes_span().data() == place);
}

TEST_CASE("grants and leaves pass the other way") {
  frame_decoder decoder(to_one, frame_reader::sender, {}, nullptr);
  REQUIRE(feed(decoder, encoded({frame_kind::grant, {}, {}, 3})) == progress::complete);
  CHECK(decoder.take().slots == 3);
  REQUIRE(feed(decoder, encoded({frame_kind::leave, {}, {}, 0})) == progress::complete);
  CHECK(decoder.take().kind == frame_kind::leave);
  buffer_pool pool(make_cpu_device());
  CHECK(feed(decoder, encoded(some_frame(pool))) == progress::refused);
  CHECK(receiver().refusal_of(encoded({frame_kind::grant, {}, {}, 3}))
        == "a grant that nobody can give");
}

TEST_CASE("a frame of another edge is refused by name") {
  buffer_pool pool(make_cpu_device());
  frame swapped = some_frame(pool);
  SUBCASE("kind") {
    swapped.what.payload = payload::gradient;
  }
  SUBCASE("sender") {
    swapped.what.from = 2;
  }
  SUBCASE("receiver") {
    swapped.what.to = 2;
  }
  SUBCASE("chunk") {
    swapped.what.chunk = 2;
  }
  const auto name = to_string(swapped.what);
  CHECK(receiver().refusal_of(encoded(std::move(swapped)))
        == name + " came where the activations for chunk 1, from rank 0 to rank 1 are expected");
}

TEST_CASE("states and twins of all parameters share an edge") {
  receiver at({}, {payload::state, 0, 1, every_chunk});
  for (std::int32_t i = 0; i < 3; ++i)
    CHECK(feed(at.decoder, encoded({frame_kind::data, {1, payload::state, 0, 1, i, 0}, {}, 0}))
          == progress::complete);
}

TEST_CASE("impossible frames are refused before anything is allocated") {
  using namespace frame_layout;
  buffer_pool pool(make_cpu_device());
  const auto good = encoded(some_frame(pool));
  const auto first = header_bytes;
  const auto name = to_string(activation(0, 1, 3, 9));
  receiver at({.tensors = 8, .bytes = 1 << 20});
  std::string said;
  std::string expected;
  SUBCASE("magic") {
    said = at.refusal_of(with(good, 0, 0, 4));
    expected = "no frame begins here";
  }
  SUBCASE("version") {
    said = at.refusal_of(with(good, version_at, 7, 2));
    expected = "a frame of protocol version 7, expected 1";
  }
  SUBCASE("kind") {
    said = at.refusal_of(with(good, kind_at, 9, 1));
    expected = "a frame of unknown kind 9 with flags 0";
  }
  SUBCASE("number of tensors") {
    said = at.refusal_of(with(good, tensors_at, 200, 1));
    expected = name + ": 200 tensors, 8 at most";
  }
  SUBCASE("type") {
    said = at.refusal_of(with(good, first + type_at, 6, 1));
    expected = name + ": an impossible tensor (present 1, type 6, rank 1)";
  }
  SUBCASE("rank") {
    said = at.refusal_of(with(good, first + rank_at, 7, 1));
    expected = name + ": an impossible tensor (present 1, type 0, rank 7)";
  }
  SUBCASE("an absent tensor with bytes") {
    said = at.refusal_of(with(good, first + description_bytes + bytes_at, 8, 8));
    expected = name + ": an impossible tensor (present 0, type 0, rank 0)";
  }
  SUBCASE("bytes that do not fit the shape") {
    said = at.refusal_of(with(good, first + bytes_at, 24, 8));
    expected = name + ": a tensor of 20 bytes announced as 24";
  }
  SUBCASE("a negative extent") {
    said = at.refusal_of(with(good, first + extents_at, ~std::uint64_t{0}, 8));
    expected = name + ": an extent of -1 in a frame of 1048576 bytes at most";
  }
  SUBCASE("extents whose product overflows beside a zero") {
    auto bytes = with(good, first + rank_at, 3, 1);
    bytes = with(bytes, first + extents_at, 1ULL << 62, 8);
    bytes = with(bytes, first + extents_at + 8, 1ULL << 62, 8);
    said = at.refusal_of(bytes);
    expected = name + ": an extent of 4611686018427387904 in a frame of 1048576 bytes at most";
  }
  SUBCASE("too many bytes in all") {
    auto bytes = good;
    for (const auto tensor : {0, 2}) {
      const auto at_tensor = first + static_cast<std::size_t>(tensor) * description_bytes;
      bytes = with(bytes, at_tensor + bytes_at, 600'000, 8);
      bytes = with(bytes, at_tensor + extents_at, 150'000, 8);
    }
    said = at.refusal_of(bytes);
    expected = name + ": 1200000 bytes and more, 1048576 at most";
  }
  SUBCASE("descriptions that were damaged on the way") {
    auto bytes = good;
    bytes[first + 20] ^= std::byte{1};
    said = at.refusal_of(bytes);
    expected = name + ": damaged descriptions";
  }
  CHECK(said == expected);
  CHECK(at.pool.usage().device_bytes == 0);
  CHECK(at.decoder.wanted().empty()); // Nothing more is taken from a refused stream.
  CHECK(at.decoder.advance(0) == progress::refused);
}

TEST_CASE("a frame without a receive slot is refused") {
  buffer_pool pool(make_cpu_device());
  frame_decoder decoder(to_one, frame_reader::receiver, {}, &pool);
  decoder.add_slots(1);
  const auto bytes = encoded(some_frame(pool));
  REQUIRE(feed(decoder, bytes) == progress::complete);
  decoder.take();
  CHECK(feed(decoder, bytes) == progress::refused);
  CHECK(decoder.reason() == to_string(activation(0, 1, 3, 9)) + " was sent without a receive slot");
}

TEST_CASE("a pool at its limit refuses the stream, and says so") {
  buffer_pool small(make_cpu_device(), 1000);
  buffer_pool pool(make_cpu_device());
  frame_decoder decoder(to_one, frame_reader::receiver, {}, &small);
  decoder.add_slots(1);
  const auto bytes =
    encoded({frame_kind::data, activation(0, 1), {counting(pool, 100), counting(pool, 1000)}, 0});
  CHECK(feed(decoder, bytes) == progress::refused);
  CHECK(decoder.reason().find("would exceed the limit of 1000 bytes") != std::string::npos);
  CHECK(small.usage().live_total_bytes == 0);
}

TEST_CASE("10,000 random, cut and flipped frames are refused or taken, in bounded memory") {
  std::mt19937_64 random(20);
  buffer_pool pool(make_cpu_device());
  const auto good = encoded(some_frame(pool), true);
  for (int round = 0; round < 10'000; ++round) {
    receiver at({.tensors = 8, .bytes = 1 << 16});
    auto bytes = good;
    switch (round % 4) {
    case 0: // noise
      bytes.resize(random() % 400);
      for (auto& each : bytes)
        each = static_cast<std::byte>(random());
      break;
    case 1:
      bytes.resize(random() % bytes.size());
      break;
    case 2:
      bytes[random() % bytes.size()] ^= static_cast<std::byte>(1U << random() % 8);
      break;
    case 3: // noise whose checksums are right
      bytes = with(bytes, random() % (good.size() - 8), random(), 1 + random() % 8);
      break;
    }
    std::span<const std::byte> rest(bytes);
    const auto end = feed(at.decoder, rest, [&] { return 1 + random() % 100; });
    CHECK(at.pool.usage().device_bytes <= std::size_t{9} << 13);
    CHECK((round % 4 == 3 || end != progress::complete)); // A flipped bit anywhere is noticed.
  }
}
