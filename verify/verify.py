"""Check a certificate of dpensemble without dpensemble: ``python verify.py certificate.json`` (needs python-flint).

Votes: answers drawn from the laws in the file, each chosen by what came before, are private for all neighbouring
counts. These are listed here; each pair must lie below the curve (ROC) of one of the file's pairs, its groups. With
V_0(r) = max(r - 1, 0), V_u(r) = max over groups of sum of Q V_{u-1}(r P / Q), delta is exp(epsilon) V_n(exp(-epsilon)).
Under a gate u are units of a purse, of which a check that fails costs some, an answer more. V is convex and rises, at
most by 1: chords between nodes, the lowest value below and slope 1 above bound it. For many answers a block's V is that
of a pair whose losses are nodes, and such pairs multiply as polynomials. Everything is rounded up.
"""

import json
import sys
from bisect import bisect_left
from decimal import Context, Decimal
from fractions import Fraction
from itertools import accumulate, pairwise, permutations, zip_longest
from math import ceil, comb, log

try:
    from flint import arb, arb_poly, ctx, fmpz, fmpz_poly
except ImportError:
    sys.exit(sys.stdout.write("not checked: this needs python-flint; run pip install python-flint.\n") and 3)

BITS, WEIGHT, ONE, TOTAL = 80, 32, 1 << 80, 1 << 63  # digits of V and of an answer's weights after the point
MOST_BYTES, MOST_PAIRS, MOST_WORK = 5_000_000, 2_000_000, 60_000_000_000
NEAR = Fraction(3, 10**14)  # errors of 1e-14 that the sampler may make, of each of two weights
ctx.prec, EXACT, WORK = 200, Context(prec=60), []

def need(holds, why):
    if not holds:
        raise ValueError(why)

def whole(value, low, high, name):
    need(type(value) is int and low <= value <= high, f"{name} must be a whole number from {low} to {high}")
    return value

def number(value, low, high, name):
    need(type(value) is str and len(value) <= 60 and set(value) <= set("0123456789.e+-"), f"{name} is no short number")
    found = Decimal(value)
    need(abs(found.adjusted()) < 400 and low <= found <= high, f"{name} is out of range")
    return Fraction(found)

def entries(value, low, high, name):
    need(type(value) is list and low <= len(value) <= high, f"{name} must be a list of {low} to {high} entries")
    return value

def wholes(values, size, low, high, name):
    return [whole(each, low, high, name) for each in entries(values, size, size, name)]

def once(pairs):
    need(len(found := dict(pairs)) == len(pairs), "an object names a field twice")
    return found

def fields(value, names, name):
    need(type(value) is dict and set(value) == set(names.split()), f"{name} must have exactly the fields {names}")
    return [value[each] for each in names.split()]

def ball(x):
    return arb(x.numerator) / x.denominator

def exponential(x, sign):  # rounded up or down, with 45 digits
    near = EXACT.exp(EXACT.divide(Decimal(x.numerator), Decimal(x.denominator)))
    return Fraction(near) * (1 + sign * Fraction(1, 10**45))

def beta(p, shape):  # chance that Beta(shape, shape) is below p, for p up to 1/2
    inside = 0 < p < Fraction(1, 2)
    return arb.beta_lower(ball(p), shape, shape, regularized=True) if inside else arb(0 if p <= 0 else 0.5)

LAWS = {
    "lnmax": lambda gap: (2 + gap) * (-gap).exp() / 4,
    "gnmax": lambda gap: (gap / 2).erfc() / 2,
    "exponential": lambda gap: 1 / (1 + gap.exp()),
}

NAMES = {"lnmax": ["scale"], "gnmax": ["sigma"], "exponential": ["scale"], "optimal": ["reach", "shape"]}

def of_law(law, rows, weights):
    name, *settings = entries(law, 1, 4, "law")
    if name == "table":
        return "weights as listed"
    mixing, *rest = (number(each, 0, 10**12, "a setting of the law") for each in settings)
    need(type(name) is str and name in {*LAWS, "optimal"} and len(rest) == 1 + (name == "optimal"), "an unknown law")
    need(len(rows[0]) == 2 and 0 < mixing <= Fraction(1, 100) and all(rest), "a setting of the law is out of range")
    for (first, second), row in zip(rows, weights):
        trailing, gap = (Fraction(min(row), TOTAL) - mixing / 2) / (1 - mixing), abs(first - second) / rest[0]
        if name == "optimal":
            level, shape = ball(max((1 - gap) / 2, Fraction(0))), ball(rest[1])
            fits = beta(trailing - NEAR, shape) <= level <= beta(trailing + NEAR, shape)
        else:
            fits = abs(ball(trailing) - LAWS[name](ball(gap))) <= ball(NEAR)
        need(fits, f"the weights for counts {first}, {second} are not those of the law")
        need(first == second or (row[0] > row[1]) == (first > second), f"counts {first}, {second} favour the loser")
    return f"weights are those of {name}, {', '.join(f'{n} {float(x):g}' for n, x in zip(NAMES[name], rest))}"

def sorted_counts(total, classes, most):
    if classes == 1:
        return [(total,)] if total <= most else []
    return [(k, *rest) for k in range(min(total, most), -1, -1) for rest in sorted_counts(total - k, classes - 1, k)]

def neighbours(ballots, classes, votes_, weight, rows, table):  # both laws, in both orders
    if classes == 2:
        rising = all(one[1] <= other[1] for one, other in pairwise(table))
        # Where the second class never loses by a vote, the farthest neighbour dominates the nearer ones.
        for shift in [votes_ * weight] if rising else range(1, min(votes_ * weight, ballots) + 1):
            for here in range(ballots + 1):
                for there in {min(here + shift, ballots), max(here - shift, 0)} - {here}:
                    yield table[here], table[there]
        return
    apart = [abs(p - q) for row, law in zip(rows, table) for (m, p), (n, q) in pairwise(zip(row, law)) if m == n]
    need(votes_ == 1 and max(apart) <= classes * NEAR * TOTAL, "many classes need votes of 1, and to be treated alike")
    place = dict(zip(rows, table))
    for row in rows:
        for source, target in permutations(range(classes), 2):
            if row[source] >= weight:
                moved = [n + weight * ((i == target) - (i == source)) for i, n in enumerate(row)]
                order = sorted(range(classes), key=lambda i, moved=moved: (-moved[i], i))
                law = dict(zip(order, place[tuple(moved[i] for i in order)]))
                yield place[row], [law[i] for i in range(classes)]

def corners(p, q):  # of the curve from (0, 0), as Q and P by falling ratio
    order = sorted(range(len(p)), key=lambda i: Fraction(p[i], q[i]), reverse=True)
    return [list(accumulate((side[i] for i in order), initial=0)) for side in (q, p)]

def below(pair, across, up):
    points = ((q, p, bisect_left(across, q)) for q, p in zip(*corners(*pair)) if q)
    points = ((q - across[i - 1], p - up[i - 1], across[i] - across[i - 1], up[i] - up[i - 1]) for q, p, i in points)
    return all(p * wide <= high * q for q, p, wide, high in points)

def chords(p, q, ratio):  # what they weigh at the nodes around the outcomes' losses, rounded up, by offset
    found = {}
    for x, b in ((Fraction(a, b), b) for a, b in zip(p, q) if a):
        k = round(log(x) / log(ratio)) + 1
        while ratio**k > x:
            k -= 1
        share = (x / ratio**k - 1) / (ratio - 1)
        for place, part in ((k, 1 - share), (k + 1, share)):
            found[place] = found.get(place, 0) + ceil(part * b * (1 << WEIGHT) / TOTAL)
    return found

class Induction:  # the functions V_u in units of 2**-BITS, never below the truth: long numbers with a field a node
    def __init__(self, labels, checks, ratio, windows):
        self.labels, self.checks, self.windows = labels, checks, windows
        offsets = [0, *(k for choice in (*labels, *checks) for each in choice for k in each)]
        (lows, highs), (self.least, self.most) = zip(*windows, (0, 0)), (min(offsets), max(offsets))
        self.first, last = min(lows) + 2 * self.least - 1, max(highs) + 2 * self.most + 1
        nodes = [ball(ratio) ** k * ONE for k in range(self.first, last + 1)]
        self.down = [int(each.lower().floor().unique_fmpz()) for each in nodes]
        self.up = [int(each.upper().ceil().unique_fmpz()) for each in nodes]
        digits = (self.up[-1].bit_length() + WEIGHT) // 4 + 4  # an average stays below 2**(4 * digits - 5), see step
        self.bits, self.ones = 4 * digits, fmpz(int(f"{1:0{digits}x}" * len(nodes), 16))
        self.ups = fmpz(int("".join(f"{each:0{digits}x}" for each in reversed(self.up)), 16))

    def cut(self, fields, start, size):
        return (fields >> self.bits * start) & ((fmpz(1) << self.bits * size) - 1)

    def extended(self, low, size, fields):  # below its window a function is flat, above it has slope 1
        left, end = low - self.first, low - self.first + size
        flat = self.cut(self.ones, 0, left) * self.cut(fields, 0, 1)
        rise = self.cut(fields, size - 1, 1) - self.down[end - 1]
        above = (self.ups >> self.bits * end) + self.cut(self.ones, end, len(self.up)) * rise
        return (above << self.bits * end) + (fields << self.bits * left) + flat

    def step(self, choices, low, high, *functions):  # the largest average, on the nodes from low to high
        bits, start, size, best = self.bits, low - self.first, high - low + 1, fmpz(0)
        top = (one := self.cut(self.ones, 0, size)) << bits - 1
        moved = [{k: self.cut(f, start + k, size) for k in {*()}.union(*e)} for f, e in zip(functions, zip(*choices))]
        for choice in choices:
            average = sum(f[k] * w for f, each in zip(moved, choice) for k, w in each.items())
            # The top bit of a field stays where the average is not below the best; the rest is its surplus.
            surplus = (average | top) - best
            best += surplus & ((surplus & top) - ((surplus & top) >> bits - 1))
        best = ((best + one * ((1 << WEIGHT) - 1)) >> WEIGHT) & (one * ((1 << bits - WEIGHT) - 1))
        need(not best & (one * 255 << bits - WEIGHT - 8), "a value is too large")
        return self.extended(low, size, best)

    def run(self, check, query, keep):  # V by units left, of those in keep and a few
        found = dict.fromkeys(range(query), self.extended(0, 1, fmpz(0)))
        for u, (low, high) in enumerate(self.windows[query:], start=query):
            labelled = self.step(self.labels, low + self.least, high + self.most, found[u - query])
            found[u] = self.step(self.checks, low, high, labelled, found[u - check]) if check else labelled
            found = {k: function for k, function in found.items() if k > u - query or k in keep}
        return found

    def delta(self, function, epsilon):
        r = exponential(-epsilon, 1) * ONE
        i = bisect_left(self.down, r)
        need(0 < i < len(self.down), "epsilon is outside the grid")
        below_it, value = (int(self.cut(function, k, 1)) for k in (i - 1, i))
        share = (r - self.down[i - 1]) / (self.down[i] - self.up[i - 1])
        return exponential(epsilon, 1) * (below_it + share * (value - below_it)) / ONE

    def pair(self, function):  # laws on the nodes whose function is at least V: P, Q, a constant, the sum of Q
        down, up, values = self.down, self.up, [int(self.cut(function, k, 1)) for k in range(len(self.up))]
        rises = [(b - a) * ONE // (up[i + 1] - down[i]) for i, (a, b) in enumerate(pairwise(values))]
        p = [b - a for a, b in pairwise(accumulate([0, *rises, ONE], max))]
        # How far the function of these masses may lie below V on the nodes; the constant makes up for it.
        lacking = mass = moment = 0
        for part, value, least, most in zip(p, values, down, up):
            lacking = max(lacking, value - values[0] - (mass * least - moment) // ONE)
            mass, moment = mass + part, moment + part * most
        q, total = [part * least // ONE for part, least in zip(p, down)], -sum(-a * b // ONE for a, b in zip(p, up))
        return p, q, values[0] + lacking, max(ONE, total)

def gaussian(mu, e):  # Balle and Wang 2018, Theorem 8
    return ((e / mu - mu / 2) / arb(2).sqrt()).erfc() / 2 - e.exp() * ((e / mu + mu / 2) / arb(2).sqrt()).erfc() / 2

def polygon(gate, moved):  # prices, and corners around all chances to pass a threshold with Gaussian noise
    sigma, check, label, corners = fields(gate, "sigma check label corners", "a gate")
    mu, path = ball(moved / number(sigma, Decimal("1e-6"), 10**12, "sigma")), {(0, 0), (TOTAL, TOTAL)}
    for corner in entries(corners, 1, 40, "corners"):
        p, q = wholes(corner, 2, 1, TOTAL - 1, "a corner")
        path |= {(q, p), (TOTAL - p, TOTAL - q)}
    slopes = [Fraction(p1 - p0, q1 - q0) for (q0, p0), (q1, p1) in pairwise(sorted(path))]
    need(slopes[-1] > 0 and all(a > b for a, b in pairwise(slopes)), "the corners make no concave path")
    for slope, (q, p) in zip(slopes, sorted(path)):
        beyond = gaussian(mu, ball(slope).log()) - ball((p - slope * q) / TOTAL)
        need(beyond / ball(slope) <= ball(NEAR), "some chances to pass lie outside the corners")
    return *wholes([check, label], 2, 1, 100, "a price"), {pair for q, p in path for pair in ((p, q), (q, p))}, sigma

def times(one, other):  # the pair of both answers: P rounded up, Q down, a constant and the sum of Q up
    p = [-(-value >> BITS) for value in (fmpz_poly(one[0]) * fmpz_poly(other[0])).coeffs()]
    q = [value >> BITS for value in (fmpz_poly(one[1]) * fmpz_poly(other[1])).coeffs()]
    return p, q, -(-(one[2] * other[3] + one[3] * other[2]) // ONE), -(-one[3] * other[3] // ONE)

def joined(block, rest, times_, epsilon):  # delta of so many blocks and the rest
    while times_:
        rest = times(rest, block) if times_ & 1 else rest
        times_ >>= 1
        block = times(block, block) if times_ else block
    (p, q, constant, _), least = rest, int(exponential(epsilon, -1) * ONE)
    lost = sum(max(0, int(a) - least * int(b) // ONE) for a, b in zip_longest(p, q, fillvalue=0))
    return (lost + exponential(epsilon, 1) * constant) / ONE

def votes(body, epsilon, delta):
    names = "answers ballots classes votes weight law weights groups cover ratio windows block gate"
    *few, law, table, groups, cover, ratio, windows, block, gate = fields(body, names, "votes")
    answers, ballots, classes, votes_, weight = wholes(few, 5, 1, 10**7, "a number of votes")
    need(classes > 1 and max(ballots, votes_, weight) <= 50_000, "there are too few classes, or too many votes")
    need(classes <= 10 and comb(ballots + classes - 1, classes - 1) <= 300_000, "there are too many counts to list")
    rows = [(ballots - k, k) for k in range(ballots + 1)] if classes == 2 else sorted_counts(ballots, classes, ballots)
    laws = [(row, classes) for row in entries(table, len(rows), len(rows), "weights")]
    for group in entries(groups, 1, 1000, "groups"):
        laws += [(side, len(entries(entries(group, 2, 2, "a group")[0], 1, 12, "a group"))) for side in group]
    need(all(sum(wholes(each, n, 1, TOTAL, "a law")) == TOTAL for each, n in laws), "a law does not add up to 2**63")
    said = of_law(law, rows, table)
    curves, pairs = [corners(*group) for group in groups], neighbours(ballots, classes, votes_, weight, rows, table)
    if cover is None:  # what follows two outcomes is convex in both chances of one: corners stand for what lies between
        need(classes == 2 and all(len(p) == 2 for p, _ in groups), "corners are for two outcomes")
        curves = [tuple(zip(*sorted({(0, 0), *((across[1], up[1]) for across, up in curves), (TOTAL, TOTAL)})))]
    covered = iter([] if cover is None else entries(cover, 1, MOST_PAIRS, "cover"))
    for count, pair in enumerate(pairs, start=1):
        which = 0 if cover is None else whole(next(covered, None), 0, len(groups) - 1, "cover")
        need(count <= MOST_PAIRS and below(pair, *curves[which]), f"pair {count} of counts is not covered by its group")
    need(next(covered, None) is None, "cover has too many entries")
    ratio = Fraction(whole(ratio, (1 << 40) + (1 << 20), 1 << 42, "ratio"), 1 << 40)
    check, label, passing, noise = polygon(gate, weight * votes_) if gate is not None else (0, 1, set(), None)
    outcomes = [(p, q) for p, q in passing if 0 < p < TOTAL] + [pair for group in groups for pair in zip(*group)]
    need((far := max(abs(log(p) - log(q)) for p, q in outcomes) / log(ratio)) < 4000, "the grid is too fine")
    for window in entries(windows, 2, 20_000, "windows"):
        need(wholes(window, 2, -60_000, min(60_000, 1000 // log(ratio)), "a window") == sorted(window), "no window")
    # Units of a purse: a check costs some, a label more. Where blocks meet, less than one query's are lost.
    query, (size, blocks) = check + label, wholes([1, 0] if block is None else block, 2, 0, 2000, "a block")
    rest, last, (lows, highs) = answers - blocks * (size - (check > 0)), len(windows) - 1, zip(*windows)
    steps = len(windows) * (sum(3 + len(p) for p, _ in groups) + 4 * len(passing)) + 3000 * query  # and functions kept
    nodes = (1000 + max(0, *highs) - min(0, *lows) + 4 * far) * (1 + max(0, *highs) * log(ratio) / 100)
    WORK.append(nodes * max(6000 * far, steps + 8000 * blocks) + 5000 * count)
    need(sum(WORK) <= MOST_WORK, "the grid is too large")
    need(size > 0 < rest and last == max(size, rest) * query, "there are more or fewer windows than units")
    checks = [[chords([p], [q], ratio), chords([TOTAL - p], [TOTAL - q], ratio)] for p, q in passing]
    induction = Induction([[chords(*group, ratio)] for group in groups], checks, ratio, windows)
    kept = induction.run(check, query, units := (size * query, rest * query))
    pairs = (induction.pair(kept[u]) for u in units)
    found = joined(*pairs, blocks, epsilon) if blocks else induction.delta(kept[last], epsilon)
    # The sampler's rounding of other orders of three counts, and of a check and a label; what lies outside the corners.
    rounded = classes**3 * answers * (classes > 2) + 7 * ((blocks * size + rest) * query // max(check, 1)) * (check > 0)
    found += rounded * NEAR * (1 + exponential(epsilon, 1))
    need(found <= delta, f"so many answers are shown to be private at delta {float(found):.6g} only")
    costs = f"a check of sigma {noise} costs {check} units and a label {label}, " * (check > 0)
    asked = f"{answers} answers, each from {ballots} ballots in {classes} classes"
    moved = f"a record changes {votes_} ballot{'s' * (votes_ > 1)} of weight {weight}"
    return f"{asked}, {moved}, {said}, {costs}{count} neighbouring pairs, delta at most {float(found):.6g}"

def sites(body, epsilon, delta):  # each adds a part of the noise (docs/proofs/sites.md)
    n, others, at, rounds = fields(body, "sites colluding at rounds", "sums of sites")
    n, others, at = whole(n, 3, 1000, "sites"), whole(others, 1, n - 2, "colluding"), whole(at, 1, n, "at")
    for each in entries(rounds, 1, 1000, "rounds"):
        variance, drawn = fields(each, "sigma weight variance entries drawn", "a round")[2::2]
        need(whole(variance, 2**40, 2**500, "variance") <= (n - others) * whole(drawn, 2**20, 2**500, "drawn"),
             "the sites that do not collude draw less noise than is charged")
    body = {"rounds": [{name: value for name, value in each.items() if name != "drawn"} for each in rounds]}
    shared = f"{n} sites, {others} of which may collude, for a record at {at} site{'s' * (at > 1)}"
    return f"{shared}: {sums(body, epsilon, delta, at)}"

def sums(body, epsilon, delta, at=1):  # discrete noise: Gaussian noise but for a factor of exp(181 / variance) an entry
    squares, slack, rounds = Fraction(0), Fraction(0), []
    for each in entries(fields(body, "rounds", "sums")[0], 1, 1000, "rounds"):
        sigma, weight, variance, size = fields(each, "sigma weight variance entries", "a round")
        rounds.append((number(weight, 0, 1, "weight"), number(sigma, Decimal("1e-6"), 10**12, "sigma")))
        squares += (at * rounds[-1][0] / rounds[-1][1]) ** 2
        slack += Fraction(181 * whole(size, 1, 2**62, "entries"), whole(variance, 2**40, 2**500, "variance"))
    need(squares > 0 and epsilon >= 2 * slack, "there is nothing to check, or the slack of the noise is above epsilon")
    found = gaussian(ball(squares).sqrt(), ball(epsilon - 2 * slack))
    need(found * ball(slack).exp() <= ball(delta), f"these sums are private at delta {float(found):.6g} only")
    weights, sigmas = (" to ".join(f"{float(x):g}" for x in sorted({min(side), max(side)})) for side in zip(*rounds))
    noisy = f"{len(rounds)} round{'s' * (len(rounds) > 1)} of Gaussian sums, sigma {sigmas}"
    return f"{noisy}, a record's weight {weights}, delta at most {float(found):.6g}"

def drawn(body, epsilon, delta):  # Balle, Barthe and Gaboardi 2018, Theorem 2, by how many models hold a record
    scheme, *sizes, parts = fields(body, "scheme records subsample models parts", "draws")
    n, k, m = wholes(sizes, 3, 1, 10**7, "a number of draws")
    held = {"with-replacement": 1 - (1 - 1 / arb(n)) ** k, "subsets": arb(k) / n, "distinct": arb(k * m) / n}
    need(type(scheme) is str and scheme in held and k * m <= 10**6 and held[scheme] <= 1, "such draws are not known")
    h, tries, same = held[scheme], 1 if scheme == "distinct" else m, "answers ballots classes weight weights gate"
    any_ = left = 1 - (1 - h) ** tries  # what no part is about is charged in full
    asked = ""
    for b, part in enumerate(entries(parts, 0, 20, "parts"), start=1):
        *own, its = fields(part, "epsilon delta body", "votes of some models")
        e, d = (number(each, 0, 100, "epsilon or delta") for each in own)
        asked, _, more = votes(its, e, d).partition(", a record changes ")
        asked += f", {more.split(', ', 1)[1].rsplit(', ', 2)[0]}, "
        need(all(its[name] == parts[0]["body"][name] for name in same.split()), "the parts are of different votes")
        need((its["ballots"], its["votes"], its["weight"], its["gate"]) == (m, b, 1, None), "votes are not the models'")
        need(1 + any_ * (ball(e).exp() - 1) <= ball(epsilon).exp(), "epsilon is above what chance makes of it")
        left -= comb(tries, b) * h**b * (1 - h) ** (tries - b) * (1 - ball(d))
    need(left <= ball(delta), f"such draws are private at delta {float(left):.6g} only")
    drew = f"{m} model{'s' * (m > 1)} of {k} drawn records of {n} each ({scheme})"
    return f"{drew}, {asked}{len(parts)} numbers of holders, delta at most {float(left):.6g}"

def majority(body, epsilon, delta):  # linear in each teacher's chances (p, p'): worst at one of three corners each
    e, d, table = fields(body, "epsilon delta weights", "majority")
    e, d = number(e, 0, 100, "epsilon"), number(d, 0, 1, "delta")
    own = f"each (epsilon {float(e):g}, delta {float(d):g})"
    e, d = ball(e).exp(), ball(d)
    law = [whole(each, 0, TOTAL, "a weight") for each in entries(table, 2, 200, "weights")]
    need(law == sorted(law), "the second answer must never lose by a vote")
    k, corners = len(law) - 1, ((d, 0 * d), ((e + d) / (1 + e), (1 - d) / (1 + e)), (1 + 0 * d, 1 - d))
    powers = [[[arb_poly([1 - p, p]) ** n for n in range(k + 1)] for p in pair] for pair in corners]
    for weights in (law, [TOTAL - each for each in reversed(law)]):
        for a, b in ((i, j) for i in range(k + 1) for j in range(k + 1 - i)):
            votes_ = [(powers[0][i][a] * powers[1][i][b] * powers[2][i][k - a - b]).coeffs() for i in (0, 1)]
            here, there = (sum(w * chance for w, chance in zip(weights, each)) / TOTAL for each in votes_)
            need(here - ball(epsilon).exp() * there <= ball(delta), f"{a}, {b} and {k - a - b} teachers lose more")
    return f"a majority of {k} private teachers, {own}, {(k + 1) * (k + 2) // 2} placements"

def statement(value):  # what a part is about, without help and what it claims; 1.0 and 1.00 are one number
    if type(value) is dict:
        left = HELP + ["epsilon", "delta"] * ("body" in value)
        return [(name, statement(value[name])) for name in sorted(value) if name not in left]
    if type(value) is list:
        return [statement(each) for each in value]
    return Decimal(value) if type(value) is str and set(value) <= set("0123456789.e+-") else value

HELP = ["groups", "cover", "ratio", "windows", "block", "law"]  # weights say all that a law says
UNSTATED = "whether this is for release is not stated"
RELEASE = {UNSTATED: UNSTATED, True: "stated to be for release", False: ""}
SEEDED = "NOT FOR RELEASE: the noise came from a seed, with which it can be removed. The arithmetic holds: "

def check(path):
    with sys.stdin.buffer if path == "-" else open(path, "rb") as file:
        text = file.read(MOST_BYTES + 1)
    need(len(text) <= MOST_BYTES, "the file is larger than 5 MB")
    # Neither constants nor floats are taken for a number below.
    found = json.loads(text, parse_constant=Decimal, parse_float=Decimal, object_pairs_hook=once)
    release = found.pop("for_release", UNSTATED) if type(found) is dict else UNSTATED  # as of older files and plans
    need(type(release) in (bool, str) and release in RELEASE, "for_release must be true or false")
    kind, version, *claimed, parts = fields(found, "format version epsilon delta parts", "the file")
    need(kind == "dpensemble certificate" and version == 2, "the format or its version is not known")
    said, about, WORK[:], (epsilon, delta) = [], [], [], (number(each, 0, 100, "epsilon or delta") for each in claimed)
    for number_, part in enumerate(entries(parts, 1, 20, "parts"), start=1):
        name, *own, body = fields(part, "kind epsilon delta body", "a part")
        mine, its = (number(each, 0, 100, "epsilon or delta") for each in own)
        kinds = {"votes": votes, "sums": sums, "sites": sites, "drawn": drawn, "majority": majority}
        need(type(name) is str and name in kinds, "a part is of an unknown kind")
        need(mine <= epsilon and (name == "majority" or its) and its <= delta < 1, "a part claims less than the file")
        others = f"part {number_} of {len(parts)}{', for other records' * (number_ > 1)}: " * (len(parts) > 1)
        said.append(others + kinds[name](body, mine, its))
        about.append(statement(part))
        need(about[-1] not in about[:-1], f"part {number_} repeats part {about.index(about[-1]) + 1}")
    confirmed = f"(epsilon {float(epsilon):g}, delta {float(delta):g}) confirmed: {'; '.join(said)}"
    return SEEDED + confirmed if release is False else f"{confirmed}; {RELEASE[release]}"

if __name__ == "__main__":
    try:
        text = check(sys.argv[1])
        sys.stdout.write(f"{'' if text.startswith(SEEDED) else 'yes: '}{text}\n")
        sys.exit(text.startswith(SEEDED))
    except (OSError, LookupError, ArithmeticError, TypeError, ValueError, RecursionError) as problem:
        sys.exit(sys.stdout.write(f"no: {problem}\n") and 1)
