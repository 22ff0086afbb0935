#include "cli/launcher.hpp"

#include <charconv>
#include <stdexcept>

#include <fmt/format.h>

namespace sluice::cli {

namespace {

/// Where a trainer listens when nobody says: beside the ports that launchers use themselves.
constexpr std::uint16_t usual_port = 29'511;

/// What a launcher calls things.
struct dialect {
  const char* name;
  const char* rank;
  const char* processes;
  const char* local_rank;
};

constexpr dialect torchrun{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"};
constexpr dialect open_mpi{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                           "OMPI_COMM_WORLD_LOCAL_RANK"};
constexpr dialect slurm{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"};
constexpr dialect kubernetes{"Kubernetes", "JOB_COMPLETION_INDEX", "WORLD_SIZE", ""};

class reader {
public:
  reader(const environment& of, const dialect& by) : of_(of), by_(by) {}

  std::string text(const char* name) const {
    const auto found = of_(name);
    if (!found || found->empty())
      throw std::invalid_argument(
        fmt::format("{} seems to have started this process, but {} is not set", by_.name, name));
    return *found;
  }

  std::int32_t number(const char* name, std::int32_t least, std::int32_t most) const {
    const auto value = text(name);
    std::int32_t read = 0;
    const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), read);
    if (problem != std::errc{} || end != value.data() + value.size() || read < least || read > most)
      throw std::invalid_argument(
        fmt::format("{}={} is no number from {} to {}", name, value, least, most));
    return read;
  }

  launched_role role() const {
    launched_role made;
    made.launcher = by_.name;
    made.processes = number(by_.processes, 1, 65'535);
    made.rank = number(by_.rank, 0, made.processes - 1);
    if (*by_.local_rank != '\0' && of_(by_.local_rank))
      made.local_rank = number(by_.local_rank, 0, made.processes - 1);
    if (of_("MASTER_ADDR"))
      made.meeting_host = text("MASTER_ADDR");
    made.meeting_port = of_("MASTER_PORT") ? port("MASTER_PORT") : usual_port;
    return made;
  }

  std::uint16_t port(const char* name) const {
    return static_cast<std::uint16_t>(number(name, 1, 65'535));
  }

private:
  const environment& of_;
  const dialect& by_;
};

launched_role torchrun_role(const environment& of) {
  const reader from(of, torchrun);
  auto made = from.role();
  made.meeting_host = from.text("MASTER_ADDR");
  made.meeting_port = from.port("MASTER_PORT");
  // torchrun's own store keeps listening on that port.
  if (of("TORCHELASTIC_USE_AGENT_STORE") == "True" && made.meeting_port < 65'535)
    ++made.meeting_port;
  return made;
}

launched_role open_mpi_role(const environment& of) {
  const reader from(of, open_mpi);
  auto made = from.role();
  if (made.meeting_host.empty() && of("OMPI_COMM_WORLD_LOCAL_SIZE")
      && from.number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, 65'535) == made.processes)
    made.meeting_host = "127.0.0.1";
  if (made.meeting_host.empty())
    throw std::invalid_argument("Open MPI does not say where rank 0 is: pass it on with "
                                "mpirun -x MASTER_ADDR=HOST");
  return made;
}

launched_role slurm_role(const environment& of) {
  const reader from(of, slurm);
  auto made = from.role();
  if (made.meeting_host.empty())
    made.meeting_host =
      first_of_host_list(of("SLURM_STEP_NODELIST") ? from.text("SLURM_STEP_NODELIST")
                                                   : from.text("SLURM_JOB_NODELIST"));
  if (!of("MASTER_PORT") && of("SLURM_JOB_ID"))
    made.meeting_port =
      static_cast<std::uint16_t>(20'000 + from.number("SLURM_JOB_ID", 0, INT32_MAX) % 10'000);
  return made;
}

/// Pods of an indexed job are called <job>-<index>, with a random ending where they are not used
/// as host names; the job's subdomain, if any, makes them known to each other.
launched_role kubernetes_role(const environment& of) {
  const reader from(of, kubernetes);
  auto made = from.role();
  if (!made.meeting_host.empty())
    return made;
  const auto pod = from.text("HOSTNAME");
  const auto index = fmt::format("-{}", made.rank);
  const auto at = pod.rfind(index);
  if (at == pod.npos)
    throw std::invalid_argument(fmt::format("HOSTNAME={} does not have the pod's index {} in it: "
                                            "set MASTER_ADDR to the name of pod 0",
                                            pod, made.rank));
  made.meeting_host = pod.substr(0, at) + "-0";
  if (const auto domain = of("SUBDOMAIN"); domain && !domain->empty())
    made.meeting_host += "." + *domain;
  return made;
}

} // namespace

std::optional<launched_role> role_of(const environment& of) {
  if (of("JOB_COMPLETION_INDEX") && !of("RANK"))
    return kubernetes_role(of);
  if (of("RANK"))
    return torchrun_role(of);
  if (of("OMPI_COMM_WORLD_RANK"))
    return open_mpi_role(of);
  if (of("SLURM_PROCID"))
    return slurm_role(of);
  return std::nullopt;
}

std::string first_of_host_list(const std::string& list) {
  const auto bracket = list.find('[');
  const auto comma = list.find(',');
  if (bracket == list.npos || comma < bracket)
    return list.substr(0, comma);
  const auto close = list.find(']', bracket);
  const auto end = list.find_first_of(",-]", bracket);
  if (close == list.npos)
    throw std::invalid_argument(fmt::format("'{}' is no list of hosts", list));
  const auto after = list.find_first_of(",[", close);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1)
       + list.substr(close + 1, after == list.npos ? after : after - close - 1);
}

} // namespace sluice::cli
