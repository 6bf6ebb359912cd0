#include "base/os/code_place.hpp"

#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <string>

using namespace weft;

TEST_CASE("functions of libraries are found as the loader finds them") {
  // Reached by their names, as the address of an import may be one of the program.
  for (const char* name : {"qsort", "malloc", "getpid", "strtol"}) {
    void* address = dlsym(RTLD_DEFAULT, name);
    REQUIRE(address != nullptr);
    for (const int offset : {0, 1, 2}) {
      const void* at = static_cast<char*>(address) + offset;
      Dl_info expected{};
      link_map* file = nullptr;
      REQUIRE(dladdr1(at, &expected, reinterpret_cast<void**>(&file), RTLD_DL_LINKMAP) != 0);
      CodePlace place;
      REQUIRE(find_code(at, place));
      CHECK(place.file == file);
      REQUIRE(place.symbol != nullptr);
      // One address may have several names.
      CHECK(dlsym(RTLD_DEFAULT, place.symbol) == address);
    }
  }
}

TEST_CASE("a function that its file does not export has no name") {
  const auto own = [](const void* at) { return at != nullptr; };
  CodePlace place;
  REQUIRE(find_code(reinterpret_cast<const void*>(+own), place));
  CHECK(std::string(place.file->l_name).empty());
  CHECK(place.symbol == nullptr);
}

TEST_CASE("an address of no file is not found") {
  CodePlace place;
  int local = 0;
  CHECK(!find_code(&local, place));
  CHECK(!find_code(nullptr, place));
}
