# Copies the headers of the library to their place, with includes as users write them:
# "net/edge.hpp" becomes <sluice/net/edge.hpp>.
#   cmake -DSOURCE=checkout -DGENERATED=build/include/sluice -DTO=prefix/include/sluice
#     -DTORCH=whether the LibTorch adapter is there -P this

file(GLOB_RECURSE headers RELATIVE ${SOURCE}
  ${SOURCE}/actors/*.hpp ${SOURCE}/kernels/*.hpp ${SOURCE}/net/*.hpp)
list(FILTER headers EXCLUDE REGEX "^actors/stress/") # the stress test's
if(NOT TORCH)
  list(FILTER headers EXCLUDE REGEX "^kernels/torch/")
endif()
foreach(header ${headers})
  file(READ ${SOURCE}/${header} text)
  string(REGEX REPLACE "#include \"((actors|kernels|net)/[^\"\n]+)\"" "#include <sluice/\\1>" text
    "${text}")
  file(WRITE ${TO}/${header}.new "${text}")
  execute_process(COMMAND ${CMAKE_COMMAND} -E copy_if_different ${TO}/${header}.new ${TO}/${header})
  file(REMOVE ${TO}/${header}.new)
endforeach()
file(COPY ${GENERATED}/pipeline.hpp ${GENERATED}/version.hpp DESTINATION ${TO})
