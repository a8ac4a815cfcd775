# Flags of our own code. Third-party headers are SYSTEM, so these never reach them.
option(WEFT_TESTS "Build the tests" ON)
set(WEFT_SANITIZE "" CACHE STRING "Sanitizers of this build, as -fsanitize= takes them")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2")

add_library(weft_flags INTERFACE)
target_compile_options(weft_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror)
target_include_directories(weft_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
if(WEFT_SANITIZE)
  add_compile_options(-fsanitize=${WEFT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${WEFT_SANITIZE})
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
