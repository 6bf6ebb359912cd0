"""Where something that takes long is: one line that is overwritten on a terminal, elsewhere a line
now and then."""
import sys
import time

EVERY_S = 10


class Progress:
    def __init__(self, quiet=False):
        self.quiet = quiet
        self.terminal = sys.stdout.isatty()
        self.last = time.monotonic()

    def say(self, text):
        """A line that stays."""
        self.clear()
        print(text, flush=True)

    def at(self, text):
        if self.quiet:
            return
        if self.terminal:
            sys.stdout.write(f'\r\033[K  {text}')
            sys.stdout.flush()
        elif time.monotonic() - self.last > EVERY_S:
            self.last = time.monotonic()
            print(f'  {text}', flush=True)

    def clear(self):
        if self.terminal and not self.quiet:
            sys.stdout.write('\r\033[K')
            sys.stdout.flush()
