"""Times of rounds in which all run in turn: what they show, and whether two of them differ."""
import statistics

MOST_SPREAD = 2  # largest / least, beyond which there is no figure
LEAST_ROUNDS = 5  # from which on a difference can be said
LEAST_DIFFERENCE = 0.03


def median(values):
    return statistics.median(values)


def geometric_mean(values):
    return statistics.geometric_mean(values) if values else float('nan')


def in_turn(runs, rounds):
    """Seconds by name: runs[name](round) gives some, or None. Each round begins with another."""
    names = list(runs)
    times = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            times[name].append(runs[name](number))
    return times


def rounds_in_words(rounds):
    """How the times of a table came about."""
    if rounds < 3:
        return f'{rounds} round{"s" if rounds > 1 else ""}, too few for a figure.'
    return (f'Medians of {rounds} rounds (least to most); where the most is over twice the least, that '
            'alone.')


def known(values):
    return [value for value in values if value is not None]


def is_steady(values):
    values = known(values)
    return len(values) >= 3 and max(values) <= MOST_SPREAD * min(values)


def shown(values):
    """Milliseconds: the median and the spread; the spread alone where that is wide."""
    values = sorted(value * 1e3 for value in known(values))
    if len(values) < 3:
        return '-'
    spread = f'{values[0]:.1f} to {values[-1]:.1f}'
    return f'{median(values):.1f} ({spread})' if is_steady(v / 1e3 for v in values) else spread


def ratio(values, others):
    """Median over the rounds of values / others; None where it says no difference.

    There is one if the rounds agree which is larger, one in eight apart: without a difference five
    rounds do so in one case of sixteen.
    """
    ratios = [a / b for a, b in zip(values, others) if a is not None and b is not None]
    if len(ratios) < LEAST_ROUNDS:
        return None
    larger = sum(one > 1 for one in ratios)
    middle = median(ratios)
    agrees = min(larger, len(ratios) - larger) <= len(ratios) // 8
    return middle if agrees and abs(middle - 1) >= LEAST_DIFFERENCE else None


def verdict(values, others):
    """Times against `others`, in words: how many times as long, where both are steady."""
    if min(len(known(values)), len(known(others))) < LEAST_ROUNDS:
        return 'too few rounds'
    found = ratio(values, others)
    if found is None:
        return 'no difference'
    if is_steady(values) and is_steady(others):
        return f'{found:.2f} times'
    return 'longer' if found > 1 else 'shorter'
