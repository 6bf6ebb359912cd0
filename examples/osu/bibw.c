// Bandwidth of both directions at once between ranks 0 and 1: bw.c with both ranks sending.

#define BIDIRECTIONAL
#include "bw.c"
