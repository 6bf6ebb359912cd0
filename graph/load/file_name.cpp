// What a file's name says of its format.
#include <algorithm>
#include <cctype>

#include "file_source.hpp"

namespace weft::graph {
namespace {

std::string lower_suffix(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  std::string suffix = dot == std::string::npos || path.find('/', dot) != std::string::npos
                           ? ""
                           : path.substr(dot + 1);
  std::transform(suffix.begin(), suffix.end(), suffix.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return suffix;
}

struct NamedFormat {
  std::string_view suffix;
  FileFormat format;
};
constexpr NamedFormat kFormats[] = {
    {"el", FileFormat::edge_list},         {"txt", FileFormat::edge_list},
    {"tsv", FileFormat::edge_list},        {"csv", FileFormat::edge_list},
    {"edges", FileFormat::edge_list},      {"edgelist", FileFormat::edge_list},
    {"e", FileFormat::edge_list},          {"wel", FileFormat::weighted_edge_list},
    {"mtx", FileFormat::matrix_market},    {"gr", FileFormat::dimacs},
    {"graph", FileFormat::metis},          {"metis", FileFormat::metis},
    {"gemini", FileFormat::gemini_binary}, {"wgemini", FileFormat::gemini_weighted},
    {"bin", FileFormat::paper_binary}};

// Names of unsupported formats, each with advice.
struct OtherFormat {
  std::string_view suffix, advice;
};
constexpr OtherFormat kOtherFormats[] = {
    {"sg", "GAPBS's serialized graphs are not read: write it as text with its converter -e (.el)"},
    {"wsg",
     "GAPBS's serialized graphs are not read: write it as text with its converter -e (.wel)"},
    {"bz2", "only gzip, zstd and xz are read: inflate it first"},
    {"lz4", "only gzip, zstd and xz are read: inflate it first"},
    {"zip", "only gzip, zstd and xz are read: inflate it first"},
    {"tgz", "it is an archive: unpack it first"},
    {"tar", "it is an archive: unpack it first"},
    {"parquet", "Parquet is not read: write its columns as CSV"},
    {"arrow", "Arrow's file format is not read: write its columns as CSV"},
    {"feather", "Arrow's file format is not read: write its columns as CSV"}};

}  // namespace

std::string_view advice_on(std::string path) {
  (void)compression_by_name(path);
  const std::string suffix = lower_suffix(path);
  for (const OtherFormat& other : kOtherFormats)
    if (other.suffix == suffix) return other.advice;
  return {};
}

FileFormat format_by_name(std::string path) {
  (void)compression_by_name(path);
  const std::string suffix = lower_suffix(path);
  for (const NamedFormat& named : kFormats)
    if (named.suffix == suffix) return named.format;
  return FileFormat::automatic;
}

}  // namespace weft::graph
