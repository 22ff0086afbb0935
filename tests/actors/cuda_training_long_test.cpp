// A hundred random orders of streams, lanes and transfers: the bits stay the same.

#include "tests/actors/cuda_training.hpp"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("training over NCCL gives the same bits for a hundred seeds of the emulation") {
  const emulation::test::session run;
  const auto expected = train({"1f1b", 1, 4}, placement::gpus);
  const shape_of_run both_ways{"dualpipe", 2, 4}; // adds the two halves of the micro-batches apart
  const auto expected_both_ways = train(both_ways, placement::gpus);
  const std::array shapes{shape_of_run{"1f1b", 2, 4}, shape_of_run{"interleaved", 2, 4},
                          shape_of_run{"zb-h1", 4, 4}, shape_of_run{"v-half", 2, 4},
                          shape_of_run{"gpipe", 4, 4}};
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    CAPTURE(seed);
    emulation::set_schedule(seed % 4 == 0 ? emulation::schedule::lazy : emulation::schedule::random,
                            seed);
    emulation::set_lane_order(emulation::lane_order::random, seed);
    emulation::set_device_model(seed % 2 == 0 ? emulation::device_model::one_resident
                                              : emulation::device_model::independent);
    emulation::set_send_model(seed % 3 == 0 ? emulation::send_model::eight_credits
                                            : emulation::send_model::rendezvous);
    const auto look_ahead = static_cast<int>(seed / 6 % 3); // every one with every shape
    const auto which = seed % 6;
    if (which == shapes.size())
      check_equal(train(both_ways, placement::gpus, channel::nccl, look_ahead), expected_both_ways);
    else
      check_equal(train(shapes[which], placement::gpus, channel::nccl, look_ahead), expected);
  }
  CHECK(emulation::violations() == 0);
  CHECK(emulation::first_deadlock().empty());
}
