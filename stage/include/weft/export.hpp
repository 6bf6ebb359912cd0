#pragma once
// Marks what libweft.so shows; everything else in it is hidden.
#define WEFT_API [[gnu::visibility("default")]]
