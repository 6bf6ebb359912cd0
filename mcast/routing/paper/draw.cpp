// Figures 6 to 12 of the paper and heat maps, drawn by gnuplot, and the page that shows them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "mcast/routing/paper/paper.hpp"

namespace weft::mcast {

namespace {

using nlohmann::json;

// The figures in the paper's text.
struct Printed {
  int figure;
  const char *fabric, *pattern, *what, *paper, *run, *key;
};
constexpr Printed kPrinted[] = {
    {6, "bluelight", "256x34", "colours", "29", "unlimited", "colors"},
    {6, "bluelight", "90x90", "colours", "50", "unlimited", "colors"},
    {6, "taihulight", "128x32x40 x4", "groups", "10496", "unlimited", "groups"},
    {6, "taihulight", "128x32x40 x4", "colours", "269", "unlimited", "colors"},
    {6, "paper-torus", "", "most colours", "2166", "unlimited", "colors"},
    {6, "paper-dragonfly", "", "most colours", "486", "unlimited", "colors"},
    {6, "paper-random", "", "most colours", "2852", "unlimited", "colors"},
    {9, "bluelight", "64x16x34 x4", "EFI, any N", "24", "unlimited", "max_efi"},
    {9, "bluelight", "64x16x34 x4", "EFI, N = 128", "58", "recommended", "max_efi"},
    {9, "paper-random", "256x160", "EFI, any N", "20", "unlimited", "max_efi"},
    {9, "paper-random", "256x160", "EFI, N = 256", "34", "recommended", "max_efi"},
    {9, "taihulight", "128x32x40 x4", "EFI, any N", "37", "unlimited", "max_efi"},
    {9, "taihulight", "128x32x40 x4", "EFI, N = 128", "300", "recommended", "max_efi"},
    {9, "paper-random", "128x32x40 x4", "EFI, any N", "139", "unlimited", "max_efi"},
    {9, "paper-random", "128x32x40 x4", "EFI, N = 256", "4687", "recommended", "max_efi"},
    {10, "taihulight", "128x32x40 x4", "TFI, N = 128", "66", "recommended", "max_tfi"},
    {11, "taihulight", "128x32x40 x4", "mean TFI, N = 128", "1.36", "recommended", "mean_tfi"},
    {12, "", "", "seconds, any N (the longest)", "48.0", "unlimited", "seconds"},
    {12, "", "", "seconds, recommended N (the longest)", "191.5", "recommended", "seconds"},
};

struct Series {
  const char *run, *key, *title, *color;
};

struct Figure {
  int number;
  const char *title, *axis;
  bool log;
  std::vector<Series> series;
};

const std::vector<Figure>& figures() {
  static const std::vector<Figure> all = {
      {6,
       "Groups and colours without a limit",
       "count",
       true,
       {{"unlimited", "groups", "groups", "#9a9a9a"},
        {"unlimited", "colors", "colours", "#2a7fd4"}}},
      {7,
       "Maximum EFI without a limit",
       "groups on the busiest cable",
       true,
       {{"unlimited", "max_efi", "MR4LMS", "#2a7fd4"},
        {"unlimited-greedy", "max_efi", "MR4LMS as in the paper", "#8fbce8"},
        {"opensm-minhop", "max_efi", "OpenSM minhop", "#d4622a"},
        {"opensm-sssp", "max_efi", "OpenSM sssp", "#b59a2e"},
        {"paper-sssp", "max_efi", "SSSP-MC by group count", "#3f9b57"}}},
      {9,
       "Maximum EFI with the recommended number of entries",
       "groups on the busiest cable",
       true,
       {{"unlimited", "max_efi", "any number of entries", "#8fbce8"},
        {"recommended", "max_efi", "recommended", "#2a7fd4"}}},
      {10,
       "Maximum TFI with the recommended number of entries",
       "groups on one tree",
       false,
       {{"recommended", "max_tfi", "recommended", "#2a7fd4"}}},
      {12,
       "Run time",
       "seconds",
       true,
       {{"unlimited", "seconds", "any number of entries", "#8fbce8"},
        {"recommended", "seconds", "recommended", "#2a7fd4"}}},
  };
  return all;
}

const json* run_of(const json& results, const std::string& fabric, const std::string& pattern,
                   const std::string& run) {
  const json::json_pointer at("/runs/" + fabric + "/" + pattern + "/" + run);
  return results.contains(at) ? &results.at(at) : nullptr;
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value == static_cast<long>(value) ? "%.0f" : "%.3g", value);
  return text;
}

std::string cell(const json& results, const std::string& fabric, const std::string& pattern,
                 const char* run, const char* key) {
  const json* r = run_of(results, fabric, pattern, run);
  return r == nullptr ? "?" : number_text((*r)[key].get<double>());
}

Status write_text(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  return out ? Status() : Status(Code::not_permitted, path + ": cannot be written");
}

// Replaces black by the page's text colour, which depends on its light or dark theme.
void replace_all(std::string* text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text->find(from, at)) != std::string::npos; at += to.size()) {
    text->replace(at, from.size(), to);
  }
}

Status plot(const std::string& out, const std::string& name, const std::string& size,
            const std::string& commands) {
  const std::string script = out + "/" + name + ".gp", picture = out + "/" + name + ".svg";
  const Status status = write_text(
      script, "set terminal svg size " + size +
                  " dynamic font 'sans-serif,11'\nset border lc rgb '#888888'\nset output '" +
                  picture + "'\n" + commands + "\n");
  if (!status.ok()) return status;
  std::string quoted = script;
  replace_all(&quoted, "'", "'\\''");
  if (std::system(("gnuplot '" + quoted + "'").c_str()) != 0) {
    return {Code::not_found, "gnuplot failed on " + script + " (Debian package gnuplot-nox)"};
  }
  std::ifstream in(picture);
  std::string svg((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const size_t root = svg.find("<svg");
  const size_t end = svg.find('>', root);
  if (root == std::string::npos || end == std::string::npos) {
    return {Code::internal, picture + ": gnuplot made no picture"};
  }
  replace_all(&svg, "color=\"black\"", "");
  replace_all(&svg, "fill=\"black\"", "fill=\"currentColor\"");
  replace_all(&svg, "stroke=\"black\"", "stroke=\"currentColor\"");
  replace_all(&svg, "rgb(  0,   0,   0)", "currentColor");
  svg.insert(svg.find('>', root) + 1,
             "<style>svg{color:#222}@media (prefers-color-scheme:dark){svg{color:#ddd}}</style>");
  return write_text(picture, svg);
}

const char* const kPanels =
    "set multiplot layout 2,3\nset style data histogram\nset style histogram clustered gap 1\n"
    "set style fill solid 0.9 noborder\nset xtics rotate by -30 scale 0\nset grid ytics lc rgb "
    "'#999999'\nset key above samplen 1 spacing 0.9 font ',9'\n";

std::string panel_data(const json& results, const PaperFabric& fabric,
                       const std::vector<Series>& series) {
  std::ostringstream data;
  data << "$data << EOD\n";
  for (const PaperPattern& pattern : fabric.patterns) {
    data << '"' << pattern.label << '"';
    for (const Series& each : series) {
      const json* r = run_of(results, fabric.name, pattern.label, each.run);
      data << ' ' << (r == nullptr ? "NaN" : (*r)[each.key].dump());
    }
    data << '\n';
  }
  data << "EOD\n";
  return data.str();
}

Status draw_bars(const PaperOptions& options, const json& results, const Figure& figure,
                 bool* drawn) {
  *drawn = false;
  std::ostringstream text;
  text << kPanels << "set ylabel '" << figure.axis << "'\n"
       << (figure.log ? "set logscale y\n" : "");
  for (const PaperFabric& fabric : paper_fabrics(options.quick)) {
    // gnuplot refuses to draw a series of which nothing has been run.
    std::vector<Series> series = figure.series;
    std::erase_if(series, [&](const Series& each) {
      return std::none_of(fabric.patterns.begin(), fabric.patterns.end(), [&](const auto& pattern) {
        return run_of(results, fabric.name, pattern.label, each.run) != nullptr;
      });
    });
    if (series.empty()) {
      text << "set multiplot next\n";
      continue;
    }
    *drawn = true;
    text << panel_data(results, fabric, series) << "set title '" << fabric.title << "'\n"
         << "set yrange [" << (figure.number == 12 ? "*" : "0.8") << ":*]\nplot ";
    for (size_t s = 0; s < series.size(); ++s) {
      text << (s ? ", " : "") << "$data using " << s + 2 << (s ? "" : ":xtic(1)") << " title '"
           << series[s].title << "' lc rgb '" << series[s].color << "'";
    }
    text << '\n';
  }
  text << "unset multiplot\n";
  if (!*drawn) return Code::ok;
  return plot(options.out, "figure" + std::to_string(figure.number), "1200,640", text.str());
}

// Figure 8: EFI against the size of the table.
Status draw_table_sizes(const PaperOptions& options, const json& results, bool* drawn) {
  std::ostringstream text, curves;
  text << "set logscale xy 2\nset xlabel 'table entries'\nset ylabel 'maximum EFI'\n"
       << "set grid lc rgb '#999999'\n";
  int curve = 0;
  const char* const colors[] = {"#2a7fd4", "#d4622a"};
  for (const PaperFabric& fabric : paper_fabrics(options.quick)) {
    for (const PaperPattern& pattern : fabric.patterns) {
      std::vector<std::pair<int, std::string>> points;
      const json::json_pointer at("/runs/" + fabric.name + "/" + pattern.label);
      if (!results.contains(at)) continue;
      for (const auto& [run, result] : results.at(at).items()) {
        if (run.rfind("colors-", 0) != 0) continue;
        points.push_back({std::atoi(run.c_str() + 7), result["max_efi"].dump()});
      }
      if (points.empty()) continue;
      std::sort(points.begin(), points.end());
      text << "$c" << curve << " << EOD\n";
      for (const auto& [n, efi] : points) text << n << ' ' << efi << '\n';
      text << "EOD\n";
      curves << (curve ? ", " : "plot ") << "$c" << curve << " with linespoints pt 7 lw 2 lc rgb '"
             << colors[curve % 2] << "' title '" << fabric.title << ", " << pattern.label << "'";
      ++curve;
    }
  }
  *drawn = curve > 0;
  if (curve == 0) return Code::ok;  // --only excluded those fabrics
  return plot(options.out, "figure8", "700,420", text.str() + curves.str());
}

// Figure 11: trees and groups of every colour.
Status draw_colors(const PaperOptions& options, const json& results, bool* drawn) {
  const PaperFabric& fabric = paper_fabrics(options.quick)[1];
  const json* run = run_of(results, fabric.name, fabric.patterns.back().label, "recommended");
  *drawn = run != nullptr;
  if (run == nullptr) return Code::ok;
  std::ostringstream text;
  text << "set xlabel 'colour'\nset ylabel 'count'\nset grid ytics lc rgb '#999999'\nset title '"
       << fabric.title << ", " << fabric.patterns.back().label << ", " << fabric.recommended
       << " entries'\nset style fill solid 0.9 noborder\nset boxwidth 0.9\n$d << EOD\n";
  const json &trees = (*run)["trees_of_color"], &groups = (*run)["groups_of_color"];
  for (size_t c = 0; c < trees.size(); ++c) {
    text << c << ' ' << trees[c].dump() << ' ' << groups[c].dump() << '\n';
  }
  text
      << "EOD\nplot [-1:*] [0:*] $d using 1:3 with boxes lc rgb '#8fbce8' title 'groups', $d using "
         "1:2 with boxes lc rgb '#2a7fd4' title 'trees'";
  return plot(options.out, "figure11", "1000,420", text.str());
}

// Time and memory against the size of the fabric; *table has the numbers as HTML.
Status draw_scaling(const PaperOptions& options, const json& results, std::string* table) {
  std::ostringstream data, html;
  for (const PaperFabric& fabric : scaling_fabrics(options.quick)) {
    const json* run = run_of(results, fabric.name, fabric.patterns[0].label, "unlimited");
    if (run == nullptr) continue;
    const uint32_t ports = fabric.sizes[0];
    const double seconds = (*run)["seconds"], groups = (*run)["groups"];
    data << ports * ports * ports / 4 << ' ' << seconds << ' ' << (*run)["peak_memory_mib"].dump()
         << '\n';
    html << "<tr><td>" << ports << "</td><td>" << fabric.title << "</td><td>" << groups
         << "</td><td>" << (*run)["colors"].dump() << "</td><td>" << (*run)["max_efi"].dump()
         << "</td><td>" << number_text(seconds) << "</td><td>"
         << number_text(seconds * 1e3 / groups) << "</td><td>" << (*run)["peak_memory_mib"].dump()
         << "</td></tr>";
  }
  if (data.str().empty()) return Code::ok;
  *table =
      "<table><tr><th>ports</th><th>hosts</th><th>groups</th><th>colours</th><th>EFI</th>"
      "<th>seconds</th><th>ms a group</th><th>MiB</th></tr>" +
      html.str() + "</table>";
  return plot(options.out, "scaling", "1000,420",
              "set multiplot layout 1,2\nset logscale xy\nset xlabel 'hosts'\nset grid lc rgb "
              "'#999999'\nset key off\n$d << EOD\n" +
                  data.str() +
                  "EOD\nset ylabel 'seconds'\nset title 'Processor time'\nplot $d using 1:2 with "
                  "linespoints lw 2 pt 7 lc rgb '#2a7fd4'\nset ylabel 'MiB'\nset title 'Peak "
                  "memory'\nplot $d using 1:3 with linespoints lw 2 pt 7 lc rgb '#d4622a'\nunset "
                  "multiplot\n");
}

Status draw_heat(const PaperOptions& options, const json& results, const PaperFabric& fabric,
                 bool* drawn) {
  *drawn = false;
  const std::string& label = fabric.patterns.back().label;
  const json* ours = run_of(results, fabric.name, label, "recommended");
  const json* minhop = run_of(results, fabric.name, label, "opensm-minhop");
  if (ours == nullptr || minhop == nullptr) return Code::ok;
  std::ostringstream text;
  const double most = (*minhop)["max_efi"].get<double>();
  text << "set multiplot layout 1,2\nset palette defined (0 '#fde725', 0.35 '#35b779', 0.7 "
          "'#31688e', 1 '#440154')\nset logscale cb\nset cbrange [1:"
       << std::max(2.0, most) << "]\nset cblabel 'EFI'\nset xlabel 'switch'\nset ylabel 'switch'\n";
  for (const auto& [run, name] : {std::pair{ours, "MR4LMS, recommended entries"},
                                  std::pair{minhop, "OpenSM minhop, an entry per group"}}) {
    const json& heat = (*run)["heat"];
    const uint32_t side = heat["side"], switches = heat["switches"];
    const double scale = double(switches) / side;
    text << "$h << EOD\n";
    for (size_t i = 0; i < heat["cells"].size(); ++i) {
      const int efi = heat["cells"][i];
      if (efi < 0) continue;
      text << double(i % side) * scale << ' ' << double(i / side) * scale << ' ' << std::max(efi, 1)
           << '\n';
    }
    text << "EOD\nset title '" << name << "'\nplot [0:" << switches << "] [0:" << switches
         << "] $h using 1:2:3 with points pt 5 ps " << 26.0 / side << " lc palette notitle\n";
  }
  text << "unset multiplot\n";
  *drawn = true;
  return plot(options.out, "heat-" + fabric.name, "1100,480", text.str());
}

std::string printed_table(const json& results, int figure, bool quick) {
  std::ostringstream html;
  if (quick) return "";  // the paper's numbers are of the full size
  for (const Printed& p : kPrinted) {
    if (p.figure != figure) continue;
    double best = -1;
    std::string where;
    for (const PaperFabric& fabric : paper_fabrics(false)) {
      if (*p.fabric != 0 && fabric.name != p.fabric) continue;
      for (const PaperPattern& pattern : fabric.patterns) {
        if (*p.pattern != 0 && pattern.label != p.pattern) continue;
        const json* r = run_of(results, fabric.name, pattern.label, p.run);
        if (r == nullptr || (*r)[p.key].get<double>() <= best) continue;
        best = (*r)[p.key].get<double>();
        where = fabric.title + ", " + pattern.label;
      }
    }
    if (html.str().empty()) {
      html << "<table><tr><th></th><th></th><th>paper</th><th>ours</th></tr>";
    }
    html << "<tr><td>" << where << "</td><td>" << p.what << "</td><td>" << p.paper << "</td><td>"
         << (best < 0 ? "?" : number_text(best)) << "</td></tr>";
  }
  if (!html.str().empty()) html << "</table>";
  return html.str();
}

std::string summary_table(const PaperOptions& options, const json& results) {
  std::ostringstream html;
  html << "<table><tr><th>fabric</th><th>groups by</th><th>groups</th><th>colours</th><th>EFI</th>"
          "<th>EFI, N</th><th>TFI, N</th><th>minhop</th><th>OpenSM sssp</th><th>paper's "
          "SSSP</th><th>ms a group</th><th>ms, N</th><th>MiB</th></tr>";
  for (const PaperFabric& fabric : paper_fabrics(options.quick)) {
    for (const PaperPattern& pattern : fabric.patterns) {
      const auto add = [&](const char* run, const char* key) {
        html << "<td>" << cell(results, fabric.name, pattern.label, run, key) << "</td>";
      };
      const auto milliseconds = [&](const char* run) {
        const json* r = run_of(results, fabric.name, pattern.label, run);
        html << "<td>"
             << (r == nullptr ? "?"
                              : number_text((*r)["seconds"].get<double>() * 1e3 /
                                            (*r)["groups"].get<double>()))
             << "</td>";
      };
      html << "<tr><td>" << fabric.title << "</td><td>" << pattern.label << "</td>";
      add("unlimited", "groups");
      add("unlimited", "colors");
      add("unlimited", "max_efi");
      add("recommended", "max_efi");
      add("recommended", "max_tfi");
      add("opensm-minhop", "max_efi");
      add("opensm-sssp", "max_efi");
      add("paper-sssp", "max_efi");
      milliseconds("unlimited");
      milliseconds("recommended");
      add("recommended", "peak_memory_mib");
      html << "</tr>";
    }
  }
  html << "</table>";
  return html.str();
}

}  // namespace

Status draw_paper(const PaperOptions& options, const json& results) {
  std::ostringstream page;
  page << "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
          "content=\"width=device-width\"><title>MR4LMS: the paper's evaluation</title><style>"
          ":root{color-scheme:light dark}body{font:15px/1.5 sans-serif;max-width:1200px;margin:2em "
          "auto;padding:0 1em}img{width:100%;height:auto}table{border-collapse:collapse;margin:1em "
          "0;display:block;overflow-x:auto}td,th{padding:.2em .7em;border-bottom:1px solid "
          "#8886;text-align:right}td:nth-child(-n+2),th:nth-child(-n+2){text-align:left}"
          "</style></head><body><h1>MR4LMS: the paper's evaluation</h1><p>"
       << (options.quick ? "Small fabrics of the paper's kinds. "
                         : "The paper's fabrics at full "
                           "size. ")
       << "EFI: groups on the busiest cable between switches. TFI: groups on one tree. N: the "
          "recommended number of table entries. Times are processor time of one thread.</p>"
       << summary_table(options, results);
  bool drawn = false;
  const auto section = [&](int number, const std::string& title, const std::string& file) {
    if (!drawn) return;
    page << "<h2>Figure " << number << ": " << title << "</h2><img src=\"" << file
         << ".svg\" alt=\"" << title << "\">" << printed_table(results, number, options.quick);
  };
  Status status;
  for (const Figure& figure : figures()) {
    if (status.ok()) status = draw_bars(options, results, figure, &drawn);
    section(figure.number, figure.title, "figure" + std::to_string(figure.number));
    if (figure.number == 7) {
      if (status.ok()) status = draw_table_sizes(options, results, &drawn);
      section(8, "Maximum EFI against the size of the table", "figure8");
    } else if (figure.number == 10) {
      if (status.ok()) status = draw_colors(options, results, &drawn);
      section(11, "Trees and groups of every colour", "figure11");
    }
  }
  std::string scaling;
  if (status.ok()) status = draw_scaling(options, results, &scaling);
  if (!scaling.empty()) {
    page << "<h2>Scaling</h2><p>Fat trees, random groups of 16, any number of entries.</p><img "
            "src=\"scaling.svg\" alt=\"time and memory against hosts\">"
         << scaling;
  }
  for (const PaperFabric& fabric : paper_fabrics(options.quick)) {
    drawn = false;
    if (status.ok()) status = draw_heat(options, results, fabric, &drawn);
    if (!drawn) continue;
    page << "<h2>EFI of the cables: " << fabric.title
         << "</h2><p>Groups: " << fabric.patterns.back().label
         << ". A dot is a cable between two switches, in the order of the file (several, the "
            "busiest counts).</p><img src=\"heat-"
         << fabric.name << ".svg\" alt=\"EFI of every cable\">";
  }
  page << "</body></html>\n";
  return status.ok() ? write_text(options.out + "/index.html", page.str()) : status;
}

}  // namespace weft::mcast
