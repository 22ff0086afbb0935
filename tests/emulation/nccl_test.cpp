#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <thread>

#include "tests/emulation/ranks.hpp"
#include "tests/emulation/sample_kernels.hpp"

using namespace sluice::emulation;
using namespace sluice::emulation::test;

namespace {

/// Two ranks that both send first and then receive: fine or a deadlock, by how they do it.
struct exchange {
  bool warm = true;
  bool two_streams = false;
  bool two_communicators = false;
  bool group = false;
  bool ordered = false; ///< rank 1 receives first

  /// Whether both got the other's buffer. False after a deadlock.
  bool run() const {
    const auto id = new_id();
    const auto other_id = new_id();
    std::array<bool, 2> fine{};
    run_two([&](rank& me) {
      const auto forth = me.join(id);
      const auto back = two_communicators ? me.join(other_id) : forth;
      if (warm)
        me.warm_up(forth);
      if (warm && two_communicators)
        me.warm_up(back);
      fine[static_cast<std::size_t>(me.number)] = transfer(me, forth, back);
      for (auto* each : {forth, back})
        if (each == forth || two_communicators)
          must(ncclCommAbort(each));
    });
    return fine[0] && fine[1];
  }

  bool transfer(const rank& me, ncclComm_t forth, ncclComm_t back) const {
    // The first communicator carries what rank 0 sends, the second what rank 1 sends.
    auto* const sending = me.number == 0 ? forth : back;
    auto* const receiving = me.number == 0 ? back : forth;
    const auto send = [&] {
      return ncclSend(me.buffer(0), 64, ncclFloat32, me.other(), sending, me.first);
    };
    const auto receive = [&] {
      return ncclRecv(me.buffer(1), 64, ncclFloat32, me.other(), receiving,
                      two_streams ? me.second : me.first);
    };
    if (group)
      ncclGroupStart();
    const bool posted = ordered && me.number == 1
                        ? receive() == ncclSuccess && send() == ncclSuccess
                        : send() == ncclSuccess && receive() == ncclSuccess;
    if (group && ncclGroupEnd() != ncclSuccess)
      return false;
    if (!posted || me.first.synchronize() != cudaSuccess || me.second.synchronize() != cudaSuccess)
      return false;
    return me.buffers[1]->read(me.first)[63] == static_cast<float>(me.other());
  }
};

} // namespace

TEST_CASE("two ranks that both send first: what NCCL allows and what it does not") {
  const session run;
  device_model model = device_model::independent;
  exchange how;
  bool deadlock = false;
  SUBCASE("one communicator and one stream: a cycle") {
    deadlock = true;
  }
  SUBCASE("one communicator, a stream per direction: a cycle, it is one queue") {
    how.two_streams = deadlock = true;
  }
  SUBCASE("a communicator per direction on one stream: a cycle, the stream is one queue") {
    how.two_communicators = deadlock = true;
  }
  SUBCASE("a communicator and a stream per direction: fine") {
    how.two_communicators = how.two_streams = true;
  }
  SUBCASE("a communicator and a stream per direction where one is resident: a cycle") {
    how.two_communicators = how.two_streams = deadlock = true;
    model = device_model::one_resident;
  }
  SUBCASE("in one group: fine") {
    how.group = true;
  }
  SUBCASE("in one group where one is resident: fine") {
    how.group = true;
    model = device_model::one_resident;
  }
  SUBCASE("in an agreed order: fine") {
    how.ordered = true;
  }
  SUBCASE("in an agreed order where one is resident: fine") {
    how.ordered = true;
    model = device_model::one_resident;
  }
  set_device_model(model);
  CHECK(how.run() == !deadlock);
  CHECK((first_deadlock().find("a cycle of waits") != std::string::npos) == deadlock);
  if (deadlock)
    CHECK(first_deadlock().find("the send to rank 1 by rank 0 of 256 bytes") != std::string::npos);
}

TEST_CASE("without warm-up the host itself waits in the first use") {
  const session run;
  exchange how;
  how.warm = false;
  CHECK_FALSE(how.run());
  CHECK(
    first_deadlock().find("the first use of a connection by rank 0, which waits for the host of "
                          "rank 1")
    != std::string::npos);
}

TEST_CASE("eight credits let two sends pass each other, which a rendezvous does not") {
  const session run;
  set_send_model(send_model::eight_credits);
  CHECK(exchange{}.run());
}

TEST_CASE("a wrong byte count names both ends") {
  const session run;
  const auto id = new_id();
  run_two([&](rank& me) {
    const auto on = me.join(id);
    me.warm_up(on);
    if (me.number == 0)
      must(ncclSend(me.buffer(0), 64, ncclFloat32, 1, on, me.first));
    else
      must(ncclRecv(me.buffer(1), 32, ncclFloat32, 0, on, me.first));
    test::must(me.first.synchronize());
    must(ncclCommAbort(on));
  });
  CHECK(violations() == 1);
  const auto said = last_violation();
  CHECK(said.find("the send to rank 1 by rank 0 of 256 bytes") != std::string::npos);
  CHECK(said.find("the receive from rank 0 by rank 1 of 128 bytes") != std::string::npos);
}

TEST_CASE("a consumer that does not wait for its receive does not read what was sent") {
  const session run(schedule::lazy);
  const auto id = new_id();
  std::atomic<bool> read = false;
  run_two([&](rank& me) {
    const auto on = me.join(id);
    me.warm_up(on);
    if (me.number == 0) {
      while (!read)
        std::this_thread::yield();
      must(ncclSend(me.buffer(0), 64, ncclFloat32, 1, on, me.first));
    } else {
      must(ncclRecv(me.buffer(1), 64, ncclFloat32, 0, on, me.first));
      test::must(scale(me.buffer(2), me.buffer(1), 64, me.second));
      CHECK_FALSE(me.buffers[2]->read(me.second)[0] == 1); // which is 2 x 0 + 1
      read = true;
    }
    test::must(me.first.synchronize());
    must(ncclCommAbort(on));
  });
}

TEST_CASE("a send buffer that is used again too early is noticed") {
  const session run;
  const auto id = new_id();
  std::atomic<bool> written = false;
  run_two([&](rank& me) {
    const auto on = me.join(id);
    me.warm_up(on);
    if (me.number == 0) {
      must(ncclSend(me.buffer(0), 64, ncclFloat32, 1, on, me.first));
      test::must(scale(me.buffer(0), me.buffer(1), 64, me.second));
      test::must(me.second.synchronize());
      written = true;
    } else {
      while (!written)
        std::this_thread::yield();
      must(ncclRecv(me.buffer(1), 64, ncclFloat32, 0, on, me.first));
    }
    test::must(me.first.synchronize());
    must(ncclCommAbort(on));
  });
  CHECK(violations() == 1);
  CHECK(last_violation().find("a send buffer changed before the send was done: the send to rank 1")
        == 0);
}

TEST_CASE("a non-blocking communicator takes no other call before it is done") {
  const session run;
  const auto id = new_id();
  std::atomic<bool> tried = false;
  run_two([&](rank& me) {
    ncclComm_t on = nullptr;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const auto wait = [&] {
      auto state = ncclInProgress;
      while (state == ncclInProgress)
        must(ncclCommGetAsyncError(on, &state));
      return state;
    };
    CHECK(ncclCommInitRankConfig(&on, 2, id, me.number, &config) == ncclInProgress);
    CHECK(wait() == ncclSuccess);
    if (me.number == 0) { // its peer has not posted the other end yet
      CHECK(ncclSend(me.buffer(0), 64, ncclFloat32, 1, on, me.first) == ncclInProgress);
      CHECK(ncclSend(me.buffer(2), 64, ncclFloat32, 1, on, me.first) == ncclInvalidArgument);
      CHECK(last_violation() == "a call on a communicator that is still in progress");
      tried = true;
    } else {
      while (!tried)
        std::this_thread::yield();
      CHECK(ncclRecv(me.buffer(1), 64, ncclFloat32, 0, on, me.first) == ncclInProgress);
    }
    CHECK(wait() == ncclSuccess);
    test::must(me.first.synchronize());
    if (me.number == 1)
      CHECK(me.buffers[1]->read(me.first)[0] == 0);
    CHECK(ncclCommDestroy(on) == ncclSuccess);
  });
  CHECK(violations() == 1);
}

TEST_CASE("an abort frees its own rank and nobody else") {
  const session run;
  set_on_deadlock(on_deadlock::fail);
  const auto id = new_id();
  std::atomic<bool> aborted = false;
  run_two([&](rank& me) {
    const auto on = me.join(id);
    me.warm_up(on);
    if (me.number == 0) {
      must(ncclSend(me.buffer(0), 64, ncclFloat32, 1, on, me.first));
      must(ncclCommAbort(on));
      test::must(me.first.synchronize());
      aborted = true;
    } else {
      while (!aborted)
        std::this_thread::yield();
      must(ncclRecv(me.buffer(1), 64, ncclFloat32, 0, on, me.first));
      CHECK(me.first.synchronize() == cudaErrorLaunchTimeout); // the peer's death is not reported
      must(ncclCommAbort(on));
      test::must(me.first.synchronize());
    }
  });
  CHECK(first_deadlock().find("nothing moves") == 0);
}
