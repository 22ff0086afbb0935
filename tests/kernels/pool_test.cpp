#include <thread>

#include "tests/kernels/fixtures.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

// Counts what it gives and takes back.
class counting_device final : public device {
public:
  std::string name() const override { return "counting"; }
  void* allocate(std::size_t bytes) override {
    ++allocations;
    held_bytes += bytes;
    return inner_->allocate(bytes);
  }
  void deallocate(void* memory, std::size_t bytes) noexcept override {
    held_bytes -= bytes;
    inner_->deallocate(memory, bytes);
  }

  std::size_t allocations = 0;
  std::size_t held_bytes = 0;

private:
  std::shared_ptr<device> inner_ = make_cpu_device();
};

constexpr auto f32 = dtype::float32;

} // namespace

TEST_CASE("a buffer that came back is handed out again") {
  buffer_pool pool(make_cpu_device());
  const float* first = nullptr;
  {
    auto one = pool.allocate(f32, {100});
    first = one.data<float>();
  }
  auto again = pool.allocate(f32, {10, 10});
  CHECK(again.data<float>() == first);
  CHECK(pool.usage().device_allocations == 1);
}

TEST_CASE("after the first round of a repeated pattern nothing is taken from the device") {
  const auto memory = std::make_shared<counting_device>();
  buffer_pool pool(memory);
  const auto round = [&] {
    std::vector<tensor> held;
    for (std::int64_t i = 1; i < 40; ++i) {
      held.push_back(pool.allocate(f32, {i, 37}));
      if (i % 3 == 0)
        held.erase(held.begin());
    }
  };
  round();
  const auto after_first = memory->allocations;
  for (int i = 0; i < 10; ++i)
    round();
  CHECK(memory->allocations == after_first);
  CHECK(pool.usage().live_total_bytes == 0);
}

TEST_CASE("a buffer is at most an eighth larger than asked, and aligned") {
  buffer_pool pool(make_cpu_device());
  for (std::int64_t elements : {16, 17, 63, 64, 65, 1000, 4097, 65537, 1048577}) {
    const auto before = pool.usage().live_total_bytes;
    auto made = pool.allocate(f32, {elements});
    const auto taken = pool.usage().live_total_bytes - before;
    CHECK(taken >= made.bytes());
    CHECK(static_cast<double>(taken) <= 1.125 * static_cast<double>(made.bytes()) + 8);
    CHECK(reinterpret_cast<std::uintptr_t>(made.data<float>()) % buffer_alignment_bytes == 0);
  }
}

TEST_CASE("a buffer counts under its use, once for all its handles") {
  buffer_pool pool(make_cpu_device());
  auto one = pool.allocate(f32, {1024});
  CHECK(pool.usage().live(buffer_use::scratch) == 4096);
  auto alias = one.reshaped({32, 32});
  alias.set_use(buffer_use::activation);
  CHECK(pool.usage().live(buffer_use::scratch) == 0);
  CHECK(pool.usage().live(buffer_use::activation) == 4096);
  CHECK_FALSE(one.unique());
  one = {};
  CHECK(alias.unique());
  CHECK(pool.usage().live(buffer_use::activation) == 4096);
  alias = {};
  CHECK(pool.usage().live_total_bytes == 0);
  CHECK(pool.usage().peak(buffer_use::activation) == 4096);
  pool.reset_peaks();
  CHECK(pool.usage().peak_total_bytes == 0);
}

TEST_CASE("a hand-off charges the receiver, and the memory returns to where it came from") {
  buffer_pool sender(make_cpu_device());
  buffer_pool receiver(make_cpu_device());
  auto handed = sender.allocate(f32, {1024});
  const float* address = handed.data<float>();
  handed.charge_to(receiver, buffer_use::transfer);
  CHECK(sender.usage().live_total_bytes == 0);
  CHECK(receiver.usage().live(buffer_use::transfer) == 4096);
  handed = {};
  CHECK(receiver.usage().live_total_bytes == 0);
  CHECK(receiver.usage().device_bytes == 0);
  CHECK(sender.allocate(f32, {1024}).data<float>() == address);
}

TEST_CASE("another library's memory is adopted without a copy and given back once") {
  const auto memory = std::make_shared<counting_device>();
  buffer_pool pool(memory, 4096);
  std::vector<float> theirs(3000, 1.5f); // more than the limit: it is not the pool's
  int given_back = 0;
  const auto owner = [&] { return std::shared_ptr<void>(nullptr, [&](void*) { ++given_back; }); };
  auto one = pool.adopt(f32, {30, 100}, theirs.data(), owner());
  CHECK(std::as_const(one).data<float>() == theirs.data());
  CHECK(one.where() == memory.get());
  CHECK(pool.usage().live(buffer_use::scratch) == 12000);
  CHECK(pool.usage().device_bytes == 0);
  CHECK(one.sole_handle());
  CHECK_FALSE(one.unique()); // whoever may write over it would write over theirs
  SUBCASE("with its last handle, on whatever thread that goes") {
    auto part = one.slice(3, 2);
    CHECK_FALSE(one.sole_handle());
    one = {};
    CHECK(given_back == 0);
    std::thread([last = std::move(part)] {}).join();
    CHECK(given_back == 1);
  }
  SUBCASE("not written over when it comes back") {
    pool.poison_released(true);
    one = {};
    CHECK(given_back == 1);
    CHECK(theirs.front() == 1.5f);
  }
  SUBCASE("after a hand-off, and the receiver pays") {
    buffer_pool receiver(memory);
    one.charge_to(receiver, buffer_use::transfer);
    CHECK(pool.usage().live_total_bytes == 0);
    CHECK(receiver.usage().live(buffer_use::transfer) == 12000);
    one = {};
    CHECK(given_back == 1);
    CHECK(receiver.usage().live_total_bytes == 0);
  }
  CHECK(pool.usage().live_total_bytes == 0);
  CHECK(pool.usage().peak(buffer_use::scratch) == 12000);
  for (int i = 0; i < 3; ++i) // what stands for it is used again, and never as the pool's own
    CHECK(pool.adopt(f32, {10}, theirs.data(), owner()).elements() == 10);
  CHECK(given_back == 4);
  CHECK(pool.allocate(f32, {10}).unique());
  CHECK(memory->held_bytes == pool.usage().device_bytes);
}

TEST_CASE("adopted memory outlives the pool and is given back then") {
  bool given_back = false;
  float theirs = 2;
  tensor survivor;
  {
    buffer_pool pool(make_cpu_device());
    survivor = pool.adopt(f32, {1}, &theirs,
                          std::shared_ptr<void>(nullptr, [&](void*) { given_back = true; }));
  }
  CHECK_FALSE(given_back);
  CHECK(std::as_const(survivor).data<float>()[0] == 2);
  survivor = {};
  CHECK(given_back);
}

TEST_CASE("tensors outlive their pool, and then their memory goes") {
  const auto memory = std::make_shared<counting_device>();
  tensor survivor;
  {
    buffer_pool pool(memory);
    survivor = pool.zeros(f32, {100});
    const auto other = pool.allocate(f32, {999});
  }
  CHECK(memory->held_bytes > 0);
  CHECK(survivor.data<float>()[99] == 0);
  survivor = {};
  CHECK(memory->held_bytes == 0);
}

TEST_CASE("a limit is kept, and the error says how much was asked and held") {
  buffer_pool pool(make_cpu_device(), 8192);
  const auto one = pool.allocate(f32, {1024});
  CHECK_THROWS_WITH_AS(pool.allocate(f32, {2048}),
                       "device cpu: 8192 bytes more would exceed the limit of 8192 bytes (4096 "
                       "taken, 4096 in use)",
                       out_of_memory);
  CHECK(pool.allocate(f32, {1024}));
}

TEST_CASE("what a task needs can be reserved for several in flight") {
  const auto memory = std::make_shared<counting_device>();
  buffer_pool pool(memory);
  const auto task = [&] {
    const auto dropped = pool.allocate(f32, {500});
    auto other = pool.allocate(f32, {500});
    other = {};
    return std::pair(pool.allocate(f32, {100}), pool.allocate(f32, {2000}));
  };
  pool.begin_task();
  auto first = task();
  const auto demand = pool.end_task();
  buffer_pool::task_demand several;
  several.add(demand, 3);
  pool.reserve(several);
  const auto reserved = memory->allocations;
  const auto second = task();
  const auto third = task();
  const auto fourth = task();
  CHECK(memory->allocations == reserved);
}

TEST_CASE("poison fills what comes back with NaN") {
  buffer_pool pool(make_cpu_device());
  pool.poison_released(true);
  pool.zeros(f32, {64});
  const auto again = pool.allocate(f32, {64});
  for (const auto value : again.span<float>())
    CHECK(std::isnan(value));
}

TEST_CASE("tensors released on other threads come back whole") {
  buffer_pool pool(make_cpu_device());
  for (int round = 0; round < 50; ++round) {
    std::vector<tensor> shared;
    for (std::int64_t i = 1; i <= 32; ++i)
      shared.push_back(pool.allocate(f32, {i * 16}));
    std::thread one([mine = shared]() mutable { mine.clear(); });
    std::thread two([mine = std::move(shared)]() mutable { mine.clear(); });
    one.join();
    two.join();
  }
  CHECK(pool.usage().live_total_bytes == 0);
  CHECK(pool.usage().device_allocations == 32);
}

TEST_CASE("a slice shares its buffer, and bounds are checked") {
  buffer_pool pool(make_cpu_device());
  auto whole = pool.zeros(f32, {4, 3});
  auto part = whole.slice(1, 2);
  part.data<float>()[0] = 5;
  CHECK(whole.data<float>()[3] == 5);
  CHECK(part.shape() == shape{2, 3});
  CHECK(part.shares_buffer_with(whole));
  CHECK_THROWS_AS(whole.slice(3, 2), std::out_of_range);
  CHECK_THROWS_WITH_AS(whole.reshaped({5}), "cannot reshape [4, 3] to [5]", std::invalid_argument);
  CHECK_THROWS_WITH_AS(whole.data<double>(), "a F32 tensor read as F64", std::logic_error);
  CHECK_THROWS_WITH_AS(tensor{}.data<float>(), "access to an absent tensor", std::logic_error);
}

TEST_CASE("at the limit, free buffers of other sizes go back to the device") {
  buffer_pool pool(make_cpu_device(), 8192);
  { const auto gone = pool.allocate(f32, {1024}); }
  { const auto gone = pool.allocate(f32, {512}); }
  const auto large = pool.allocate(f32, {2048});
  CHECK(pool.usage().device_bytes == 8192);
  CHECK_THROWS_AS(pool.allocate(f32, {16}), out_of_memory);
}
