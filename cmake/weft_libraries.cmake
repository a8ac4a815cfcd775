# Everything that comes from outside, as imported targets.
find_package(fmt REQUIRED)
find_package(Threads REQUIRED)
if(WEFT_TESTS)
  find_package(GTest REQUIRED)
endif()

find_library(WEFT_XXHASH_LIBRARY NAMES libxxhash.a xxhash REQUIRED)
find_library(WEFT_PCRE2_LIBRARY NAMES libpcre2-8.a pcre2-8 REQUIRED)
find_library(WEFT_UTF8PROC_LIBRARY NAMES libutf8proc.a utf8proc REQUIRED)

# LibTorch of the wheel. find_package(Torch) wants a matching CUDA toolkit, so the two targets are written by hand.
set(WEFT_TORCH "" CACHE PATH "The folder torch/ of the installed wheel; empty leaves out the rooms that need it")
if(WEFT_TORCH)
  # The wheel's include folder holds an fmt of its own, without its library: as headers alone it would cost each file three
  # seconds. The one that is linked everywhere is found first. (Namespaces tell the two apart where LibTorch has symbols of its own.)
  find_path(WEFT_FMT_INCLUDE fmt/format.h REQUIRED)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/first)
  file(CREATE_LINK ${WEFT_FMT_INCLUDE}/fmt ${CMAKE_BINARY_DIR}/first/fmt SYMBOLIC)
  set(torch_headers "${CMAKE_BINARY_DIR}/first;${WEFT_TORCH}/include;${WEFT_TORCH}/include/torch/csrc/api/include")
  add_library(weft_c10 SHARED IMPORTED)
  set_target_properties(weft_c10 PROPERTIES
    IMPORTED_LOCATION ${WEFT_TORCH}/lib/libc10.so
    INTERFACE_INCLUDE_DIRECTORIES "${torch_headers}"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${torch_headers}")
  add_library(weft_torch SHARED IMPORTED)
  set_target_properties(weft_torch PROPERTIES
    IMPORTED_LOCATION ${WEFT_TORCH}/lib/libtorch_cpu.so
    INTERFACE_LINK_LIBRARIES "weft_c10;fmt::fmt"
    # The wheel is built with NDEBUG, and classes in its headers differ without.
    INTERFACE_COMPILE_DEFINITIONS "NDEBUG"
    INTERFACE_LINK_OPTIONS "-Wl,--allow-shlib-undefined;-Wl,--no-as-needed")

  # The wheel has gloo's code without its headers; those of Debian's libgloo-dev declare what c10d's header names.
  find_path(WEFT_GLOO_INCLUDE gloo/context.h REQUIRED)
  add_library(weft_gloo INTERFACE)
  target_include_directories(weft_gloo SYSTEM INTERFACE ${WEFT_GLOO_INCLUDE})
  target_compile_definitions(weft_gloo INTERFACE USE_C10D_GLOO)
endif()
