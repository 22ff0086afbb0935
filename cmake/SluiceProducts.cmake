# The library behind the matrix products, as the target Sluice::products. Used by Sluice's own build
# and by the installed package, so that the latter is bound to no machine's folders.
#   SLUICE_PRODUCTS: onednn or openblas

if(NOT TARGET Sluice::products)
  if(SLUICE_PRODUCTS STREQUAL onednn)
    find_library(SLUICE_PRODUCTS_LIBRARY dnnl)
  else()
    find_library(SLUICE_PRODUCTS_LIBRARY openblas)
  endif()
  if(SLUICE_PRODUCTS_LIBRARY)
    add_library(Sluice::products UNKNOWN IMPORTED GLOBAL)
    set_target_properties(Sluice::products PROPERTIES IMPORTED_LOCATION ${SLUICE_PRODUCTS_LIBRARY})
  endif()
endif()
