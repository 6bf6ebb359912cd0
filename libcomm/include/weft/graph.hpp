#pragma once
// The graph engine: graphs in parts over the ranks of a job, and programs for their vertices. How
// it is meant, with an example: docs/use/graph.md. Link with pkg-config weft-graph.
#include "weft/export.hpp"
#include "weft/graph/algorithms.hpp"
#include "weft/graph/graph.hpp"
#include "weft/graph/process.hpp"
#include "weft/graph/types.hpp"
#include "weft/graph/vertex_array.hpp"
#include "weft/graph/vertex_set.hpp"
