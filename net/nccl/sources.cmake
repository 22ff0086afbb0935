# The NCCL channel: for GPUs, and for the emulation.
set(SLUICE_NET_NCCL_SOURCES
  nccl.cpp
  nccl/communicator.cpp
  nccl/endpoint.cpp)
get_filename_component(net_folder ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
list(TRANSFORM SLUICE_NET_NCCL_SOURCES PREPEND ${net_folder}/)
