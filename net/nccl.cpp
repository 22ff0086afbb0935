#include "net/nccl.hpp"

#include <map>
#include <mutex>

#include "net/nccl/endpoint.hpp"

namespace sluice::net {

namespace {

class nccl_network final : public network {
public:
  explicit nccl_network(nccl_options options) : shared_(std::make_shared<nccl::shared_state>()) {
    shared_->options = std::move(options);
    nccl::check(ncclGetUniqueId(&shared_->id), "an NCCL identifier");
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

} // namespace sluice::net
