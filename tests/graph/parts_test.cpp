// The parts of the engine that need no job: the cut, the parsers, sets of vertices, threads.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "graph/engine/checkpoint.hpp"
#include "graph/formats/detect.hpp"
#include "graph/formats/headers.hpp"
#include "graph/formats/metis.hpp"
#include "graph/formats/table_text.hpp"
#include "graph/formats/weights.hpp"
#include "graph/load/file_source.hpp"
#include "graph/load/graph_cache.hpp"
#include "weft/graph.hpp"

using namespace weft;         // NOLINT(google-build-using-namespace)
using namespace weft::graph;  // NOLINT(google-build-using-namespace)

namespace {

struct Parsed {
  Status status;
  std::uint64_t num_lines = 0;
  std::vector<std::uint64_t> edges;  // source, destination, weight, ...
};

Parsed parse(std::string_view text, const TextRules& rules = {}, bool weighted = false) {
  Parsed parsed;
  EdgeStore store(weighted);
  parsed.status = parse_edges(text, rules, store, &parsed.num_lines);
  store.for_each(
      true,
      [&](VertexId u, VertexId v, Weight w) {
        parsed.edges.insert(parsed.edges.end(), {u, v, w});
      },
      [] {});
  return parsed;
}

using Edges = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("the example of the paper's section 3: [0,2,4,8] becomes [0,2,6,8]") {
  const std::vector<std::uint32_t> degrees = {3, 2, 1, 0, 0, 2, 2, 4};
  std::vector<VertexId> cut = {0, 2, 4, 8};
  CHECK(cut_imbalance(degrees, 1.1, cut) == Approx(10.267).margin(0.001));
  CHECK(refine_cut(degrees, 1.1, cut) == Approx(6.267).margin(0.001));
  CHECK(cut == std::vector<VertexId>{0, 2, 6, 8});
  CHECK(cut_imbalance(degrees, 1.1, cut) == Approx(6.267).margin(0.001));
}

TEST_CASE("a refined cut is never worse than it was, and leaves no part empty") {
  std::uint32_t state = 7;
  for (int round = 0; round < 200; ++round) {
    std::vector<std::uint32_t> degrees(20 + round);
    for (std::uint32_t& degree : degrees) {
      state = state * 1664525 + 1013904223;
      degree = (state >> 24) % 7 == 0 ? state >> 22 : (state >> 20) % 5;
    }
    if (round % 3 == 0) degrees.back() = 100000;  // the last vertex alone has more than its share
    const int parts = 2 + round % 9;
    std::vector<VertexId> cut = greedy_cut(degrees, 3, parts);
    REQUIRE(cut.size() == static_cast<std::size_t>(parts) + 1);
    const double before = cut_imbalance(degrees, 3, cut);
    CHECK(refine_cut(degrees, 3, cut) <= before + 1e-6);
    CHECK(cut.front() == 0);
    CHECK(cut.back() == degrees.size());
    for (std::size_t p = 0; p + 1 < cut.size(); ++p) CHECK(cut[p] < cut[p + 1]);
    // No single boundary can be moved to lower the sum.
    const double now = cut_imbalance(degrees, 3, cut);
    for (std::size_t p = 1; p + 1 < cut.size(); ++p) {
      std::vector<VertexId> other = cut;
      for (other[p] = cut[p - 1] + 1; other[p] < cut[p + 1]; ++other[p])
        REQUIRE(cut_imbalance(degrees, 3, other) >= now - 1e-4);
    }
  }
}

TEST_CASE("a cut by shares of the edges") {
  const std::vector<std::uint32_t> degrees = {3, 2, 1, 0, 0, 2, 2, 4};
  CHECK(shared_cut(degrees, std::vector<double>{1, 1}) == std::vector<VertexId>{0, 6, 8});
  CHECK(shared_cut(degrees, std::vector<double>{2, 1}) == std::vector<VertexId>{0, 7, 8});
  CHECK(shared_cut(degrees, std::vector<double>{1e-6, 1, 1}) == std::vector<VertexId>{0, 1, 6, 8});
  // No part is empty, even where one vertex has all edges.
  CHECK(shared_cut(std::vector<std::uint32_t>{0, 0, 100}, std::vector<double>{1, 1, 1}) ==
        std::vector<VertexId>{0, 1, 2, 3});
}

TEST_CASE("every schedule hands out each task once") {
  for (const Schedule schedule : {Schedule::grab, Schedule::steal, Schedule::fixed})
    for (const int size : {1, 2, 5})
      for (const std::uint64_t num_tasks : {0u, 3u, 10007u}) {
        Team team(size, {});
        std::vector<std::atomic<int>> done(num_tasks);
        weft::graph::detail::WorkCounter work(num_tasks, {.schedule = schedule, .grain = 7}, size);
        team.run([&](int thread) {
          work.work(thread, [&](std::uint64_t begin, std::uint64_t end) {
            for (; begin < end; ++begin) ++done[begin];
          });
        });
        CHECK(std::all_of(done.begin(), done.end(), [](const auto& times) { return times == 1; }));
      }
}

TEST_CASE("a graph's file that changes while it is read is noticed") {
  std::string name = "/tmp/weft-graph-XXXXXX.el";
  const int descriptor = mkstemps(name.data(), 3);
  REQUIRE(descriptor >= 0);
  REQUIRE(write(descriptor, "0 1\n1 2\n", 8) == 8);
  FileSource source(name);
  FileFacts facts;
  CHECK(source.inspect({}, facts).ok());
  CHECK(source.open(facts).ok());
  EdgeStore edges(false);
  CHECK(source.read_part(0, 1, edges, [](std::uint64_t) {}).ok());
  CHECK(source.check_unchanged().ok());
  REQUIRE(write(descriptor, "2 3\n", 4) == 4);
  CHECK(source.check_unchanged() == Code::corrupt);
  REQUIRE(ftruncate(descriptor, 4) == 0);
  CHECK(source.read_part(0, 1, edges, [](std::uint64_t) {}) == Code::corrupt);
  close(descriptor);
  unlink(name.c_str());
}

TEST_CASE("headers of checkpoints and caches that do not fit are refused") {
  std::byte bytes[64] = {};
  CheckpointHeader checkpoint{};
  CHECK(parse_checkpoint_header(bytes, 64, checkpoint) == Code::corrupt);
  CHECK(parse_checkpoint_header({bytes, 63}, 63, checkpoint) == Code::corrupt);
  CacheHeader header;
  CHECK_FALSE(cache_fits(bytes, 64, {}, {}, header));
  CHECK_FALSE(cache_fits({bytes, 63}, 63, {}, {}, header));
}

TEST_CASE("edges in text") {
  CHECK(parse("0 1\n2\t3\r\n").edges == Edges{0, 1, 1, 2, 3, 1});
  CHECK(parse("# SNAP\n% other\n\n 4 5 ignored\n6 7").edges == Edges{4, 5, 1, 6, 7, 1});
  CHECK(parse("1 2 9\n", {.weighted = true}, true).edges == Edges{1, 2, 9});
  CHECK(parse("1 2 3.0\n", {.weighted = true}, true).edges == Edges{1, 2, 3});
  CHECK(parse("1 2 -3\n", {.weighted = true}, false).edges == Edges{1, 2, 1});
  CHECK(parse("").edges.empty());
  CHECK(parse(" 0 , 1 \t\n \t\n1,2\t \r\n\n").edges == Edges{0, 1, 1, 1, 2, 1});
  CHECK(parse("1 2 +9e1 junk", {.weighted = true}, true).edges == Edges{1, 2, 90});
  CHECK(parse("1 2 5 7\n2 3 6 8", {.columns = 4}).edges == Edges{1, 2, 1, 2, 3, 1});
  CHECK(parse("1 2 {'weight': 5}\n2 3 {}", {.columns = 2}).edges == Edges{1, 2, 1, 2, 3, 1});
  CHECK(parse("c a b\na 2 3 7\n", {.weighted = true, .matrix = true, .arcs = true, .num_rows = 3},
              true)
            .edges == Edges{1, 2, 7});
  CHECK(parse("1 1\n", {.matrix = true, .symmetric = true, .num_rows = 3}).edges == Edges{0, 0, 1});
  CHECK(parse("3 1\n", {.matrix = true, .symmetric = true, .num_rows = 3}).edges ==
        Edges{2, 0, 1, 0, 2, 1});
}

TEST_CASE("what is wrong in text is told with its line") {
  const auto wrong = [&](const std::string& line, const std::string& why,
                         const TextRules& rules = {}, bool weighted = false) {
    const std::string good = rules.arcs           ? "c\na 1 2\n"
                             : rules.columns == 3 ? "0 1 9\n1 2 9\n"
                                                  : "0 1\n1 2\n";
    const Parsed parsed = parse(good + line + "\n5 6\n", rules, weighted);
    INFO(line << ": " << parsed.status.text());
    CHECK(parsed.status == Code::corrupt);
    CHECK(parsed.num_lines == 3);
    CHECK(parsed.status.text().find(why) != std::string::npos);
  };
  wrong("junk", "expected two vertex ids");
  wrong("7", "expected two vertex ids");
  wrong("-1 2", "expected two vertex ids");
  wrong("1 2x", "expected two vertex ids");
  wrong("1 99999999999999999999", "does not fit");
#if WEFT_GRAPH_VERTEX_BITS == 32
  wrong("4294967295 1", "does not fit in 32 bits");
#endif
  wrong("1 18446744073709551615", "does not fit");
  wrong(std::string(5000, ' '), "longer than");
  wrong("1,,2", "expected two vertex ids");
  wrong(",1,2", "expected two vertex ids");
  wrong("1.0 2.0", "expected two vertex ids");
  wrong("\"1\",\"2\"", "expected two vertex ids");
  // What would be passed over as the rest of an edge or of a comment.
  wrong("2 3\r3 4", "a carriage return within the line");
  wrong("# comment\r3 4", "a carriage return within the line");
  wrong("2 3 x\r3 4\r", "a carriage return within the line");
  std::string returns;
  while (returns.size() < 2 * kMaxLineBytes) returns += "0 1\r";
  wrong(returns, "a carriage return within the line");
  wrong("3", "expected two vertex ids", {.columns = 2});
  wrong("1 2 3", "3 numbers, where the first edge has 2", {.columns = 2});
  wrong("1 2,", "2 numbers, where the first edge has 3", {.columns = 3});
  wrong("1,2,,3", "expected a number as the weight", {.weighted = true}, true);
  wrong("1 2 1e999", "not a whole number", {.weighted = true}, true);
  wrong("b 1 2 3", "expected \"a SOURCE", {.arcs = true});
  wrong("1 2 -3", "negative weight", {.weighted = true}, true);
  wrong("1 2 1.5", "not a whole number", {.weighted = true}, true);
  wrong("1 2 nan", "not a whole number", {.weighted = true}, true);
  wrong("1 2 4294967296", "not a whole number", {.weighted = true}, true);
  wrong("1 2 many", "expected a number", {.weighted = true}, true);
  const Parsed short_line = parse("1 2\n", {.weighted = true, .needs_weights = true}, true);
  CHECK(short_line.status.text().find("expected source, destination and weight") !=
        std::string::npos);
  const Parsed outside = parse("4 1\n", {.matrix = true, .num_rows = 3});
  CHECK(outside.status.text().find("outside 1 to 3") != std::string::npos);
  CHECK(parse("0 1\n", {.matrix = true, .num_rows = 3}).status == Code::corrupt);
}

TEST_CASE("headers of MatrixMarket files") {
  const auto read = [](std::string_view text, TextRules& rules, bool wants_weights = false) {
    TextHeader header;
    const Status status = parse_matrix_header(text, wants_weights, rules, header);
    if (status.ok()) CHECK(text.substr(header.bytes) == "1 2 3\n");
    return status;
  };
  TextRules rules;
  CHECK(
      read("%%MatrixMarket matrix coordinate Integer symmetric\n% c\n5 5 1\n1 2 3\n", rules).ok());
  CHECK(rules.symmetric);
  CHECK(rules.weighted);
  CHECK(rules.num_rows == 5);
  CHECK(rules.num_entries == 1);
  TextRules capitals;
  CHECK(read(" %MATRIXMARKET MATRIX COORDINATE REAL GENERAL\r\n \r\n  % c\r\n5 5 1\r\n1 2 3\n",
             capitals)
            .ok());
  CHECK(capitals.weighted);
  CHECK_FALSE(capitals.symmetric);
  TextRules complex;
  const char* const hermitian =
      "%%MatrixMarket matrix coordinate complex hermitian\n5 5 1\n1 2 3\n";
  CHECK(read(hermitian, complex).ok());
  CHECK(complex.symmetric);
  CHECK_FALSE(complex.weighted);
  CHECK(read(hermitian, complex, true).text().find("no weights of edges") != std::string::npos);
  for (const char* bad : {"", "1 2 3\n", "%%MatrixMarket matrix array real general\n2 2\n",
                          "%%MatrixMarket matrix coordinate pattern general\n",
                          "%%MatrixMarket matrix coordinate pattern general\n2 x 1\n",
                          "%%MatrixMarket matrix coordinate pattern general\n2 2 -1\n",
                          "%%MatrixMarket matrix coordinate pattern general\n2 2 -1 4\n",
                          "%%MatrixMarket matrix coordinate pattern general\n2 3 1\n",
                          "%%MatrixMarket matrix coordinate pattern general\r2 2 1\r",
                          "%%MatrixMarket matrix coordinate pattern skew-symmetric\n2 2 1\n",
                          "%%MatrixMarket matrix coordinate quaternion general\n2 2 1\n"}) {
    INFO(bad);
    TextRules other;
    CHECK_FALSE(read(bad, other).ok());
  }
}

TEST_CASE("headers of DIMACS files") {
  const auto read = [](std::string_view text, TextRules& rules, TextHeader& header) {
    return parse_arcs_header(text, rules, header);
  };
  TextRules rules;
  TextHeader header;
  CHECK(read("c road\nc\n\np sp 3 2\na 1 2 5\n", rules, header).ok());
  CHECK(header.lines == 4);
  CHECK(rules.num_rows == 3);
  CHECK(rules.num_entries == 2);
  CHECK(rules.needs_weights);
  for (const char* bad : {"", "c\n", "a 1 2 5\n", "p sp 3\n", "p sp 3 -2\n", "p max 3 2\n",
                          "p edge 3 2\n", "p sp 3 2 1\n", "0 1\n"}) {
    INFO(bad);
    TextRules other;
    TextHeader at;
    CHECK_FALSE(read(bad, other, at).ok());
  }
}

TEST_CASE("edge lists begin with names of columns, or without") {
  const auto read = [](std::string_view text, TextRules& rules, TextHeader& header,
                       bool wants_weights = false, bool is_all = true) {
    rules = {};
    header = {};
    return parse_list_header(text, {.is_all = is_all, .wants_weights = wants_weights}, rules,
                             header);
  };
  TextRules rules;
  TextHeader header;
  CHECK(read("# SNAP\n# FromNodeId\tToNodeId\n0\t1\n", rules, header).ok());
  CHECK(header.bytes == 0);
  CHECK(rules.columns == 2);
  CHECK(read("source,target,weight\r\n0,1,5\r\n", rules, header).ok());
  CHECK(header.bytes == 22);
  CHECK(header.lines == 1);
  CHECK(rules.columns == 3);
  CHECK_FALSE(rules.weighted);
  CHECK(read("# c\n\"from\" \"to\"\n\n7 8", rules, header).ok());
  CHECK(header.lines == 2);
  CHECK(rules.columns == 2);
  // Words that are no names stay for the parser to refuse.
  for (const char* text :
       {"not gzipped? it is read as it is\n", "a b\nc d\n1 2\n", "a b c\n1 2\n", "word\n1 2\n"}) {
    INFO(text);
    CHECK(read(text, rules, header).ok());
    CHECK(parse(text).status == Code::corrupt);
    CHECK(header.bytes == 0);
  }
  // A line that the first bytes of a file do not have to its end says nothing.
  CHECK(read("0 1", rules, header, false, false).ok());
  CHECK(rules.columns == 0);

  CHECK(read("0 1 5\n", rules, header, true).ok());
  CHECK(rules.weighted);
  CHECK(rules.needs_weights);
  CHECK(header.is_weight_third);
  CHECK(read("0 1\n", rules, header, true).ok());
  CHECK_FALSE(rules.weighted);
  CHECK(read("% sym weighted\n1 2 5 1082040961\n", rules, header, true).ok());
  CHECK(rules.columns == 4);
  for (const char* table : {"weight,source,target\n0,1,2\n", ";Dst;Src;W\r\n7;2;1;0\r\n",
                            "to\tcost\tfrom\n\"2\"\t0\t\"1\"\n"}) {
    INFO(table);
    CHECK(read(table, rules, header, true).ok());
    CHECK(rules.table);
    CHECK(rules.weighted);
    CHECK(header.lines == 1);
    CHECK(parse(std::string_view(table).substr(header.bytes), rules, true).edges == Edges{1, 2, 0});
  }
  CHECK(read("weight,source,target\n0,1,2\n", rules, header).ok());
  CHECK_FALSE(rules.weighted);
  for (const char* bad : {"0 1 {'weight': 5}\n", "index,a,b\n0,1,2\n", "id,source,target\n0,1\n",
                          "% bip unweighted\n1 1\n", "0 1\r1 2\r"}) {
    INFO(bad);
    CHECK_FALSE(read(bad, rules, header, true).ok());
    CHECK(header.lines == (std::string_view(bad).starts_with("id") ? 2 : 1));
  }
}

TEST_CASE("fields of a table") {
  using All = std::vector<std::string>;
  CHECK(fields_of(" a , b c,,\"d, \"\"e\"\"\" ,", ',') == All{"a", "b c", "", "d, \"e\"", ""});
  CHECK(fields_of("a\t\tb c\t", '\t') == All{"a", "", "b c", ""});
  CHECK(fields_of("  a  b,c \"d e\" ", 0) == All{"a", "b", "c", "d e"});
  CHECK(fields_of("", ',').empty());
  CHECK(fields_of("a,\"b", ',') == All{"a"});
  CHECK(fields_of("\"a\"b,c", ',').empty());
  CHECK(separator_of("a;b,\",,,,\";c") == ';');
  CHECK(separator_of("a b") == '\0');
}

TEST_CASE("what is rounded of weights, and what is refused") {
  const auto weight = [](double value, double scale) -> std::int64_t {
    Weight found = 0;
    return to_weight(value, {.scale = scale}, found).ok() ? std::int64_t{found} : -1;
  };
  CHECK(weight(0, 1) == 0);
  CHECK(weight(4294967295.0, 1) == 4294967295);
  for (const double refused : {0.5, -1.0, -0.25, 4294967296.0, double(NAN), double(INFINITY)})
    CHECK(weight(refused, 1) == -1);
  CHECK(weight(0.0015, 1000) == 2);
  CHECK(weight(0.0014, 1000) == 1);
  CHECK(weight(0, 1000) == 0);
  CHECK(weight(4294967, 1000) == 4294967000);
  for (const double refused : {0.0004, -1e-9, 4294967.296, double(NAN), double(INFINITY)})
    CHECK(weight(refused, 1000) == -1);
  const auto real = [](double value) {
    Weight found = 0;
    return to_weight(value, {.real = true}, found).ok() ? real_weight(found) : -1;
  };
  CHECK(real(0.1) == 0.1f);
  CHECK(real(4294967297) == 4294967296.0f);
  CHECK(real(1e-45) > 0);
  CHECK_FALSE(std::signbit(real(-0.0)));
  for (const double refused : {-0.25, 1e39, 1e-46, double(NAN), double(INFINITY)})
    CHECK(real(refused) == -1);
  CHECK(parse("1 2 3.0\n", {.weighted = true, .weight_form = {.scale = 0.5}}, true).edges ==
        Edges{1, 2, 2});
  CHECK(parse("1 2 1e-400\n", {.weighted = true, .weight_form = {.scale = 2}}, true).status ==
        Code::corrupt);
}

TEST_CASE("names number vertices") {
  VertexNames names;
  CHECK(names.find("a") == kNoVertex);
  for (VertexId v = 0; v < 5000; ++v) REQUIRE(names.add("name " + std::to_string(v * 7)) == v);
  for (VertexId v = 0; v < 5000; ++v) {
    REQUIRE(names.add("name " + std::to_string(v * 7)) == v);
    REQUIRE(names.find(names.name(v)) == v);
  }
  CHECK(names.find("name 1") == kNoVertex);
  CHECK(names.size() == 5000);
}

TEST_CASE("what a file is, is told by its first bytes") {
  const auto told = [](std::string_view head, FileFormat named = FileFormat::automatic) {
    FileFormat format = FileFormat::automatic;
    std::string reason;
    const Status status = detect(
        {.head = head, .is_all = true, .bytes = head.size(), .named = named}, format, reason);
    if (!status.ok()) return status.text();
    CHECK_FALSE(reason.empty());
    return std::string(word_of(format));
  };
  CHECK(told("0 1\n1 2\n") == "el");
  CHECK(told("\xef\xbb\xbf%MatrixMarket MATRIX coordinate\n") == "mtx");
  CHECK(told(" %MatrixMarket matrix coordinate pattern symmetric\n") == "mtx");
  CHECK(told("c x\r\np sp 1 1\r\n", FileFormat::edge_list) == "gr");
  CHECK(told("3 2\n2\n1 3\n2\n") == "metis");
  CHECK(told("%c\r3 2 11\r9 2 5\r9 1 5 3 5\r9 2 5\r", FileFormat::paper_binary) == "metis");
  // Edges of a list that might be sizes and neighbours, where some have no way back or are loops.
  CHECK(told("3 2\n2\n1 3\n1\n", FileFormat::metis) == "metis");
  CHECK(told("3 3\n2 3\n1 3\n2 2\n") == "el");
  CHECK(told("3 3\n2 3\n1 3\n1 2\n", FileFormat::weighted_edge_list) == "wel");
  CHECK(told("3 3\n2 3\n1 3\n1 2\n", FileFormat::metis) == "metis");
  CHECK(told("3 3\n2 3\n1 3\n1 2\n").find("--format metis or --format el") != std::string::npos);
  CHECK(told("1 2\n", FileFormat::matrix_market) == "mtx");  // whose reader refuses it
  CHECK(told("", FileFormat::gemini_binary) == "gemini");
  CHECK(told({"\0\0\0\0\1\0\0\0", 8}) == "gemini");
  CHECK(told({"\0\0\0\0\1\0\0\0\7\0\0\0", 12}, FileFormat::metis) == "metis");
  CHECK(told({"\0\0\0\0\1\0\0\0\7\0\0\0", 12}) == "paper");
  CHECK(told({"\0\0\0\0\1\0\0\0\0\0\x80\x3f", 12}) == "gemini-weighted");
  CHECK(told("PAR1").find("Parquet") != std::string::npos);
  CHECK(told({"\xff\xfe"
              "0\0 \0"
              "1\0",
              8})
            .find("UTF-16") != std::string::npos);
  // Of a stream's length nothing is known.
  FileFormat format = FileFormat::automatic;
  std::string reason;
  CHECK_FALSE(detect({.head = {"\0\0\0\0\1\0\0\0", 8}}, format, reason).ok());
}

TEST_CASE("METIS's lines may be cut between any two fields") {
  const std::string text = "% c\n4 3 111 2\n1 2 3 2 5\n1 2 3 1 5 4 6\n%\n1 2 3\n1 2 3 2 6";
  MetisRules rules;
  TextHeader header;
  REQUIRE(parse_metis_header(text, rules, header).ok());
  CHECK(header.lines == 2);
  CHECK(rules.skipped == 3);
  CHECK(rules.num_entries == 6);
  const std::string_view body = std::string_view(text).substr(header.bytes);
  for (std::size_t cut = 0; cut <= body.size(); ++cut) {
    const bool in_field =
        cut > 0 && cut < body.size() && text::is_digit(body[cut - 1]) && text::is_digit(body[cut]);
    if (in_field) continue;
    MetisReader reader(rules);
    EdgeStore edges(true);
    REQUIRE(reader.read(body.substr(0, cut), false, edges).ok());
    REQUIRE(reader.read(body.substr(cut), true, edges).ok());
    Edges all;
    edges.for_each(
        true,
        [&](VertexId u, VertexId v, Weight w) {
          all.insert(all.end(), {u, v, w});
        },
        [] {});
    CHECK(all == Edges{0, 1, 5, 1, 0, 5, 1, 3, 6, 3, 1, 6});
    CHECK(reader.lines() == 5);
  }
  for (const char* bad : {"", "%\n", "4\n", "0 3\n", "4 3 2\n", "4 3 1111\n", "4 3 11 1 1\n",
                          "4 3 11 9999\n", "-4 3\n", "4 x\n", "18446744073709551615 1\n"}) {
    INFO(bad);
    CHECK_FALSE(parse_metis_header(bad, rules, header).ok());
  }
}

TEST_CASE("hashed weights are the same in both directions, from 1 to 255") {
  std::uint64_t sum = 0;
  for (std::uint64_t u = 0; u < 100; ++u)
    for (std::uint64_t v = 0; v < 100; ++v) {
      REQUIRE(hash_weight(u, v) == hash_weight(v, u));
      REQUIRE(hash_weight(u, v) >= 1);
      REQUIRE(hash_weight(u, v) <= 255);
      sum += hash_weight(u, v);
    }
  CHECK(sum / 1e4 == Approx(128).margin(5));
}

TEST_CASE("a team's threads all run every round", "[team]") {
  for (const int size : {1, 2, 5}) {
    Team team(size, {});
    std::vector<std::uint64_t> counts(static_cast<std::size_t>(size));
    for (int round = 0; round < 2000; ++round)
      team.run([&](int thread) { ++counts[static_cast<std::size_t>(thread)]; });
    for (const std::uint64_t count : counts) CHECK(count == 2000);
  }
}
