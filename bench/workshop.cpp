#include "bench/workshop.hpp"

#include <cstdlib>
#include <stdexcept>

#include <fmt/format.h>

namespace sluice::bench {

workshop::workshop() {
  std::string name = (std::filesystem::temp_directory_path() / "sluice-bench-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    throw std::runtime_error("no temporary folder");
  folder_ = name;
  const auto command =
    fmt::format("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 "
                "-subj /CN=bench -keyout '{0}/key' -out '{0}/crt' >/dev/null 2>&1",
                name);
  has_tls_ = std::system(command.c_str()) == 0;
}

workshop::~workshop() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

} // namespace sluice::bench
