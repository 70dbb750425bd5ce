"""Check a certificate of dpensemble without dpensemble: ``python verify.py certificate.json`` (needs python-flint).

Votes: answers drawn from the laws in the file, each chosen by what came before, are (epsilon, delta)-private for all
neighbouring counts, and the laws are those that the file names, where it names one. Weights of outcomes are whole
numbers, as sampled. Neighbouring counts are listed here; each pair must lie below the curve (ROC) of one of the file's
pairs, its groups. Then V_0(r) = max(r - 1, 0), V_t(r) = max over groups of sum of Q V_{t-1}(r P / Q), and delta is at
most exp(epsilon) V_n(exp(-epsilon)), by backward induction. V is convex, non-decreasing and of slope 1 at most: chords
between nodes, the lowest node's value below and slope 1 above bound it. Nodes are the powers of a rational number. For
many answers the V of a block is that of a pair whose losses are nodes, and such pairs multiply as polynomials.
Sums, bagging, private majorities: their formulas. All in whole numbers, fractions and balls, rounded against the claim.
"""

import json
import sys
from bisect import bisect_left
from decimal import Context, Decimal
from fractions import Fraction
from itertools import accumulate, pairwise
from math import ceil, comb, log

from flint import arb, arb_poly, ctx, fmpz_poly

BITS, WEIGHT = 80, 32  # digits of V, and of the weights of one answer, after the point
ONE, TOTAL = 1 << BITS, 1 << 63
MOST_BYTES, MOST_WORK = 5_000_000, 400_000_000
NEAR = Fraction(3, 10**14)  # errors of 1e-14 that the sampler may make, of each of two weights
ctx.prec = 200

class RefusedError(Exception):
    """The certificate is broken, or does not show what it claims."""

def need(holds, why):
    if not holds:
        raise RefusedError(why)

def whole(value, low, high, name):
    need(type(value) is int and low <= value <= high, f"{name} must be a whole number from {low} to {high}")
    return value

def number(value, low, high, name):
    need(type(value) is str and len(value) <= 60, f"{name} must be a short decimal number in quotes")
    try:
        found = Decimal(value)
    except ArithmeticError:
        raise RefusedError(f"{name} is no number") from None
    need(found.is_finite() and abs(found.adjusted()) < 400 and low <= found <= high, f"{name} is out of range")
    return Fraction(found)

def entries(value, low, high, name):
    need(type(value) is list and low <= len(value) <= high, f"{name} must be a list of {low} to {high} entries")
    return value

def fields(value, names, name):
    need(type(value) is dict and set(value) == set(names.split()), f"{name} must have exactly the fields {names}")
    return [value[each] for each in names.split()]

def ball(x):
    return arb(x.numerator) / x.denominator

def exponential(x, sign):  # rounded up or down, with 45 digits
    near = Context(prec=60).exp(Context(prec=60).divide(Decimal(x.numerator), Decimal(x.denominator)))
    return Fraction(near) * (1 + sign * Fraction(1, 10**45))

def compare(x, y):  # 0 where balls overlap
    return -1 if x < y else 1 if x > y else 0

def optimal(p, gap, shape):  # quantile of Beta(shape, shape) at 1/2 - gap / 2
    level = max((1 - gap) / 2, Fraction(0))
    if p <= 0 or p >= Fraction(1, 2):
        return -(level > 0) if p <= 0 else compare(Fraction(1, 2), level)
    return compare(arb.beta_lower(ball(p), ball(shape), ball(shape), regularized=True), ball(level))

LAWS = {
    "lnmax": lambda p, gap: compare(ball(p), (2 + ball(gap)) * (-ball(gap)).exp() / 4),
    "gnmax": lambda p, gap: compare(ball(p), (ball(gap) / 2).erfc() / 2),
    "exponential": lambda p, gap: compare(ball(p), 1 / (1 + ball(gap).exp())),
    "optimal": optimal,
}

def of_law(law, rows, weights):
    name, *settings = entries(law, 1, 4, "law")
    if name == "table":
        return "weights as listed"
    mixing, *rest = (number(each, 0, 10**12, "a setting of the law") for each in settings)
    need(type(name) is str and name in LAWS and len(rest) == 1 + (name == "optimal"), "the law is not known")
    need(len(rows[0]) == 2 and 0 < mixing <= Fraction(1, 100) and all(rest), "a setting of the law is out of range")
    for (first, second), row in zip(rows, weights):
        trailing, gap = (Fraction(min(row), TOTAL) - mixing / 2) / (1 - mixing), abs(first - second) / rest[0]
        fits = LAWS[name](trailing - NEAR, gap, *rest[1:]) <= 0 <= LAWS[name](trailing + NEAR, gap, *rest[1:])
        need(fits, f"the weights for counts {first}, {second} are not those of the law")
        need(first == second or (row[0] > row[1]) == (first > second), f"counts {first}, {second} favour the loser")
    return f"weights are those of {name}"

def sorted_counts(total, classes, most):
    if classes == 1:
        return [(total,)] if total <= most else []
    return [(k, *rest) for k in range(min(total, most), -1, -1) for rest in sorted_counts(total - k, classes - 1, k)]

def neighbours(ballots, classes, votes_, weight, rows, table):  # both laws, in both orders
    if classes == 2:
        rising = all(one[1] <= other[1] for one, other in pairwise(table))
        # Where the second class never loses by a vote, the farthest neighbour dominates the nearer ones.
        for shift in [votes_ * weight] if rising else range(1, votes_ * weight + 1):
            for here in range(ballots + 1):
                for there in {min(here + shift, ballots), max(here - shift, 0)} - {here}:
                    yield table[here], table[there]
        return
    need(votes_ == 1, "three and more classes need votes of 1")
    place = dict(zip(rows, table))
    moves = [(source, target) for source in range(classes) for target in range(classes) if source != target]
    for row in rows:
        for source, target in moves:
            if row[source] >= weight:
                moved = [n + weight * ((i == target) - (i == source)) for i, n in enumerate(row)]
                order = sorted(range(classes), key=lambda i, moved=moved: (-moved[i], i))
                law = dict(zip(order, place[tuple(moved[i] for i in order)]))
                yield place[row], [law[i] for i in range(classes)]

def corners(p, q):  # of the curve, (Q, P) by falling ratio
    order = sorted(range(len(p)), key=lambda i: Fraction(p[i], q[i]), reverse=True)
    return list(accumulate(q[i] for i in order)), list(accumulate(p[i] for i in order))

def below(pair, across, up):
    for q, p in zip(*corners(*pair)):
        i = bisect_left(across, q)
        q0, p0 = (across[i - 1], up[i - 1]) if i else (0, 0)
        if (p - p0) * (across[i] - q0) > (up[i] - p0) * (q - q0):
            return False
    return True

def step_weights(p, q, ratio):
    """Return the chords' weights at the nodes of a group's losses, rounded up, by offset."""
    found = {}
    for x, b in ((Fraction(a, b), b) for a, b in zip(p, q) if a):
        k = round(log(x) / log(ratio)) + 1
        while ratio**k > x:
            k -= 1
        share = (x / ratio**k - 1) / (ratio - 1)
        for place, part in ((k, 1 - share), (k + 1, share)):
            found[place] = found.get(place, 0) + ceil(part * b * (1 << WEIGHT) / TOTAL)
    return found

def powers(ratio, low, high):
    """Return the nodes from `low` to `high` in units of 2**-BITS, rounded down and up, by number."""
    more, n, d = 80, ratio.numerator, ratio.denominator
    down, up = {0: ONE << more}, {0: ONE << more}
    for i in range(1, high + 1):
        down[i], up[i] = down[i - 1] * n // d, -(-up[i - 1] * n // d)
    for i in range(-1, low - 1, -1):
        down[i], up[i] = down[i + 1] * d // n, -(-up[i + 1] * d // n)
    return {i: v >> more for i, v in down.items()}, {i: -(-v >> more) for i, v in up.items()}

class Induction:
    """The functions V_t on windows of nodes, in units of 2**-BITS, never below the truth."""

    def __init__(self, groups, ratio, windows):
        steps = [step_weights(p, q, ratio) for p, q in groups]
        self.low, self.high = min(0, *map(min, steps)), max(0, *map(max, steps))
        taps = range(self.high, self.low - 1, -1)
        self.kernels, self.windows = [fmpz_poly([step.get(k, 0) for k in taps]) for step in steps], windows
        lowest, highest = min(low for low, _ in windows) + self.low, max(high for _, high in windows) + self.high
        self.down, self.up = powers(ratio, lowest - 1, highest + 1)

    def run(self, keep):
        """Return the lowest node and the values of V after each number of answers in `keep`."""
        (low, high), kept = self.windows[0], {}
        values = [max(self.up[i] - ONE, 0) for i in range(low, high + 1)]
        for t, (new_low, new_high) in enumerate(self.windows[1:], start=1):
            first, last = new_low + self.low, new_high + self.high
            padded = [values[0]] * (min(low, last + 1) - first) + values[max(first - low, 0) : max(last - low + 1, 0)]
            above = range(max(high + 1, first), last + 1)
            poly = fmpz_poly(padded + [values[-1] + self.up[i] - self.down[high] for i in above])
            start, size = self.high - self.low, new_high - new_low + 1
            mixed = [(kernel * poly).coeffs()[start : start + size] for kernel in self.kernels]
            best = map(max, *mixed) if len(mixed) > 1 else mixed[0]
            values, low, high = [-(-value >> WEIGHT) for value in best], new_low, new_high
            need(len(values) == size, "a window lies where nothing is known")
            if t in keep:
                kept[t] = low, values
        return kept

    def delta(self, low, values, epsilon):
        r, place = exponential(-epsilon, 1) * ONE, low
        while place < low + len(values) - 1 and self.down[place] < r:
            place += 1
        need(self.down[place] >= r, "epsilon is outside the grid")
        value = int(values[place - low])
        if place > low:
            lower = int(values[place - 1 - low])
            value = lower + (r - self.down[place - 1]) / (self.down[place] - self.up[place - 1]) * (value - lower)
        return exponential(epsilon, 1) * value / ONE

    def pair(self, low, values):
        """Return a pair of laws on the nodes whose function is at least V: P, Q, a constant, the sum of Q."""
        values, p, reached = [int(value) for value in values], [], 0
        rises = [
            (b - a) * ONE // (self.up[low + i + 1] - self.down[low + i]) for i, (a, b) in enumerate(pairwise(values))
        ]
        for slope in [*rises, ONE]:
            p.append(max(0, slope - reached))
            reached += p[-1]
        # How far the function of these masses may lie below V on the nodes; the constant makes up for it.
        lacking = mass = moment = 0
        for node, (part, value) in enumerate(zip(p, values), start=low):
            lacking = max(lacking, value - values[0] - (mass * self.down[node] - moment) // ONE)
            mass, moment = mass + part, moment + part * self.up[node]
        q = [part * self.down[node] // ONE for node, part in enumerate(p, start=low)]
        total = sum(-(-part * self.up[node] // ONE) for node, part in enumerate(p, start=low))
        return p, q, values[0] + lacking, max(ONE, total)

def times(one, other):  # the pair of both answers: P rounded up, Q down, a constant and the sum of Q up
    p = [-(-value >> BITS) for value in (fmpz_poly(one[0]) * fmpz_poly(other[0])).coeffs()]
    q = [value >> BITS for value in (fmpz_poly(one[1]) * fmpz_poly(other[1])).coeffs()]
    # Of a constant nothing is lost, whatever the masses add up to.
    return p, q, -(-(one[2] * other[3] + one[3] * other[2]) // ONE), -(-one[3] * other[3] // ONE)

def joined(block, times_, rest, epsilon):  # delta of so many blocks and the rest
    while times_:
        rest = times(rest, block) if times_ & 1 else rest
        times_ >>= 1
        block = times(block, block) if times_ else block
    (p, q, constant, _), least = rest, int(exponential(epsilon, -1) * ONE)
    q += [0] * (len(p) - len(q))
    lost = sum(max(0, int(a) - least * int(b) // ONE) for a, b in zip(p, q))
    return (lost + exponential(epsilon, 1) * constant) / ONE

def votes(body, epsilon, delta):
    names = "answers ballots classes votes weight law weights groups cover ratio windows block"
    answers, ballots, classes, votes_, weight, *tables = fields(body, names, "votes")
    law, table, groups, cover, ratio, windows, block = tables
    limits = ((answers, 10**7), (ballots, 5000), (classes, 10), (votes_, 5000), (weight, 5000))
    need(all(whole(value, 1, most, "a number of votes") for value, most in limits) and classes > 1, "classes are few")
    need(comb(ballots + classes - 1, classes - 1) <= 300_000, "there are too many counts to list")
    rows = [(ballots - k, k) for k in range(ballots + 1)] if classes == 2 else sorted_counts(ballots, classes, ballots)
    for row in entries(table, len(rows), len(rows), "weights"):
        added = sum(whole(each, 1, TOTAL, "a weight") for each in entries(row, classes, classes, "a row"))
        need(added == TOTAL, "a row of weights does not add up to 2**63")
    said = of_law(law, rows, table)
    for group in entries(groups, 1, 300, "groups"):
        size = len(entries(entries(group, 2, 2, "a group")[0], 1, 12, "a group"))
        for side in group:
            added = sum(whole(each, 1, TOTAL, "a weight") for each in entries(side, size, size, "a group"))
            need(added == TOTAL, "a group does not add up to 2**63")
    curves, pairs = [corners(*group) for group in groups], neighbours(ballots, classes, votes_, weight, rows, table)
    covered = iter(entries(cover, 1, 2_000_000, "cover"))
    for count, pair in enumerate(pairs, start=1):
        which = whole(next(covered, None), 0, len(groups) - 1, "cover")
        need(below(pair, *curves[which]), f"the pair of counts number {count} is not covered by its group")
    need(next(covered, None) is None, "cover has too many entries")
    ratio = Fraction(whole(ratio, (1 << 40) + (1 << 20), 1 << 42, "ratio"), 1 << 40)
    losses = (abs(log(a) - log(b)) for p, q in groups for a, b in zip(p, q))
    need(max(losses) < 4000 * log(ratio), "the grid is too fine")
    for window in entries(windows, 2, 20_000, "windows"):
        low, high = (whole(each, -60_000, 60_000, "a window") for each in entries(window, 2, 2, "a window"))
        need(low <= high, "a window is empty")
    work, last = sum(high - low + 1 for low, high in windows) * len(groups), len(windows) - 1
    need(work <= MOST_WORK and windows[0][0] <= 0 <= windows[0][1], "the grid is too large, or begins without 0")
    induction = Induction(groups, ratio, windows)
    if block is None:
        need(last == answers, "there must be one window for each answer, and one before")
        found = induction.delta(*induction.run({last})[last], epsilon)
    else:
        whole_blocks = answers // whole(block, 1, last, "block") - 1
        rest = answers - block * whole_blocks
        need(1 <= whole_blocks <= 2000 and rest == last, "the blocks do not add up to the answers")
        kept = induction.run({block, rest})
        found = joined(induction.pair(*kept[block]), whole_blocks, induction.pair(*kept[rest]), epsilon)
    need(found <= delta, f"so many answers are shown to be private at delta {float(found):.6g} only")
    return f"{answers} answers, {said}, {count} neighbouring pairs, delta at most {float(found):.6g}"

def sums(body, epsilon, delta):
    """Gaussian sums: Balle and Wang 2018, Theorem 8; discrete noise by a factor of exp(181 / variance) an entry."""
    squares, slack = Fraction(0), Fraction(0)
    for each in entries(fields(body, "rounds", "sums")[0], 1, 1000, "rounds"):
        sigma, weight, variance, size = fields(each, "sigma weight variance entries", "a round")
        squares += (number(weight, 0, 1, "weight") / number(sigma, Decimal("1e-6"), 10**12, "sigma")) ** 2
        slack += Fraction(181 * whole(size, 1, 2**62, "entries"), whole(variance, 2**40, 2**500, "variance"))
    need(squares > 0 and epsilon >= 2 * slack, "there is nothing to check, or the slack of the noise is above epsilon")
    mu, e, root = ball(squares).sqrt(), ball(epsilon - 2 * slack), arb(2).sqrt()
    found = ((e / mu - mu / 2) / root).erfc() / 2 - e.exp() * ((e / mu + mu / 2) / root).erfc() / 2
    need(found * ball(slack).exp() <= ball(delta), f"these sums are private at delta {float(found):.6g} only")
    return f"Gaussian sums, delta at most {float(found):.6g}"

def bagging(body, _, delta):
    scheme, *sizes = fields(body, "scheme records subsample models", "bagging")
    n, k, m = (whole(each, 1, 10**7, "a number of bagging") for each in sizes)
    known = k <= n and k * m <= 10**6 and scheme in ("with-replacement", "subsets", "distinct")
    need(known, "such draws are not known")
    missed = {"with-replacement": Fraction(n - 1, n) ** (k * m), "subsets": Fraction(n - k, n) ** m}
    need(1 - missed.get(scheme, 1 - Fraction(k * m, n)) <= delta, "a record is drawn with a higher chance than delta")
    return f"{m} models, a record is drawn with a chance of at most delta"

def majority(body, epsilon, delta):
    # Linear in each teacher's chances (p, p'), rising with p and falling with p': worst at one of three corners each.
    e, d, table = fields(body, "epsilon delta weights", "majority")
    e, d = ball(number(e, 0, 100, "epsilon")).exp(), ball(number(d, 0, 1, "delta"))
    law = [whole(each, 0, TOTAL, "a weight") for each in entries(table, 2, 200, "weights")]
    need(law == sorted(law), "the second answer must never lose by a vote")
    k, corners = len(law) - 1, ((d, 0 * d), ((e + d) / (1 + e), (1 - d) / (1 + e)), (1 + 0 * d, 1 - d))
    powers = [[[arb_poly([1 - p, p]) ** n for n in range(k + 1)] for p in pair] for pair in corners]
    for weights in (law, [TOTAL - each for each in reversed(law)]):
        for a, b in ((i, j) for i in range(k + 1) for j in range(k + 1 - i)):
            votes_ = [(powers[0][i][a] * powers[1][i][b] * powers[2][i][k - a - b]).coeffs() for i in (0, 1)]
            here, there = (sum(w * chance for w, chance in zip(weights, each)) / TOTAL for each in votes_)
            need(here - ball(epsilon).exp() * there <= ball(delta), f"{a}, {b} and {k - a - b} teachers lose more")
    return f"a majority of {k} private teachers, {(k + 1) * (k + 2) // 2} placements"

def check(path):
    with open(path, "rb") as file:
        text = file.read(MOST_BYTES + 1)
    need(len(text) <= MOST_BYTES, "the file is larger than 5 MB")

    def refuse(name):
        raise RefusedError(f"{name:.20} is neither a whole number nor in quotes")

    try:
        found = json.loads(text, parse_constant=refuse, parse_float=refuse)
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"the file is no JSON ({type(error).__name__})") from None
    kind, version, *claimed, parts = fields(found, "format version epsilon delta parts", "the file")
    need(kind == "dpensemble certificate" and version == 1, "the format or its version is not known")
    epsilon, delta = (number(each, 0, 100, "epsilon or delta") for each in claimed)
    said = []
    for part in entries(parts, 1, 20, "parts"):
        name, *own, body = fields(part, "kind epsilon delta body", "a part")
        mine, its = (number(each, 0, 100, "epsilon or delta") for each in own)
        kinds = {"votes": votes, "sums": sums, "bagging": bagging, "majority": majority}
        need(type(name) is str and name in kinds, "a part is of an unknown kind")
        need(mine <= epsilon and (name == "majority" or its) and its <= delta < 1, "a part claims less than the file")
        said.append(kinds[name](body, mine, its))
    return f"(epsilon {float(epsilon):g}, delta {float(delta):g}) confirmed: {'; '.join(said)}"

if __name__ == "__main__":
    try:
        sys.stdout.write(f"yes: {check(sys.argv[1])}\n")
    except (RefusedError, OSError, IndexError, ArithmeticError, TypeError, ValueError) as problem:
        sys.exit(sys.stdout.write(f"no: {problem}\n") and 1)
