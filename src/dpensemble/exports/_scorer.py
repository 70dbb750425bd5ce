"""Classify rows with a student of dpensemble. This file needs Python 3.9 or newer, and no other package.

python THIS_FILE rows.csv > scores.csv     classifies a CSV file with a header
from THIS_FILE import classify              classify({"age": 51, ...}) returns the probabilities, the label and marks

Numbers are numbers, or texts such as 1.5. Texts are texts, with codes as in the file. Truth values are the texts True
and False. Dates are dates or texts such as 2025-12-31. Blanks are None, NaN or empty texts.
"""

# mypy: ignore-errors
import bisect
import csv
import datetime
import json
import math
import re
import sys

# What the student computes.
STUDENT = json.loads("{}")

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[ T].*)?", re.DOTALL)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_EXACT, _FEATURE, _COEFFICIENT, _CHANCE, _BITS = 2.0**26, 2.0**14, 2.0**16, 2.0**24, 26


def classify(row):
    """Return the probability of each class, the label, the guarantee, and whether the run is a release."""
    weights, numbers = _features(row)
    scores, done = [0.0] * len(STUDENT["coefficients"]), 0
    for piece in STUDENT["pieces"]:
        features = _of_piece(piece, weights, numbers)
        for k, coefficients in enumerate(STUDENT["coefficients"]):
            scores[k] += sum(round(x * _FEATURE) * coefficients[done + place] for place, x in features)
        done += piece["width"]
    chances = _chances([score / (_FEATURE * _COEFFICIENT) for score in scores])
    result = {"probability of " + name: chance for name, chance in zip(STUDENT["classes"], chances)}
    result["label"] = STUDENT["classes"][max(range(len(chances)), key=chances.__getitem__)]
    return {**result, "guarantee": STUDENT["guarantee"], "for_release": STUDENT["mark"]}


def _features(row):
    """Return the places and weights of the table's features, and the number of each column that has one."""
    weights, numbers = [], []
    for column in STUDENT["columns"]:
        if column["source"] not in row:
            raise ValueError("there is no column " + repr(column["source"]) + ": the file needs a header, and commas")
        entry = _read(row[column["source"]], column)
        start, length = column["start"], column["length"]
        if column["is_number"]:
            numbers.append(entry)
            entry = _snapped(entry, column)
            weights += [(start + place, weight) for place, weight in _of_number(entry, column)]
        else:
            numbers.append(None)
            place = column["missing"] if entry is None else column["codes"].get(entry, column["other"])
            weights.append((start + place, length))
    return [*weights, (STUDENT["n_features"] - 1, STUDENT["constant"])], numbers


def _read(entry, column):
    """Return a number or a text, or None for a blank."""
    if entry is None or str(entry) == "" or str(entry) == "nan" or (column["is_number"] and not str(entry).strip()):
        entry = None
    elif column["part"] is not None:
        entry = _part_of_date(str(entry), column["part"])
    elif column["is_number"]:
        entry = _number(entry, column["source"])
        entry = None if entry in column["blanks"] or math.isnan(entry) else entry
    else:
        entry = str(entry)
        entry = None if entry.strip() in column["blanks"] else entry
    return column["fill"] if entry is None and column["is_number"] else entry


def _number(entry, name):
    try:
        return float(entry)
    except (TypeError, ValueError):
        rule = " is not a number: write numbers such as 1.5, without units, and leave blanks empty"
        raise ValueError("column " + repr(name) + ": " + repr(entry)[:60] + rule) from None


def _part_of_date(text, part):
    match = _DATE.fullmatch(text)
    try:
        date = None if match is None else datetime.date(*map(int, match.groups()))
    except ValueError:
        return None
    if date is None:
        return None
    return _DAYS[date.weekday()] if part == "weekday" else float(date.year if part == "year" else date.month)


def _snapped(number, column):
    if number is None or column["edges"] is None:
        return number
    return column["values"][bisect.bisect_right(column["edges"], number)]


def _of_number(number, column):
    """Return the weights of a number at the two knots beside it, for each scale."""
    if number is None:
        return [(sum(map(len, column["knots"])), column["length"])]
    share, start, weights = column["length"] / math.sqrt(len(column["knots"])), 0, []
    number = min(max(number, min(knots[0] for knots in column["knots"])), max(knots[-1] for knots in column["knots"]))
    for knots in column["knots"]:
        if len(knots) == 1:
            weights.append((start, share))
        else:
            low = bisect.bisect_right(knots, number, 1, len(knots) - 1) - 1
            way = min(max((number - knots[low]) / (knots[low + 1] - knots[low]), 0.0), 1.0)
            weights.append((start + low, math.sqrt(1 - way) * share))
            weights.append((start + low + 1, math.sqrt(way) * share))
        start += len(knots)
    return weights


def _of_piece(piece, weights, numbers):
    """Return the places and entries of the features of a piece."""
    if piece["kind"] == "table":
        return weights
    if piece["kind"] == "kernel":
        near = [math.exp(-math.sqrt(square) / piece["width_of_kernel"]) for square in _squares(piece, numbers)]
        along = [_product(near, column) - mean for column, mean in zip(piece["matrix"], piece["mean"])]
        length = max(math.sqrt(sum(x * x for x in along)), 1.0)
        return [(place, x / length * factor) for place, (x, factor) in enumerate(zip(along, piece["factors"]))]
    given = _nearness(piece, numbers) if piece["landmarks"] is not None else weights
    if piece["is_exact"]:
        given = [(place, round(x * _EXACT) / _EXACT) for place, x in given]
    along = [
        sum(x * row[place] for place, x in given) - offset for row, offset in zip(piece["matrix"], piece["offset"])
    ]
    length = _length(along) if piece["is_exact"] else math.sqrt(sum(x * x for x in along))
    scale = math.sqrt(1 - piece["constant"] ** 2) / max(length, 1e-12)
    features = [x * scale for x in along] + ([piece["constant"]] if piece["has_constant"] else [])
    return [(place, x * factor) for place, (x, factor) in enumerate(zip(features, piece["factors"]))]


def _length(along):
    """Return the length of a row from sums of whole numbers, as the student computes it."""
    root = ((len(along) - 1).bit_length() + 1) // 2
    unit = 2.0 ** (math.frexp(max(map(abs, along), default=0.0))[1] + root - _BITS)
    fine_units = 2.0 ** (_BITS + 1 - root)
    coarse = [round(x / unit) for x in along]
    fine = [round((x / unit - whole) * fine_units) for x, whole in zip(along, coarse)]
    squares = sum(c * c for c in coarse) + sum(c * f for c, f in zip(coarse, fine)) * (2 / fine_units)
    return math.sqrt(squares) * unit


def _squares(piece, numbers):
    """Return the squared distances to landmarks of whitened numbers."""
    entries = []
    for place, low, high, median, mean in zip(*piece["numbers"]):
        number = median if numbers[place] is None else numbers[place]
        entries.append(min(max(number, low), high) - mean)
    point = [_product(entries, column) for column in piece["whitening"]]
    return [sum((x - y) ** 2 for x, y in zip(point, landmark)) for landmark in piece["landmarks"]]


def _nearness(piece, numbers):
    squares = _squares(piece, numbers)
    least = min(squares)
    odds = [math.exp((least - square) / piece["scale"]) for square in squares]
    total = sum(odds)
    return [(place, math.sqrt(one / total)) for place, one in enumerate(odds)]


def _product(xs, ys):
    return sum(x * y for x, y in zip(xs, ys))


def _chances(scores):
    """Return the probability of each class."""
    if len(scores) == 1:
        score = min(max(scores[0], -40.0), 40.0)
        chance = round(_CHANCE / (1 + math.exp(-score))) / _CHANCE
        return [1 - chance, chance]
    largest = max(scores)
    odds = [round(math.exp(max(score - largest, -40.0)) * _CHANCE) for score in scores]
    total = sum(odds)
    return [max(round(one / total * _CHANCE), 1) / _CHANCE for one in odds]


def main(path):
    """Print the rows of a CSV file with probabilities and labels behind them."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader, writer = csv.DictReader(file), None
        for row in reader:
            try:
                if None in row:
                    raise ValueError("the row has more cells than the header")
                scored = {**row, **classify(row)}
            except ValueError as error:
                raise ValueError("line " + str(reader.line_num) + ": " + str(error)) from None
            if writer is None:
                writer = csv.DictWriter(sys.stdout, scored, lineterminator="\n")
                writer.writeheader()
            writer.writerow(scored)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python " + sys.argv[0] + " rows.csv > scores.csv")
    try:
        main(sys.argv[1])
    except (OSError, ValueError, csv.Error) as problem:
        # Rows before the line named are in the output already.
        sys.exit(sys.argv[1] + ": " + str(problem))
