"""The beginning of the report: three sentences, and a map of where Weft is ahead, level and behind."""

import html

from . import tables, verdict

TITLES = {
    "latency": "Latency", "latency_vector": "Latency of every other 8 bytes",
    "bw": "Bandwidth", "bibw": "Bandwidth in both directions",
    "mbw_mr": "Message rate", "multi_lat": "Latency of several pairs",
    "latency_mt": "Latency with threads",
}
# Of each word a sign as well, for those who do not see the colours.
SIGNS = {"ahead": "+", "level": "=", "behind": "\u2212", "unsteady": "~"}
MEANINGS = {
    "ahead": "Weft is ahead of the best other library",
    "level": "level: medians within 5 %, or within the other's spread",
    "behind": "behind",
    "unsteady": "unsteady: the rounds differ by more than a factor of two, and do not say which is ahead",
}


def title_of(program, count):
    return "%s, %d" % (TITLES.get(program.name, program.name), count)


def times(speedup):
    return "%.2f times as fast" % speedup


def verdict_cell(found):
    """A cell for a table of numbers."""
    if found is None:
        return "<td>-</td>"
    css = {"ahead": "faster", "behind": "slower"}.get(found.word, "muted")
    if found.word == "unsteady":
        return '<td class="muted">~ unsteady</td>'
    return '<td class="%s">%s</td>' % (css, "%.2f&times;" % found.speedup if found.speedup
                                       else "~ " + found.word)


def _sizes_text(sizes, all_sizes):
    """Sizes as ranges: 8 B, 64 KiB to 1 MiB."""
    ranges = []
    for size in sizes:
        place = all_sizes.index(size)
        if ranges and all_sizes.index(ranges[-1][1]) == place - 1:
            ranges[-1][1] = size
        else:
            ranges.append([size, size])
    return ", ".join(tables.size_text(first) if first == last else
                     "%s to %s" % (tables.size_text(first), tables.size_text(last))
                     for first, last in ranges)


def _list(words):
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def sentences(points, work, versions, peers):
    """Three: what was measured, how many points are what, and where most and least."""
    judged = {(program, count, size): verdict.judge(points, program, count, size, peers)
              for program, counts in work for count in counts
              for size in points.sizes(program, count)}
    judged = {key: found for key, found in judged.items() if found}
    rounds = max(len(points.samples(program, count, size, "weft")) for program, count, size in judged)
    first = ("The same %d programs were built with %s and run in turn on this machine, %d round%s each." %
             (len(work), _list([versions["weft"]] + [versions[peer] for peer in peers]), rounds,
              "" if rounds == 1 else "s"))
    number = {word: sum(found.word == word for found in judged.values()) for word in SIGNS}
    second = ("Of %d points, each a program with a number of processes and a size, Weft is ahead of the best "
              "other library at %d, level at %d and behind at %d%s." %
              (len(judged), number["ahead"], number["level"], number["behind"],
               "; %d are too unsteady to say" % number["unsteady"] if number["unsteady"] else ""))
    means, behind = {}, []
    for program, counts in work:
        of_program = [found.speedup for (which, _, _), found in judged.items() if which is program]
        speedups = list(filter(None, of_program))
        if 2 * len(speedups) > len(of_program):  # of a few points a mean says nothing
            means[program] = tables.geometric_mean(speedups)
        for count in counts:
            sizes = points.sizes(program, count)
            where = [size for size in sizes
                     if (found := judged.get((program, count, size))) and found.word == "behind"]
            if where:
                behind.append((len(where), "%s with %d processes%s" % (
                    TITLES.get(program.name, program.name).lower(), count,
                    " at " + _sizes_text(where, sizes) if where != [0] else "")))
    third = "Too few points are steady for a mean: the machine was busy"
    if means:
        most, least = max(means, key=means.get), min(means, key=means.get)

        def said(program):
            return "%s (%s)" % (TITLES.get(program.name, program.name).lower(), times(means[program]))
        third = "In the mean over the sizes it does best in %s" % said(most)
        third += " and worst in %s" % said(least) if least is not most else ""
    behind = [text for _, text in sorted(behind, key=lambda item: -item[0])]
    if behind:
        more = len(behind) - 2
        third += "; it is behind in " + ", ".join(behind[:2])
        third += " and elsewhere, as the map shows" if more > 0 else ""
    return [first, second, third + "."]


def _cell(points, program, count, size, peers, versions):
    found = verdict.judge(points, program, count, size, peers)
    if found is None:
        return "<td></td>"

    def of(name):
        samples = points.samples(program, count, size, name)
        return "%s %s %s (%s to %s)" % (
            versions[name], tables.value_text(points.value(program, count, size, name)), program.unit,
            tables.value_text(min(samples)), tables.value_text(max(samples)))
    told = "%s: %s, %s%s" % (tables.size_text(size) if size else title_of(program, count), of("weft"),
                             of(found.peer), "; " + times(found.speedup) if found.speedup else "; unsteady")
    return '<td class="%s" title="%s">%s</td>' % (found.word, html.escape(told), SIGNS[found.word])


def heat_map(points, work, versions, peers):
    """A row for each program and number of processes, a column for each size."""
    sizes = sorted({size for program, counts in work for count in counts
                    for size in points.sizes(program, count)})
    names = {1: "1 B", 64: "64 B", 1024: "1 KiB", 16384: "16 KiB", 262144: "256 KiB", 4194304: "4 MiB"}
    named = [size for size in sizes if size in names] or sizes[:1]
    head, place = "<th></th>", 0
    while place < len(sizes):  # a name spans the columns up to the next one
        following = next((at for at in range(place + 1, len(sizes)) if sizes[at] in named), len(sizes))
        # A single column, such as the last, is narrower than a name.
        text = names.get(sizes[place], "") if sizes[place] in named and following - place > 1 else ""
        head += '<th colspan="%d">%s</th>' % (following - place, text)
        place = following
    rows = []
    for program, counts in work:
        for count in counts:
            there = points.sizes(program, count)
            rows.append("<tr><th>%s</th>%s</tr>" % (html.escape(title_of(program, count)), "".join(
                _cell(points, program, count, size, peers, versions) if size in there else "<td></td>"
                for size in sizes)))
    key = "".join('<span><span class="key %s">%s</span>%s</span>' % (word, SIGNS[word], MEANINGS[word])
                  for word in SIGNS)
    return ('<div class="scroll"><table class="map"><thead><tr>%s</tr></thead><tbody>%s</tbody></table></div>'
            '<div class="legend">%s</div><p class="muted">Rows: program and number of processes; columns: '
            "size of the message. Point at a cell to see its values.</p>" % (head, "".join(rows), key))


def overview(points, work, versions, peers):
    """HTML; without a map where there is nothing to compare."""
    if "weft" not in versions or not peers:
        return '<p class="lead">%s was measured alone.</p>' % html.escape(" and ".join(versions.values()))
    return '<p class="lead">%s</p>%s' % (html.escape(" ".join(sentences(points, work, versions, peers))),
                                         heat_map(points, work, versions, peers))
