# What Sluice is built with. Each package is looked for where CMake looks (CMAKE_PREFIX_PATH, the
# system); what is missing is named in one message, with the command that brings it.

set(missing "")
macro(sluice_need package debian)
  find_package(${package} QUIET ${ARGN})
  if(NOT ${package}_FOUND)
    list(APPEND missing "  ${package}: apt-get install ${debian}")
  endif()
endmacro()

find_package(Threads REQUIRED)
sluice_need(fmt libfmt-dev)
sluice_need(spdlog libspdlog-dev)
sluice_need(Boost libboost-dev)
sluice_need(nlohmann_json nlohmann-json3-dev)
sluice_need(OpenSSL libssl-dev)
if(SLUICE_BUILD_COMMAND)
  sluice_need(CLI11 libcli11-dev)
  sluice_need(tomlplusplus libtomlplusplus-dev)
endif()
if(SLUICE_BUILD_TESTS)
  sluice_need(doctest doctest-dev)
endif()

# After OpenSSL, whose targets CAF's own config refers to without looking for them. An installed CAF
# is found first, then the one that `make deps` builds here once. ThreadSanitizer reports nonsense
# unless CAF is built with it too, so there the order is the other way round. Shared libraries need
# a shared one: a static one would be there twice, in them and in a program with actors of its own.
if(SLUICE_SANITIZE MATCHES "thread")
  set(caf_script "SANITIZE=thread scripts/build_caf.sh .deps/caf-tsan")
  list(PREPEND CMAKE_PREFIX_PATH ${PROJECT_SOURCE_DIR}/.deps/caf-tsan)
elseif(BUILD_SHARED_LIBS)
  set(caf_script "SHARED=ON scripts/build_caf.sh .deps/caf-shared")
  list(APPEND CMAKE_PREFIX_PATH ${PROJECT_SOURCE_DIR}/.deps/caf-shared)
else()
  set(caf_script "scripts/build_caf.sh .deps/caf")
  list(APPEND CMAKE_PREFIX_PATH ${PROJECT_SOURCE_DIR}/.deps/caf)
endif()
find_package(CAF QUIET COMPONENTS core io) # no version: 0.18 and 1.x each reject the other's
if(NOT TARGET CAF::core OR NOT TARGET CAF::io)
  list(APPEND missing "  CAF (C++ Actor Framework, 0.18.7 or 1.x): ${caf_script}, or give the \
folder of an installed one with -DCMAKE_PREFIX_PATH=...")
elseif(CAF_VERSION VERSION_LESS 0.18.7)
  list(APPEND missing "  CAF 0.18.7 or later: ${CAF_DIR} holds ${CAF_VERSION}; ${caf_script} \
builds one")
elseif(BUILD_SHARED_LIBS)
  get_target_property(caf_kind CAF::core TYPE)
  if(NOT caf_kind STREQUAL "SHARED_LIBRARY")
    list(APPEND missing "  a shared CAF, as BUILD_SHARED_LIBS is on: the one in ${CAF_DIR} is \
static. ${caf_script} builds one, or give an installed one's folder with -DCMAKE_PREFIX_PATH=...")
  endif()
endif()

# Matrix products: oneDNN, or OpenBLAS where it is absent. Not by oneDNN's own CMake package:
# Debian's demands the OpenCL headers too.
find_path(SLUICE_ONEDNN_INCLUDE oneapi/dnnl/dnnl.hpp)
find_library(SLUICE_ONEDNN_LIBRARY dnnl)
if(SLUICE_ONEDNN_INCLUDE AND SLUICE_ONEDNN_LIBRARY)
  find_package(OpenMP QUIET COMPONENTS CXX) # Debian's oneDNN runs its threads by OpenMP
  set(SLUICE_PRODUCTS onednn)
else()
  find_path(SLUICE_CBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas openblas-pthread
    x86_64-linux-gnu/openblas-pthread)
  find_library(SLUICE_CBLAS_LIBRARY openblas)
  if(SLUICE_CBLAS_INCLUDE AND SLUICE_CBLAS_LIBRARY)
    set(SLUICE_PRODUCTS openblas)
  else()
    list(APPEND missing "  oneDNN or OpenBLAS: apt-get install libdnnl-dev (or libopenblas-dev)")
  endif()
endif()

include(SluiceProducts)

if(missing)
  list(JOIN missing "\n" lines)
  message(FATAL_ERROR "Sluice needs packages that were not found:\n${lines}\n"
    "`make deps` installs all of them on a Debian machine.")
endif()
message(STATUS "Sluice: CAF ${CAF_VERSION} in ${CAF_DIR}")
message(STATUS "Sluice: matrix products from ${SLUICE_PRODUCTS}")
