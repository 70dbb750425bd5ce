"""What a protected unit is called: a patient if the unit column is ``patient_id``, not a unit."""

from __future__ import annotations

import re

from dpensemble._nouns import plural, with_article
from dpensemble.errors import InvalidParameterError

RECORD = "record"
# The unit column states whose record it is, so that a unit is a person when the column's name states nothing else.
_USUAL = "person"
_KEY = "id|ids|nr|no|num|number|key|code|uuid|guid|hash|name|pseudonym"
_KNOWN = (
    "patient|person|subject|participant|member|customer|client|user|employee|student|pupil|donor|voter|citizen|"
    "resident|insured|policyholder|owner|driver|tenant|child|respondent|visitor|applicant|borrower|taxpayer|worker|"
    "household|family|couple|class|school|site|hospital|clinic|practice|ward|centre|center|company|firm|business|shop|"
    "store|device|vehicle|machine|case|visit|admission|stay|episode|encounter|session|order|trip|claim|loan|contract|"
    "account|address"
)
# Words before a key that name a register or the key itself, and not whose record it is.
_NO_NOUN = "unique|study|record|entry|data|main|hash|national|social|security|medical"
_FEWEST_LETTERS, _MOST_LETTERS = 4, 30
_TOGETHER = "A unit is all records that share"
_MARK = re.compile(r"\b([Aa] )?([Uu])nit(s?)\b(?! column)")


def unit_noun(protected: str, column: str | None, declared: str | None = None) -> str:
    """Return the noun for what a guarantee protects.

    Parameters
    ----------
    protected : str
        What the guarantee names: ``"record"``, ``"unit"``, or a noun.
    column : str or None
        The declared unit column. Only its name is read.
    declared : str, optional
        A noun that the owner of the data declares. It wins if units are protected.

    Returns
    -------
    str
        ``"record"`` if single records are protected. Else the declared noun, the noun that the column's name
        contains, or ``"person"``.

    Examples
    --------
    >>> unit_noun("unit", "PatientID"), unit_noun("unit", "pid"), unit_noun("record", "patient_id")
    ('patient', 'person', 'record')
    """
    if protected != "unit":
        return protected
    return declared or _noun_in(column or "") or _USUAL


def declared_noun(noun: str, unit_column: str | None) -> str:
    """Return the noun that an owner of data declares for units, in lower case. Raise if the noun would mislead."""
    words = " ".join(noun.split()).lower()
    if unit_column is None:
        raise InvalidParameterError(
            f"unit_name={noun!r} requires a unit column, because single records are protected without one; give "
            "--unit COLUMN, or leave it out.",
            parameter="unit_name",
        )
    if not re.fullmatch(r"[^\W\d_]+(?:[ -][^\W\d_]+)*", words) or len(words) > _MOST_LETTERS:
        raise InvalidParameterError(
            f"unit_name={noun!r} must be a noun in the singular, of letters and at most {_MOST_LETTERS} characters, "
            "such as patient.",
            parameter="unit_name",
        )
    return words


def named(text: str, noun: str, column: str | None) -> str:
    """Return a sentence about units with their noun instead."""
    if text.startswith(_TOGETHER) and column is not None:
        entry = f"All records with the same entry in the column “{column}”"
        return f"{entry} belong to one {noun} and are protected together."
    text = re.sub(r"\b([Uu]nits?) \(or records?\)", r"\1", text)
    text = re.sub(r"\brecords? \(or (units?)\)", r"\1", text)
    if noun == RECORD:
        text = text.replace(", each by its first record", "")
    return _MARK.sub(lambda found: _in_place(found, noun), text)


def _in_place(found: re.Match[str], noun: str) -> str:
    article, first, many = found.groups()
    words = plural(noun) if many else with_article(noun) if article else noun
    capital = (article or first)[:1].isupper()
    return words[:1].upper() + words[1:] if capital else words


def _noun_in(column: str) -> str | None:
    """Return the noun in the name of a column, such as patient of ``PatientID``, or None."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column)
    parts = re.sub(r"[^a-z]+", " ", words.lower()).split()
    has_key = len(parts) > 1 and re.fullmatch(_KEY, parts[-1]) is not None
    last = parts[-2] if has_key else parts[-1] if parts else ""
    for word in (last, last.removesuffix("s")):
        if re.fullmatch(_KNOWN, word):
            return word
    glued = re.fullmatch(rf"({_KNOWN})({_KEY})", last)
    if glued:
        return glued[1]
    # A key names its owner: the turbine of turbine_id. Short words are abbreviations.
    return last if has_key and len(last) >= _FEWEST_LETTERS and not re.fullmatch(_NO_NOUN, last) else None
