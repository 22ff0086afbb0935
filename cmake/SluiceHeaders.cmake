# <sluice/...> in the build tree: the folders that an installed Sluice has, as links to the sources.
# What is installed is written by install_headers.cmake.

set(SLUICE_INCLUDE_DIR ${PROJECT_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${SLUICE_INCLUDE_DIR}/sluice)
foreach(room actors kernels net)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${room} ${SLUICE_INCLUDE_DIR}/sluice/${room} SYMBOLIC)
endforeach()
configure_file(${PROJECT_SOURCE_DIR}/cmake/version.hpp.in
  ${SLUICE_INCLUDE_DIR}/sluice/version.hpp @ONLY)
configure_file(${PROJECT_SOURCE_DIR}/cmake/pipeline.hpp.in
  ${SLUICE_INCLUDE_DIR}/sluice/pipeline.hpp COPYONLY)
