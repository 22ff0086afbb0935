#include "actors/host_system.hpp"

#include <algorithm>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

#include "actors/caf_compat_io.hpp"
#include "actors/pipeline.hpp"
#include "actors/text_of.hpp"
#include "net/probe.hpp"

namespace sluice::actors {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Several signs of life fit into the shortest deadline that the command takes.
constexpr milliseconds sign_of_life{400};

struct networked_config : caf::actor_system_config {
  explicit networked_config(const host_options& options) {
    register_messages();
    set("caf.scheduler.policy", "sharing");
    set("caf.scheduler.max-throughput", 1);
    set("caf.logger.console.verbosity", "quiet");
    compat::load_networking(*this, options.tls.has_value());
    set("caf.middleman.heartbeat-interval", caf::timespan(sign_of_life));
    set("caf.middleman.connection-timeout", caf::timespan(options.fault_deadline));
    if (options.tls)
      compat::use_certificates(*this, options.tls->authority, options.tls->certificate,
                               options.tls->key);
  }
};

} // namespace

struct host_system::implementation {
  explicit implementation(const host_options& options)
    : with_tls(options.tls.has_value()),
      config(options),
      system(config) {}

  bool with_tls;
  networked_config config;
  caf::actor_system system;
};

host_system::host_system(const host_options& options) {
  if (options.tls)
    net::check_tls_files(*options.tls); // CAF would not say which one is wrong.
  impl_ = std::make_unique<implementation>(options);
}

host_system::~host_system() = default;

caf::actor_system& host_system::system() {
  return impl_->system;
}

std::uint16_t host_system::publish(const caf::actor& what, const net::address& at) {
  const auto bound = compat::publish(impl_->system, what, at.host, at.port, impl_->with_tls);
  if (!bound)
    throw std::runtime_error(
      fmt::format("cannot listen on {}: {}", net::to_string(at), text_of(bound.error())));
  return *bound;
}

caf::actor host_system::dial(const net::address& to, milliseconds deadline) {
  const auto until = steady_clock::now() + deadline;
  std::string why = "it did not answer";
  for (auto pause = milliseconds{20};; pause = std::min(2 * pause, milliseconds{500})) {
    const auto left = std::chrono::duration_cast<milliseconds>(until - steady_clock::now());
    if (left <= milliseconds{0})
      throw std::runtime_error(why);
    // CAF's own attempt to reach a host that is silent would block it for minutes.
    if (auto problem = net::probe(to, left); problem.empty()) {
      caf::scoped_actor self{impl_->system};
      auto found = compat::connect(self, impl_->system, to.host, to.port,
                                   std::min(left, 2 * one_try), impl_->with_tls);
      if (found)
        return *found;
      why = "it does not speak the control protocol"
          + std::string(impl_->with_tls ? ", or its certificates are of another authority"
                                        : ", or it demands certificates (--tls-ca)")
          + fmt::format(" ({})", text_of(found.error()));
    } else {
      why = std::move(problem);
    }
    std::this_thread::sleep_for(std::min(pause, left));
  }
}

} // namespace sluice::actors
