// A process of its own for tests of faults: hosts rank 1, sends back what rank 0 sends.
//   net_peer LISTEN PEER TOKEN MODE
// LISTEN: where it listens; it prints the address. PEER: rank 0's address; "-" reads it from stdin.
// TOKEN: 32 hexadecimal digits. MODE: echo; mute (takes nothing); deaf (binds, never starts);
// half (knows the edge to it only, so rank 0 waits for the other one).

#include <iostream>
#include <semaphore>
#include <string>

#include "kernels/buffer_pool.hpp"
#include "net/tcp.hpp"
#include "tests/net/peer_edges.hpp"

using namespace sluice;
using namespace sluice::net;

namespace {

run_token token_of(const std::string& digits) {
  run_token token{};
  for (std::size_t i = 0; i < token.size(); ++i)
    token[i] = static_cast<std::byte>(std::stoi(digits.substr(2 * i, 2), nullptr, 16));
  return token;
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 5)
    return 2;
  const std::string mode = argv[4];
  tcp_options options;
  options.listen = argv[1];
  tcp_network own(options);
  std::cout << own.address() << std::endl;
  std::string peer = argv[2];
  if (mode == "deaf" || peer == "-")
    std::cin >> peer; // Waits; the parent closes or kills.
  if (mode == "deaf")
    return 0;
  tcp_run run{token_of(argv[3]), {1}, {{0, peer}}, test::peer_edges(), std::chrono::seconds{30}};
  if (mode == "half")
    run.edges.resize(1);
  own.connect(run);
  kernels::buffer_pool pool(kernels::make_cpu_device());
  std::binary_semaphore ended(0);
  auto& end = own.at(1);
  end.listen(
    {.arrived =
       [&](const transfer& what) {
         if (mode == "mute")
           return;
         end.send({what.epoch, payload::gradient, 1, 0, 0, what.micro_batch}, end.take(what, pool));
       },
     .failed = [&](const std::string&) { ended.release(); }});
  std::cout << "connected" << std::endl;
  if (mode == "half")
    std::cin >> peer;
  else
    ended.acquire();
}
