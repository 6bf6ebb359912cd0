"""The page with tables and pictures, and the same as JSON."""
import html
import json
import math
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Beside this file where it is installed.
sys.path[:0] = [HERE, os.path.join(HERE, '..', '..', 'tools')]
from weft_page import chart, theme  # noqa: E402

NOTHING = '-'  # in a cell that has no figure
WHY_NOTHING = 'no figure, as it was not measured or has fewer than three rounds'


class Page:
    def __init__(self, folder, title, about):
        self.folder, self.parts, self.data = folder, [], {'about': about}
        self.title = title
        self.note(about)

    def note(self, text):
        self.parts.append(f'<p class="muted">{html.escape(text)}</p>')

    def table(self, title, heads, rows, note='', nothing=WHY_NOTHING):
        """`nothing`: what a cell without a figure means."""
        print(f'\n{title}')
        widths = [max(len(str(row[i])) for row in [heads, *rows]) for i in range(len(heads))]
        for row in [heads, *rows]:
            print('  '.join(str(cell).rjust(width) for cell, width in zip(row, widths)), flush=True)

        def line(cells, tag):
            return '<tr>' + ''.join(f'<{tag}>{html.escape(str(c))}</{tag}>' for c in cells) + '</tr>'
        if any(str(cell).strip() == NOTHING for row in rows for cell in row):
            note = f'{note} A dash: {nothing}.'.strip()
        self.parts.append(f'<h2>{html.escape(title)}</h2><div class="scroll"><table><thead>{line(heads, "th")}'
                          '</thead><tbody>' + ''.join(line(row, 'td') for row in rows) + '</tbody></table></div>')
        if note:
            self.note(note)
        self.data[title] = {'heads': heads, 'rows': rows, 'note': note}
        self.write()

    def figure(self, title, curves, across, up, log=False, note=''):
        """Curves by name, of points (x, y) or (x, y, least, most)."""
        curves = {name: points for name, points in curves.items() if points}
        series = [chart.Series(colour, [self.point(name, across, up, *point) for point in points])
                  for colour, (name, points) in enumerate(curves.items())]
        xs = sorted({point[0] for points in curves.values() for point in points})
        ticks = None
        if xs and (log or len(xs) <= 8):
            name_of = chart.size if across == 'bytes' else chart.number
            ticks = {x: name_of(x) for x in xs[::max(1, math.ceil(len(xs) / 7))]}
        self.picture(title, curves, f'{up}, over {across}', chart.legend(enumerate(curves)) +
                     chart.lines(title, series, log, log, ticks), note)

    @staticmethod
    def point(name, across, up, x, y, least=None, most=None):
        text = f'{name}: {y:.4g} {up}\n' + (chart.size(x) if across == 'bytes' else f'{chart.number(x)} {across}')
        if least is not None and most is not None:
            text += f', {least:.4g} to {most:.4g}'
        return chart.Point(x, y, text, least, most)

    def bars(self, title, values, up, note=''):
        self.picture(title, values, up, chart.bars(title, [
            (name, value, f'{value:.3g} ({least:.3g} to {most:.3g})') for name, value, least, most in values]), note)

    def picture(self, title, data, caption, drawn, note):
        print(f'\n{title}: drawn', flush=True)
        self.data[title] = data
        self.parts.append(f'<h2>{html.escape(title)}</h2><figure class="alone"><figcaption>{html.escape(caption)}'
                          f'</figcaption>{drawn}</figure>')
        if note:
            self.note(note)
        self.write()

    def write(self):
        parts = [f'<h1>{html.escape(self.title)}</h1>', *self.parts,
                 '<p><a href="results.json">The numbers</a></p>']
        with open(os.path.join(self.folder, 'index.html'), 'w', encoding='utf-8') as file:
            file.write(theme.document(self.title, '\n'.join(parts)))
        with open(os.path.join(self.folder, 'results.json'), 'w', encoding='utf-8') as file:
            json.dump(self.data, file, indent=1)
