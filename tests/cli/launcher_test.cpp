#include "cli/launcher.hpp"

#include <doctest/doctest.h>

#include <map>
#include <stdexcept>

using namespace sluice::cli;

namespace {

environment from(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

} // namespace

TEST_CASE("An environment without a launcher gives no role") {
  CHECK(!role_of(from({})));
  CHECK(!role_of(from({{"MASTER_ADDR", "a"}, {"WORLD_SIZE", "2"}, {"HOSTNAME", "b"}})));
}

TEST_CASE("Each launcher's variables give the role") {
  std::map<std::string, std::string> given;
  launched_role expected;
  SUBCASE("torchrun, whose own store has the port") {
    given = {
      {"RANK", "3"},        {"WORLD_SIZE", "8"},      {"LOCAL_RANK", "1"},
      {"MASTER_ADDR", "h"}, {"MASTER_PORT", "29500"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
    expected = {"torchrun", 3, 8, 1, "h", 29501};
  }
  SUBCASE("torchrun's variables, set by hand") {
    given = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "5"}};
    expected = {"torchrun", 0, 2, 0, "10.0.0.1", 5};
  }
  SUBCASE("torchrun within a Slurm job: the inner one counts") {
    given = {{"RANK", "1"},        {"WORLD_SIZE", "2"},   {"MASTER_ADDR", "h"},
             {"MASTER_PORT", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}};
    expected = {"torchrun", 1, 2, 0, "h", 7};
  }
  SUBCASE("Open MPI on one host") {
    given = {{"OMPI_COMM_WORLD_RANK", "1"},
             {"OMPI_COMM_WORLD_SIZE", "4"},
             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
             {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
    expected = {"Open MPI", 1, 4, 1, "127.0.0.1", 29511};
  }
  SUBCASE("Open MPI on several hosts, with an address passed on") {
    given = {{"OMPI_COMM_WORLD_RANK", "5"},
             {"OMPI_COMM_WORLD_SIZE", "8"},
             {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
             {"MASTER_ADDR", "h1"},
             {"MASTER_PORT", "99"}};
    expected = {"Open MPI", 5, 8, 0, "h1", 99};
  }
  SUBCASE("Slurm") {
    given = {{"SLURM_PROCID", "2"},
             {"SLURM_NTASKS", "4"},
             {"SLURM_LOCALID", "0"},
             {"SLURM_JOB_ID", "123456"},
             {"SLURM_JOB_NODELIST", "gpu[03-04,09]"}};
    expected = {"Slurm", 2, 4, 0, "gpu03", 23456};
  }
  SUBCASE("A Kubernetes indexed job") {
    given = {{"JOB_COMPLETION_INDEX", "2"},
             {"WORLD_SIZE", "4"},
             {"HOSTNAME", "train-2"},
             {"SUBDOMAIN", "train-svc"}};
    expected = {"Kubernetes", 2, 4, 0, "train-0.train-svc", 29511};
  }
  SUBCASE("A Kubernetes indexed job with random endings and an address") {
    given = {{"JOB_COMPLETION_INDEX", "0"},
             {"WORLD_SIZE", "4"},
             {"HOSTNAME", "train-0-x7k2p"},
             {"MASTER_ADDR", "train-0.svc"}};
    expected = {"Kubernetes", 0, 4, 0, "train-0.svc", 29511};
  }
  const auto role = role_of(from(given));
  REQUIRE(role);
  CHECK(*role == expected);
}

TEST_CASE("What is missing or no number is named") {
  std::map<std::string, std::string> given;
  const char* text = "";
  SUBCASE("no size") {
    given = {{"RANK", "0"}};
    text = "torchrun seems to have started this process, but WORLD_SIZE is not set";
  }
  SUBCASE("a rank beyond the size") {
    given = {{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "1"}};
    text = "RANK=2 is no number from 0 to 1";
  }
  SUBCASE("no number") {
    given = {{"SLURM_PROCID", "x"}, {"SLURM_NTASKS", "2"}};
    text = "SLURM_PROCID=x is no number from 0 to 1";
  }
  SUBCASE("no port") {
    given = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "0"}};
    text = "MASTER_PORT=0 is no number from 1 to 65535";
  }
  SUBCASE("several hosts under Open MPI") {
    given = {{"OMPI_COMM_WORLD_RANK", "5"}, {"OMPI_COMM_WORLD_SIZE", "8"}};
    text = "Open MPI does not say where rank 0 is: pass it on with mpirun -x MASTER_ADDR=HOST";
  }
  CHECK_THROWS_WITH_AS(role_of(from(given)), text, std::invalid_argument);
}

TEST_CASE("The first host of a list is the first, whatever the list's form") {
  CHECK(first_of_host_list("a") == "a");
  CHECK(first_of_host_list("a,b") == "a");
  CHECK(first_of_host_list("a,b[1-2]") == "a");
  CHECK(first_of_host_list("n[07-09,12],login") == "n07");
  CHECK(first_of_host_list("n[3,5]") == "n3");
  CHECK(first_of_host_list("n[1-2].cluster") == "n1.cluster");
  CHECK(first_of_host_list("n[1-2].cluster,m") == "n1.cluster");
  CHECK_THROWS_AS(first_of_host_list("n[1-2"), std::invalid_argument);
}
