# What runs on a GPU: compiled by nvcc for real ones, and by the C++ compiler for the emulation.
set(SLUICE_KERNELS_CUDA_SOURCES
  cuda/device.cpp
  ops/adamw.cu
  ops/add.cu
  ops/attention.cu
  ops/cast.cu
  ops/cross_entropy.cu
  ops/dropout.cu
  ops/embedding.cu
  ops/gelu.cu
  ops/layer_norm.cu
  ops/linear.cu
  ops/product_cublas.cpp
  ops/sgd.cu
  ops/sum_of_squares.cu)
get_filename_component(kernels_folder ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
list(TRANSFORM SLUICE_KERNELS_CUDA_SOURCES PREPEND ${kernels_folder}/)
