"""The page with tables and pictures, and the same as JSON."""
import html
import json
import os
import re
import shutil
import subprocess

STYLE = """body{font:15px/1.5 sans-serif;max-width:64em;margin:2em auto;padding:0 1em}
table{border-collapse:collapse;margin:.6em 0}td,th{padding:.2em .8em;border-bottom:1px solid #ccc;
text-align:right}td:first-child,th:first-child{text-align:left}p{color:#444}img{max-width:100%}"""


class Page:
    def __init__(self, folder, title, about):
        self.folder, self.parts, self.data = folder, [], {'about': about}
        self.title = title
        self.note(about)
        self.draws = shutil.which('gnuplot') is not None
        if not self.draws:
            self.note('gnuplot is not installed, so the pictures are left out; their numbers are in '
                      'results.json.')

    def note(self, text):
        self.parts.append(f'<p>{html.escape(text)}</p>')

    def table(self, title, heads, rows, note=''):
        print(f'\n{title}')
        widths = [max(len(str(row[i])) for row in [heads, *rows]) for i in range(len(heads))]
        for row in [heads, *rows]:
            print('  '.join(str(cell).rjust(width) for cell, width in zip(row, widths)), flush=True)

        def line(cells, tag):
            return '<tr>' + ''.join(f'<{tag}>{html.escape(str(c))}</{tag}>' for c in cells) + '</tr>'
        self.parts.append(f'<h2>{html.escape(title)}</h2><table>{line(heads, "th")}' +
                          ''.join(line(row, 'td') for row in rows) + '</table>')
        if note:
            self.note(note)
        self.data[title] = {'heads': heads, 'rows': rows, 'note': note}
        self.write()

    def figure(self, title, curves, across, up, log=False, note=''):
        script = [f'set xlabel "{across}"', f'set ylabel "{up}"', 'set key outside bottom horizontal',
                  'set yrange [0:*]']
        if log:
            script += ['set logscale xy', 'set yrange [*:*]']
        blocks, plots = [], []
        for number, (name, points) in enumerate(curves.items()):
            if not points:
                continue
            blocks += [f'$c{number} << END'] + [' '.join(f'{one:g}' for one in point)
                                                for point in points] + ['END']
            # Points may have the least and the most beside them.
            lines = 'linespoints' if len(points[0]) == 2 else 'yerrorlines'
            plots.append(f'$c{number} with {lines} pointtype 7 pointsize 0.4 title "{name}"')
        self.picture(title, curves, blocks + script, plots, note)

    def bars(self, title, values, up, note=''):
        block = ['$bars << END'] + [f'"{name}" {value:g} {least:g} {most:g}'
                                    for name, value, least, most in values] + ['END']
        script = ['set style fill solid 0.7', 'set boxwidth 0.6', f'set ylabel "{up}"',
                  'set yrange [0:*]', 'unset key']
        self.picture(title, values, block + script,
                     ['$bars using 0:2:3:4:xtic(1) with boxerrorbars'], note)

    def picture(self, title, data, script, plots, note):
        print(f'\n{title}: drawn' if self.draws and plots else f'\n{title}', flush=True)
        self.data[title] = data
        self.parts.append(f'<h2>{html.escape(title)}</h2>')
        if self.draws and plots:
            name = re.sub(r'[^a-z0-9]+', '-', title.lower()).strip('-') + '.svg'
            text = '\n'.join(['set terminal svg size 760,400 dynamic background "white"',
                              f'set output "{name}"', 'set border 3', 'set grid ytics',
                              'set tics nomirror'] + script + ['plot ' + ', '.join(plots)])
            subprocess.run(['gnuplot'], input=text + '\n', text=True, cwd=self.folder, check=True,
                           timeout=60)
            self.parts.append(f'<img src="{name}" alt="{html.escape(title)}">')
        if note:
            self.note(note)
        self.write()

    def write(self):
        with open(os.path.join(self.folder, 'index.html'), 'w', encoding='utf-8') as file:
            file.write(f'<!doctype html><meta charset="utf-8"><title>{html.escape(self.title)}</title>'
                       f'<style>{STYLE}</style><h1>{html.escape(self.title)}</h1>' +
                       '\n'.join(self.parts))
        with open(os.path.join(self.folder, 'results.json'), 'w', encoding='utf-8') as file:
            json.dump(self.data, file, indent=1)
