#pragma once
// Every public header includes this one. WEFT_API marks what libweft.so shows; everything else in
// it is hidden.
#if __cplusplus < 202002L
#error "Weft's headers need C++20: compile with -std=c++20 or later"
#endif
#define WEFT_API [[gnu::visibility("default")]]
