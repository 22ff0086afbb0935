#pragma once

#include <CLI/App.hpp>

#include "actors/worker.hpp"
#include "actors/host_system.hpp"

namespace sluice::cli {

/// What a worker of this process offers; its tensor sockets listen on `host`.
std::shared_ptr<actors::worker_config> worker_offer_of(const actors::host_options& meeting,
                                                       const std::string& host, std::int32_t slots);

/// Adds `sluice worker`: hosts stages for trainers, one trainer at a time, until it is stopped.
void add_worker_command(CLI::App& app, int& exit_code);

} // namespace sluice::cli
