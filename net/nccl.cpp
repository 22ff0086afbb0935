#include "net/nccl.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <stdexcept>

#include <fmt/format.h>

#include "net/nccl/endpoint.hpp"

namespace sluice::net {

namespace {

ncclUniqueId new_id() {
  ncclUniqueId id{};
  nccl::check(ncclGetUniqueId(&id), "an NCCL identifier");
  return id;
}

ncclUniqueId id_of(const std::vector<std::uint8_t>& bytes) {
  ncclUniqueId id{};
  if (bytes.size() != sizeof id.internal)
    throw std::runtime_error(
      fmt::format("an NCCL identifier of {} bytes, not {}", bytes.size(), sizeof id.internal));
  std::ranges::copy(bytes, id.internal);
  return id;
}

class nccl_network final : public network {
public:
  explicit nccl_network(nccl_options options) : shared_(std::make_shared<nccl::shared_state>()) {
    shared_->options = std::move(options);
    shared_->id = shared_->options.id.empty() ? new_id() : id_of(shared_->options.id);
  }

  endpoint& at(std::int32_t rank) override {
    const std::lock_guard lock(guard_);
    auto& made = ends_[rank];
    if (made == nullptr)
      made = std::make_unique<nccl::nccl_endpoint>(rank, shared_);
    return *made;
  }

  bool needs_order() const override { return true; }
  void order_by(std::function<void(const offer&)> whom) override {
    shared_->offer = std::move(whom);
  }

private:
  std::shared_ptr<nccl::shared_state> shared_;
  std::mutex guard_;
  std::map<std::int32_t, std::unique_ptr<nccl::nccl_endpoint>> ends_;
};

} // namespace

std::unique_ptr<network> make_nccl_network(nccl_options options) {
  return std::make_unique<nccl_network>(std::move(options));
}

gpu_channels nccl_channels() {
  return {.make_id =
            [] {
              const auto id = new_id();
              return std::vector<std::uint8_t>(std::begin(id.internal), std::end(id.internal));
            },
          .connect = [](gpu_run run) -> std::shared_ptr<network> {
            nccl_options options;
            options.gpu_ranks = std::move(run.gpu_ranks);
            options.id = std::move(run.id);
            options.others = std::move(run.others);
            return make_nccl_network(std::move(options));
          }};
}

} // namespace sluice::net
