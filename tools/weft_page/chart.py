"""Charts as SVG in a page of theme.py: a value can be read at each point, by the pointer or a touch."""
import html
import math
from typing import NamedTuple

WIDTH, HEIGHT = 440, 290
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 12, 12, 34
NUM_COLOURS = 6  # of theme.py


class Point(NamedTuple):
    x: float
    y: float
    text: str  # shown at the point
    least: float | None = None  # of the rounds
    most: float | None = None
    steady: bool = True  # others are hollow


class Series(NamedTuple):
    colour: int
    points: list


class _Scale:
    """Values to pixels, and which values the axis names."""

    def __init__(self, values, low, high, log, ticks=None, from_zero=False):
        self.log, self.low, self.high = log, low, high
        least, most = min(values), max(values)
        if log:
            self.begin, self.end = math.log(least), math.log(most)
        else:
            self.begin, self.end = (0 if from_zero else least), most
        if ticks is None:
            ticks = self._decades(least, most) if log else self._steps(self.begin, self.end)
            self.begin = min(self.begin, self._at(ticks[0]))
            self.end = max(self.end, self._at(ticks[-1]))
        self.ticks = ticks
        if self.end == self.begin:
            self.begin, self.end = self.begin - 0.5, self.end + 0.5

    def _at(self, value):
        return math.log(value) if self.log else value

    @staticmethod
    def _decades(least, most):
        first, last = math.floor(math.log10(least)), math.ceil(math.log10(most))
        steps = (1, 2, 5) if last - first <= 2 else (1,)
        found = [step * 10.0 ** power for power in range(first, last + 1) for step in steps]
        first = max((value for value in found if value <= least * 1.001), default=found[0])
        last = min((value for value in found if value >= most * 0.999), default=found[-1])
        return [value for value in found if first <= value <= last]

    @staticmethod
    def _steps(least, most):
        rough = (most - least or 1) / 5
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * part for part in (1, 2, 5, 10) if power * part >= rough)
        first = math.floor(least / step)
        return [step * number for number in range(first, math.ceil(most / step) + 1)]

    def pixel(self, value):
        part = (self._at(value) - self.begin) / (self.end - self.begin)
        return self.low + part * (self.high - self.low)


def number(value):
    """A short form of a value on an axis: 0.5, 20, 3k, 1.5M."""
    for unit, name in ((1e9, 'G'), (1e6, 'M'), (1e3, 'k')):
        if abs(value) >= unit:
            return f'{value / unit:.3g}{name}'
    return f'{value:.3g}'


def size(num_bytes):
    """A size as people say it: 8 B, 4 KiB, 1 MiB."""
    for unit, name in ((1 << 20, 'MiB'), (1 << 10, 'KiB')):
        if num_bytes >= unit and num_bytes % unit == 0:
            return f'{num_bytes // unit} {name}'
    return f'{num_bytes} B'


def mark(colour, x, y, hollow=False):
    """A point's mark; those of neighbouring colours differ in form, too."""
    fill = 'var(--raised)' if hollow else f'var(--series-{colour % NUM_COLOURS})'
    style = f'fill="{fill}" stroke="var(--series-{colour % NUM_COLOURS})" stroke-width="1.5"'
    forms = ('<circle cx="0" cy="0" r="3.2" {}/>', '<rect x="-3" y="-3" width="6" height="6" {}/>',
             '<path d="M0,-4 L-3.8,3 L3.8,3 z" {}/>', '<path d="M0,-4.2 L4.2,0 L0,4.2 L-4.2,0 z" {}/>')
    return f'<g transform="translate({x:.1f},{y:.1f})">{forms[colour % len(forms)].format(style)}</g>'


def swatch(colour):
    """A line with its mark, for a legend."""
    return (f'<svg viewBox="0 0 30 14" aria-hidden="true"><path d="M0,7 H30" '
            f'stroke="var(--series-{colour % NUM_COLOURS})" stroke-width="2"/>{mark(colour, 15, 7)}</svg>')


def legend(names, css='legend'):
    return f'<div class="{css}">' + ''.join(
        f'<span>{swatch(colour)}{html.escape(name)}</span>' for colour, name in names) + '</div>'


def lines(title, series, log_x=False, log_y=False, ticks=None):
    """Curves through points, with the spread of the rounds. `ticks`: {x: its name on the axis}."""
    points = [point for one in series for point in one.points]
    if not points:
        return ''
    # Of an unsteady point the spread may leave the picture.
    y_values = [value for point in points
                for value in ((point.y, point.least, point.most) if point.steady else (point.y,))
                if value is not None and (value > 0 or not log_y)]
    across = _Scale([point.x for point in points], _LEFT + 8, WIDTH - _RIGHT - 8, log_x,
                    sorted(ticks) if ticks else None)
    up = _Scale(y_values or [1], HEIGHT - _BOTTOM, _TOP, log_y, from_zero=not log_y)
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(title)}">']
    for value in up.ticks:
        y = up.pixel(value)
        parts.append(f'<path d="M{_LEFT},{y:.1f} H{WIDTH - _RIGHT}" stroke="var(--grid)"/>'
                     f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{number(value)}</text>')
    for value in across.ticks:
        x = across.pixel(value)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - _BOTTOM + 18}" text-anchor="middle">'
                     f'{html.escape(ticks[value] if ticks else number(value))}</text>')
    parts.append(f'<path d="M{_LEFT},{_TOP} V{HEIGHT - _BOTTOM} H{WIDTH - _RIGHT}" fill="none" '
                 'stroke="var(--axis)"/>')
    tips = []
    for colour, items in series:
        shown = [point for point in items if point.y > 0 or not log_y]
        paint = f'var(--series-{colour % NUM_COLOURS})'
        spots = [(across.pixel(point.x), up.pixel(point.y)) for point in shown]
        parts.append(f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in spots)}" fill="none" '
                     f'stroke="{paint}" stroke-width="1.8"/>')
        for point, (x, y) in zip(shown, spots):
            if point.least and point.most and point.most > point.least:
                ends = [min(max(up.pixel(value), _TOP), HEIGHT - _BOTTOM) for value in (point.least, point.most)]
                parts.append(f'<path d="M{x:.1f},{ends[0]:.1f} V{ends[1]:.1f}" '
                             f'stroke="{paint}" stroke-width="1.2" opacity="0.6"/>')
            parts.append(mark(colour, x, y, not point.steady))
            tips.append(_tip(x, y, point.text))
    return '\n'.join(parts + tips + ['</svg>'])


def _tip(x, y, text):
    """What is read at a place, on the side that has room."""
    anchor, place = ('end', x - 9) if x > WIDTH / 2 else ('start', x + 9)
    lines_of = text.split('\n')
    top = y - 10 if y > _TOP + 16 * len(lines_of) else y + 20 + 15 * (len(lines_of) - 1)
    spans = ''.join(f'<tspan x="{place:.1f}" y="{top - 15 * (len(lines_of) - 1 - row):.1f}">{html.escape(line)}</tspan>'
                    for row, line in enumerate(lines_of))
    return (f'<g class="point" tabindex="-1"><circle cx="{x:.1f}" cy="{y:.1f}" r="9"/>'
            f'<text class="tip" text-anchor="{anchor}">{spans}</text></g>')


def bars(title, values):
    """A bar for each (name, value, its text), one below the other, with the text behind it."""
    if not values:
        return ''
    row, left = 26, 118
    height = row * len(values) + 8
    most = max(value for _, value, _ in values) or 1
    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(title)}">']
    for place, (name, value, text) in enumerate(values):
        y, width = 4 + row * place, (WIDTH - left - 130) * value / most
        parts.append(f'<text x="{left - 6}" y="{y + 16}" text-anchor="end">{html.escape(name)}</text>'
                     f'<rect x="{left}" y="{y + 3}" width="{width:.1f}" height="{row - 8}" '
                     'fill="var(--series-0)"/>'
                     f'<text x="{left + width + 6:.1f}" y="{y + 16}">{html.escape(text)}</text>')
    return '\n'.join(parts + ['</svg>'])
