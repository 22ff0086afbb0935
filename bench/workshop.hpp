#pragma once

#include <filesystem>
#include <string>

#include "net/tcp.hpp"

namespace sluice::bench {

/// A folder with a certificate that is its own authority, made by the openssl command where there
/// is one; gone with its owner. Errors: std::runtime_error.
class workshop {
public:
  workshop();
  ~workshop();
  workshop(const workshop&) = delete;
  workshop& operator=(const workshop&) = delete;

  bool has_tls() const noexcept { return has_tls_; }
  net::tls_files tls() const { return {file("crt"), file("crt"), file("key")}; }
  std::string file(const char* name) const { return (folder_ / name).string(); }

private:
  std::filesystem::path folder_;
  bool has_tls_ = false;
};

} // namespace sluice::bench
