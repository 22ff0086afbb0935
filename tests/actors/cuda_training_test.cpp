// Training on emulated GPUs: the stages, plans and channels are the real ones, and so are the
// sources of the kernels. It shows order and arithmetic, not speed.

#include "tests/actors/cuda_training.hpp"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("training on emulated GPUs follows the processor's, and is itself the same, bit for bit, "
          "for every plan and emulated schedule") {
  const emulation::test::session run;
  const auto expected = train({"1f1b", 1, 4}, placement::processor);
  const auto one_gpu = train({"1f1b", 1, 4}, placement::gpus);
  check_close(one_gpu, expected);
  for (const auto& shape :
       {shape_of_run{"1f1b", 2, 4}, shape_of_run{"zb-h1", 2, 4}, shape_of_run{"1f1b", 4, 4}})
    for (const auto which :
         {emulation::schedule::eager, emulation::schedule::random, emulation::schedule::lazy}) {
      CAPTURE(shape.schedule);
      CAPTURE(shape.stages);
      CAPTURE(static_cast<int>(which));
      emulation::set_schedule(which, 11);
      check_equal(train(shape, placement::gpus), one_gpu);
    }
  CHECK(emulation::violations() == 0);
}

TEST_CASE("over NCCL's channels nothing changes, in any emulated schedule and device model") {
  const emulation::test::session run;
  const auto expected = train({"1f1b", 1, 4}, placement::gpus);
  std::uint64_t seed = 1;
  for (const auto& shape : {shape_of_run{"1f1b", 2, 4}, shape_of_run{"interleaved", 2, 4},
                            shape_of_run{"v-half", 2, 4}, shape_of_run{"zb-h1", 4, 4}})
    for (const auto model :
         {emulation::device_model::one_resident, emulation::device_model::independent})
      for (const auto which :
           {emulation::schedule::eager, emulation::schedule::random, emulation::schedule::lazy}) {
        CAPTURE(shape.schedule);
        CAPTURE(static_cast<int>(model));
        CAPTURE(static_cast<int>(which));
        emulation::set_device_model(model);
        emulation::set_schedule(which, seed++);
        check_equal(train(shape, placement::gpus, channel::nccl), expected);
      }
  CHECK(emulation::violations() == 0);
  CHECK(emulation::first_deadlock().empty());
}

TEST_CASE("DualPipe's two routes cross on every link, and NCCL carries both") {
  const emulation::test::session run;
  const auto expected = train({"dualpipe", 2, 4}, placement::gpus);
  for (const auto which : {emulation::schedule::random, emulation::schedule::lazy}) {
    emulation::set_schedule(which, 23);
    check_equal(train({"dualpipe", 2, 4}, placement::gpus, channel::nccl), expected);
  }
  CHECK(emulation::violations() == 0);
}

TEST_CASE("how many tasks a GPU is given ahead changes no bit") {
  const emulation::test::session run;
  const auto expected = train({"1f1b", 1, 4}, placement::gpus);
  std::uint64_t seed = 31;
  for (const int ahead : {0, 1, 2})
    for (const auto& shape :
         {shape_of_run{"1f1b", 4, 4}, shape_of_run{"zb-h1", 2, 4}, shape_of_run{"v-half", 2, 4}})
      for (const auto which : {emulation::schedule::random, emulation::schedule::lazy}) {
        CAPTURE(ahead);
        CAPTURE(shape.schedule);
        CAPTURE(static_cast<int>(which));
        emulation::set_schedule(which, seed++);
        check_equal(train(shape, placement::gpus, channel::nccl, ahead), expected);
      }
  CHECK(emulation::violations() == 0);
  CHECK(emulation::first_deadlock().empty());
}

TEST_CASE("training in bfloat16 on emulated GPUs gives the same bits for every plan and emulated "
          "schedule, over NCCL too, and follows the processor's") {
  const emulation::test::session run;
  const auto brief = [](const char* schedule, int stages) {
    return shape_of_run{schedule, stages, 4, dtype::bfloat16};
  };
  const auto one_gpu = train(brief("1f1b", 1), placement::gpus);
  check_close(one_gpu, train(brief("1f1b", 1), placement::processor), bfloat16_rounding);
  std::uint64_t seed = 41;
  for (const auto& shape : {brief("1f1b", 2), brief("zb-h1", 4), brief("v-half", 2)})
    for (const auto which :
         {emulation::schedule::eager, emulation::schedule::random, emulation::schedule::lazy}) {
      CAPTURE(shape.schedule);
      CAPTURE(static_cast<int>(which));
      emulation::set_schedule(which, seed++);
      check_equal(train(shape, placement::gpus), one_gpu);
      check_equal(train(shape, placement::gpus, channel::nccl), one_gpu);
    }
  const auto mixed = train(brief("1f1b", 4), placement::mixed);
  check_close(mixed, one_gpu, bfloat16_rounding);
  check_equal(train(brief("gpipe", 4), placement::mixed), mixed);
  CHECK(emulation::violations() == 0);
  CHECK(emulation::first_deadlock().empty());
}

TEST_CASE("stages on GPUs and on the processor train together") {
  const emulation::test::session run(emulation::schedule::random, 5);
  const auto expected = train({"1f1b", 1, 4}, placement::processor);
  const auto mixed = train({"1f1b", 4, 4}, placement::mixed);
  check_close(mixed, expected);
  check_equal(train({"gpipe", 4, 4}, placement::mixed), mixed);
  check_equal(train({"1f1b", 4, 4}, placement::mixed, channel::nccl), mixed);
  CHECK(emulation::violations() == 0);
}

TEST_CASE("after the first step no stage allocates on its GPU") {
  const emulation::test::session run;
  actors::pipeline line(options_for({"1f1b", 2, 4}, placement::gpus, channel::nccl));
  tests::token_batches batches(vocabulary, length);
  const std::vector<std::int64_t> samples(4, 2);
  line.train(batches.make(1, samples));
  const auto before = emulation::device_allocations();
  for (std::uint64_t step = 2; step < 5; ++step)
    line.train(batches.make(step, samples));
  CHECK(emulation::device_allocations() == before);
}

TEST_CASE("a state goes from GPUs to the processor and on from there") {
  const emulation::test::session run;
  const auto line_on = [](placement where) {
    return actors::pipeline(options_for({"1f1b", 2, 2}, where));
  };
  tests::token_batches batches(vocabulary, length);
  const std::vector<std::int64_t> samples(2, 2);
  auto gpus = line_on(placement::gpus);
  gpus.train(batches.make(1, samples));
  const auto state = gpus.state();
  auto processor = line_on(placement::processor);
  processor.install(state);
  CHECK(stress::bytes_of(*processor.state()) == stress::bytes_of(*state));
  auto again = line_on(placement::gpus);
  again.install(processor.state());
  CHECK(again.train(batches.make(2, samples)).loss == gpus.train(batches.make(2, samples)).loss);
}
