#include "net/transfer.hpp"

#include <array>

#include <fmt/format.h>

namespace sluice::net {

std::string to_string(const transfer& what) {
  static constexpr std::array names{"activation", "gradient", "input", "target",
                                    "output",     "twin",     "state"};
  return fmt::format("the {} for chunk {}, micro-batch {}, from rank {} to rank {}",
                     names.at(static_cast<std::size_t>(what.payload)), what.chunk,
                     what.micro_batch, what.from, what.to);
}

} // namespace sluice::net
