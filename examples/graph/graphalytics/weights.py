"""How weights, which are fractions in Graphalytics, become the whole numbers of weft-graph."""
from data_sets import Wrong
from judging import EPSILON

MOST = 2**32 - 1  # of a weight in weft-graph


class Weights:
    """The scale for the weights of a file of edges, and how far distances may then be off, as a share of them."""

    def __init__(self, path):
        self.least, self.most = float('inf'), 0.0
        decimals = 0
        with open(path, 'rb') as file:
            for number, line in enumerate(file, 1):
                try:
                    word = line.split()[2]
                    value = float(word)
                except (IndexError, ValueError):
                    raise Wrong(f'{path}:{number}: has no weight, which sssp needs') from None
                self.most = max(self.most, value)
                if 0 < value < self.least:
                    self.least = value
                if b'e' in word or b'E' in word:
                    decimals = 400  # no power of ten makes it whole
                else:
                    decimals = max(decimals, len(word.partition(b'.')[2].rstrip(b'0')))
        if decimals < 10 and self.most * 10**decimals <= MOST:
            self.scale, self.error = 10**decimals, 0.0
            return
        self.scale = MOST / self.most
        self.error = 0.5 / (self.scale * self.least)  # of the least weight, and no path is off by more

    @property
    def suffices(self):
        """Whether distances are right by Graphalytics' rule."""
        return self.error <= EPSILON

    def describe(self):
        """In a line."""
        off = f'which puts distances off by {self.error:.1g} of them at most' if self.error else 'which is exact'
        return f'weights of {self.least:g} to {self.most:g} times {self.scale:g}, {off}'
