#include "kernels/digest.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <stdexcept>
#include <vector>

#include <fmt/ranges.h>
#include <openssl/evp.h>

namespace sluice::kernels {

namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors are digested and stored as they lie in memory");

class sha256 {
public:
  sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    require(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }

  void add(std::span<const std::byte> bytes) {
    require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
  }

  void add_with_nul(const std::string& text) {
    require(EVP_DigestUpdate(context_.get(), text.c_str(), text.size() + 1) == 1);
  }

  std::string hexadecimal() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
    unsigned length = 0;
    require(EVP_DigestFinal_ex(context_.get(), digest.data(), &length) == 1);
    return fmt::format("{:02x}", fmt::join(digest.begin(), digest.begin() + length, ""));
  }

private:
  static void require(bool done) {
    if (!done)
      throw std::runtime_error("OpenSSL cannot compute a SHA-256");
  }

  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

} // namespace

std::string weights_sha256(std::span<const named_tensor> tensors) {
  std::vector<const named_tensor*> ordered;
  for (const auto& each : tensors)
    ordered.push_back(&each);
  // Stable, so that the first of several of one name stays the first. std::string compares as
  // unsigned bytes.
  std::ranges::stable_sort(ordered, {}, &named_tensor::name);
  const auto rest = std::ranges::unique(ordered, {}, &named_tensor::name);
  ordered.erase(rest.begin(), rest.end());
  sha256 digest;
  for (const auto* each : ordered) {
    digest.add_with_nul(each->name);
    digest.add_with_nul(std::string(name(each->value.type())));
    digest.add_with_nul(fmt::format("{}", fmt::join(each->value.shape().extents(), ",")));
    digest.add(each->value.bytes_span());
  }
  return digest.hexadecimal();
}

} // namespace sluice::kernels
