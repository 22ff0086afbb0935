#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "net/tcp.hpp"
#include "tests/support/temporary_folder.hpp"

namespace sluice::net::test {

/// Certificates made for one test by the openssl command.
class certificates {
public:
  certificates() {
    make_authority("ca");
    make_authority("other_ca");
    make_member("member", "ca");
    make_member("stranger", "other_ca");
  }

  /// Of the right authority.
  tls_files good() const { return {file("ca.crt"), file("member.crt"), file("member.key")}; }

  /// That believes the right authority, but whose own certificate is another's.
  tls_files of_another_authority() const {
    return {file("ca.crt"), file("stranger.crt"), file("stranger.key")};
  }

  std::string file(const std::string& name) const { return (folder_.path() / name).string(); }

private:
  void make_authority(const std::string& name) {
    run("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN="
        + name + " -keyout " + file(name + ".key") + " -out " + file(name + ".crt"));
  }
  void make_member(const std::string& name, const std::string& authority) {
    run("req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=" + name
        + " -keyout " + file(name + ".key") + " -out " + file(name + ".csr"));
    run("x509 -req -days 1 -in " + file(name + ".csr") + " -CA " + file(authority + ".crt")
        + " -CAkey " + file(authority + ".key") + " -CAcreateserial -out " + file(name + ".crt"));
  }
  void run(const std::string& arguments) {
    const auto command = "openssl " + arguments + " >" + file("log") + " 2>&1";
    if (std::system(command.c_str()) != 0)
      throw std::runtime_error(command + ": " + sluice::test::content_of(file("log")));
  }

  sluice::test::temporary_folder folder_;
};

} // namespace sluice::net::test
