# Flags of our own code. Third-party headers are SYSTEM, so these never reach them. Warnings are errors with g++, the compiler of the
# product; clang, which the fuzz targets and clang-tidy need, has its own opinions.
option(WEFT_TESTS "Build the tests" ON)
option(WEFT_FUZZ "Build the fuzz targets (with clang)" OFF)
option(WEFT_CUDA "Compile the CUDA kernels (*.cu) too" OFF)
set(WEFT_SANITIZE "" CACHE STRING "Sanitizers of this build, as -fsanitize= takes them")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2")

add_library(weft_flags INTERFACE)
target_compile_options(weft_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wconversion;-Wno-sign-conversion>
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Werror>)
target_include_directories(weft_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
if(WEFT_SANITIZE)
  add_compile_options(-fsanitize=${WEFT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${WEFT_SANITIZE})
endif()

if(WEFT_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

if(WEFT_CUDA)
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "WEFT_CUDA is on, but no CUDA toolkit was found: put nvcc on PATH or set CUDACXX")
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80 90)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  enable_language(CUDA)
endif()

find_program(WEFT_MOLD mold)
if(WEFT_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

find_program(WEFT_CCACHE ccache)
if(WEFT_CCACHE)
  # The base directory makes paths relative, so that a second clone hits; the sloppiness is what lets ccache see through a
  # precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${WEFT_CCACHE})
endif()
