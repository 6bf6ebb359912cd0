"""Curves as SVG, drawn by gnuplot, in colours that follow the page's light or dark theme."""

import re
import shutil
import subprocess

from . import tables

# gnuplot writes colours as numbers. These stand for roles, and become CSS variables of the page.
_ROLES = {1: "--axis", 2: "--text-muted", 3: "--grid"}
_FIRST_SERIES = 10

# One definition of the point marks for all charts of the page, under the names gnuplot uses.
MARKS = """<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs>
<circle id="mark0" r="1" fill="currentColor"/>
<rect id="mark1" x="-0.9" y="-0.9" width="1.8" height="1.8" fill="currentColor"/>
<path id="mark2" d="M0,-1.3 L-1.2,0.9 L1.2,0.9 z" fill="currentColor"/>
<path id="mark3" d="M0,-1.3 L1.3,0 L0,1.3 L-1.3,0 z" fill="currentColor"/>
</defs></svg>"""
_POINT_TYPES = (7, 5, 9, 13)  # filled circle, square, triangle, diamond in gnuplot's numbering

# Sizes of a chart in the page's two kinds of grid, so that text comes out equally large.
_WIDE = (560, 350)
SMALL = (420, 290)


def available():
    return shutil.which("gnuplot") is not None


def curves(title, series, large_values=False, width=_WIDE[0], height=_WIDE[1]):
    """An SVG element of value over message size, both logarithmic.

    `series` is a list of (index of the colour, [(size, value), ...]).
    """
    sizes = sorted({size for _, points in series for size, _ in points})
    every = 3 if len(sizes) <= 14 else 4
    ticks = ", ".join('"%s" %d' % (tables.size_text(size), size) for size in sizes[::every])
    # %s and %c are gnuplot's: the number before a k, M or G.
    script = _common(width, height, "%.0s%c" if large_values else "%g") + [
        "set logscale x 2", "set logscale y 10",
        "set xtics nomirror scale 0.5 textcolor rgb '#000002' (%s)" % ticks,
        "set xrange [%d:%d]" % (sizes[0], max(sizes[-1] * 1.2, sizes[0] * 2)),
    ]
    return _draw(title, script, series)


def curves_over_processes(title, series, width=SMALL[0], height=SMALL[1]):
    """As `curves`, with process counts instead of sizes on the horizontal axis."""
    counts = sorted({count for _, points in series for count, _ in points})
    ticks = ", ".join('"%d" %d' % (count, count) for count in counts)
    script = _common(width, height, "%g") + [
        "set logscale x 2", "set logscale y 10",
        "set xtics nomirror scale 0.5 textcolor rgb '#000002' (%s)" % ticks,
        "set xrange [%g:%g]" % (counts[0] * 0.8, counts[-1] * 1.25),
    ]
    return _draw(title, script, series)


def _common(width, height, value_format):
    return [
        "set terminal svg size %d,%d dynamic font 'sans-serif,14'" % (width, height),
        "set border 3 lw 1 lc rgb '#000001'",
        "set grid xtics ytics lt 1 lw 0.6 lc rgb '#000003'",
        "set ytics nomirror scale 0.5 textcolor rgb '#000002' format '%s'" % value_format,
        "set mytics 1", "unset key", "set lmargin 9", "set rmargin 3",
    ]


def _draw(title, script, series):
    data, plots = [], []
    for number, (colour, points) in enumerate(series):
        data.append("$data%d << END\n%s\nEND" %
                    (number, "\n".join("%d %.10g" % point for point in points)))
        plots.append("$data%d using 1:2 with linespoints lw 2 pt %d ps 0.55 lc rgb '#%06x'" %
                     (number, _POINT_TYPES[colour % len(_POINT_TYPES)], _FIRST_SERIES + colour))
    text = "\n".join(script + data + ["plot " + ", ".join(plots)]) + "\n"
    result = subprocess.run(["gnuplot"], input=text.encode(), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, timeout=60, check=False)
    if result.returncode != 0:
        raise RuntimeError("gnuplot failed: " + result.stderr.decode(errors="replace").strip())
    return _themed(title, result.stdout.decode())


def _themed(title, svg):
    svg = svg[svg.index("<svg"):]
    svg = re.sub(r"<title>.*?</title>\s*<desc>.*?</desc>", "<title>%s</title>" % title, svg,
                 flags=re.DOTALL)
    svg = re.sub(r"<defs>.*?</defs>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sid="[^"]*"', "", svg)
    for mark, point_type in enumerate(_POINT_TYPES):
        svg = svg.replace("'#gpPt%d'" % (point_type - 1), "'#mark%d'" % mark)
    svg = svg.replace('color="black"', "").replace('stroke="black"', "")
    svg = svg.replace('font-family="sans-serif"', "")
    svg = re.sub(r"\n\s*\n+", "\n", svg)
    return re.sub(r"rgb\(\s*0,\s*0,\s*(\d+)\)", _variable, svg)


def _variable(match):
    number = int(match.group(1))
    return "var(%s)" % _ROLES.get(number, "--series-%d" % (number - _FIRST_SERIES))
