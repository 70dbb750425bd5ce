"""Columns that name people or number records: names, e-mail addresses, phone numbers, ids and row numbers.

The header shows what a column may hold, and public rows have to agree. A column ``phone`` of yes and no stays, and so
does a column ``region_id`` of twelve regions. E-mail addresses, UUIDs and IBANs have a form of their own, so public
rows show them under any header. No private row is read, and no entry is quoted.

Headers are read in English, German, French, Spanish, Italian and Dutch, without accents and capitals.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._entries import Floats
from dpensemble.datasets.columns import as_text, distinct_texts, is_number

NAMES, EMAILS, PHONES, IDS, ROW_NUMBERS = "names", "e-mail addresses", "phone numbers", "ids", "row numbers"

# Different entries that a column has at least if its header shows what it holds, and if only its entries do.
_FEWEST, _FEWEST_ALONE = 10, 20
# Shares: entries of the form of a kind, with and without a header, and different entries of people and of rows.
_MOST, _NEARLY_ALL, _OF_PEOPLE, _OF_ROWS = 0.8, 0.95, 0.1, 0.5
# Phone numbers that a table stores as numbers have at least six digits.
_SMALLEST_PHONE, _LOOKED_AT_FIRST = 10**5, 50


def _words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


_PEOPLE = _words(
    "patient patients patientin patienten patiente paciente paziente person persons personne persona persoon people",
    "subject participant proband probanden teilnehmer member members membre miembro socio lid mitglied mitglieds",
    "customer customers kunde kunden client clients cliente clienti klant klanten passenger applicant borrower contact",
    "user users nutzer benutzer utilisateur usuario utente gebruiker account employee mitarbeiter employe empleado",
    "dipendente medewerker staff personal student students schuler eleve alumno studente pupil household family donor",
    "patron voter citizen resident insured versicherte versicherten versicherter assure asegurado assicurato",
    "verzekerde policyholder owner driver tenant",
)
_JOINING = _words("of the des der die du de d l la le les del della di van het y und et and e a")
_NUMBER = _words("nr nummer numero number num no nro nbr")
# Before a word for people, these count them: number_of_patients.
_COUNT = _words("number num no nbr n count")
_QUALIFIERS = _words(
    "home work business private privat geschaftlich primary secondary other main emergency day evening contact main",
    "legal official own preferred domicile travail fixe notfall priv dienst casa lavoro trabajo thuis werk",
)
_ID_WORDS = _words("id ids uid uuid guid identifier identifiant identificador identificativo kennung")
# Further marks of an id behind or before a word for people, and ids that need none of these words.
_MARKS = _words("code key ref reference pseudonym mrn ssn")
_OWN_IDS = _words(
    "mrn ssn iban dni nie nif nir bsn kvnr svnr ahv avs curp cpf nhs pseudonym username login passport passeport",
    "pasaporte passaporto paspoort reisepass matricule creditcard kreditkarte socialsecurity securitesociale",
    "seguridadsocial codicefiscale historiaclinica medicalrecord",
)
_STEMS_OF_IDS = _words(
    "versicherungs sozialversicherungs versicherten krankenversicherungs krankenversicherten rentenversicherungs",
    "burgerservice personalausweis ausweis kreditkarten konto matrikel steuer rekening kunden mitglieds personal",
    "rijksregister policen",
)
_FIRST_AND_LAST = _words(
    "firstname firstnames forename forenames givenname givennames lastname lastnames surname surnames familyname",
    "middlename maidenname birthname fullname namefirst namelast fname lname vorname vornamen rufname nachname",
    "nachnamen familienname familiennamen geburtsname zuname vornachname vornamenachname prenom prenoms nomfamille",
    "nomnaissance nomjeunefille nomprenom prenomnom apellido apellidos primerapellido segundoapellido nombreapellidos",
    "cognome nomecognome cognomenome voornaam voornamen achternaam familienaam",
)
_NAME = _words("name names nom noms nome nombre naam namen")
_EMAIL = _words(
    "email emails mail emailaddress mailaddress emailadresse mailadresse courriel adressemail adresseemail",
    "adressecourriel adresseelectronique correo correoelectronico emaildireccion postaelettronica indirizzoemail",
    "emailadres mailadres",
)
_PHONE = _words(
    "phone phones telephone tel telefon telefono telefoon mobile mobilephone mobil mobiltelefon handy cell cellphone",
    "cellular celular cellulare movil portable mobiel gsm fax telefax ruf telefonfestnetz festnetz phonehome",
    "telefonmobil telefonoportable telefonomovil",
)
_COUNTERS = _words(
    "index row rownumber rownum rowno rowid line linenumber recordnumber recordno record zeile zeilen lfd laufende",
    "ligne fila riga rij regel",
)
_RECORDS = _words(
    "record case visit encounter admission stay episode order invoice ticket policy contract card claim loan sample",
    "specimen transaction document file application fall auftrags rechnungs vertrags proben dossier commande facture",
    "contrat pedido factura contrato ordine fattura contratto bestelling factuur",
)

_EMAIL_ENTRY = re.compile(r"[^\s@,;<>]+@[^\s@,;<>]+\.[^\s@,;<>.]{2,}")
_PHONE_ENTRY = re.compile(r"\+?[\d\s()./\-]{6,24}(\s?(x|ext\.?)\s?\d{1,6})?", re.IGNORECASE)
_UUID_ENTRY = re.compile(r"\{?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\}?", re.IGNORECASE)
_IBAN_ENTRY = re.compile(r"[A-Z]{2}\d{2}( ?[A-Z0-9]){11,30}")
_NAME_ENTRY = re.compile(r"[^\W\d_](?:[^\W\d_]|[\s.,'’()\-\"])*")
_LAST_AND_FIRST = re.compile(r"[^\W\d_][^,;\d]*, ?[^\W\d_][^,;\d]*")
_CAPITALISED = re.compile(r"(?:[A-ZÀ-ÖØ-ÞĀ-Ž][^\s\d]*|(?:von|van|de|der|del|di|da|la|le|den|ten|bin|al)\b)")
_ID_ENTRY = re.compile(r"[\w./:#\- ]{1,60}")


@lru_cache(maxsize=2**14)
def header_words(name: str) -> tuple[str, ...]:
    """Return the words of a header in small letters and without accents: PatientID as patient and id."""
    text = re.sub(r"(?i)\bn[°º]|№|#", " nr ", name).replace("ß", "ss")
    text = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})", " ", text)
    plain = "".join(one for one in unicodedata.normalize("NFKD", text) if not unicodedata.combining(one))
    return tuple(re.findall(r"[a-z]+", plain.lower()))


def is_unnamed(name: str) -> bool:
    """Return whether a column had no name in its file."""
    return re.fullmatch(r"Unnamed: \d+(_level_\d+)?", name) is not None


def counts_rows(values: pd.Series) -> bool:
    """Return whether numbers count the rows, one by one."""
    numbers = values.to_numpy(dtype=float, na_value=np.nan)
    return len(numbers) > 1 and bool((np.diff(numbers) == 1).all())


def identifier(name: str, column: pd.Series) -> str | None:
    """Return what a public column holds if it names people or numbers records, by its header and its entries.

    Parameters
    ----------
    name : str
        The header.
    column : Series
        Public entries. Never pass private ones.

    Returns
    -------
    str or None
        `NAMES`, `EMAILS`, `PHONES`, `IDS` or `ROW_NUMBERS`. None for all other columns.

    Examples
    --------
    >>> identifier("E-Mail", pd.Series([f"person{number}@example.org" for number in range(30)]))
    'e-mail addresses'
    >>> identifier("phone", pd.Series(["yes", "no"] * 15)) is None
    True
    """
    if is_number(column):
        return _number_kind(name, column)
    entries = _Texts(as_text(column))
    return None if entries.different < _FEWEST else _text_kind(name, entries)


class _Texts:
    """Distinct texts of a column, and how often each occurs."""

    def __init__(self, entries: pd.Series) -> None:
        places, texts = distinct_texts(entries)
        self.texts = [text.strip() for text in texts]
        self._counts = np.bincount(places[places >= 0], minlength=len(texts))

    @property
    def different(self) -> int:
        """Number of different texts."""
        return len(self.texts)

    @property
    def share_different(self) -> float:
        """Number of different texts per entry."""
        return self.different / max(int(self._counts.sum()), 1)

    def share(self, fits: NDArray[np.bool_]) -> float:
        """Return the share of entries whose text fits."""
        return float(self._counts[fits].sum() / self._counts.sum())

    def are_mostly(self, pattern: re.Pattern[str], share: float = _MOST) -> bool:
        """Return whether most entries have a form. A few entries decide about most columns."""
        first = [pattern.fullmatch(text) is not None for text in self.texts[:_LOOKED_AT_FIRST]]
        if sum(first) < len(first) / 2:
            return False
        return self.share(np.array([pattern.fullmatch(text) is not None for text in self.texts], dtype=bool)) >= share


def _text_kind(name: str, entries: _Texts) -> str | None:
    words = header_words(name)
    many = entries.different >= _FEWEST_ALONE
    if entries.are_mostly(_EMAIL_ENTRY, _MOST if _is_called(words, _EMAIL) else _NEARLY_ALL) and (
        many or _is_called(words, _EMAIL)
    ):
        return EMAILS
    if _is_called(words, _PHONE) and entries.share_different > _OF_PEOPLE and _are_phones(entries):
        return PHONES
    if (_is_name_of_person(words) and _are_names(entries)) or (
        _is_called(words, _NAME)
        and many
        and (entries.share_different > _OF_PEOPLE or entries.are_mostly(_LAST_AND_FIRST))
        and _are_full_names(entries)
    ):
        return NAMES
    if many and entries.share_different > _OF_PEOPLE and (entries.are_mostly(_UUID_ENTRY) or _are_ibans(entries)):
        return IDS
    least = _OF_PEOPLE if is_key_of_person(words) else _OF_ROWS if _is_key(words) else None
    if least is not None and entries.share_different > least and _are_codes(entries):
        return IDS
    return None


def _number_kind(name: str, column: pd.Series) -> str | None:
    """Return the kind of a column of numbers, which no entry shows without a header."""
    words, unnamed = header_words(name), is_unnamed(name)
    of_person = is_key_of_person(words)
    counter, key, phone = "".join(words) in _COUNTERS or _is_counter(words), _is_key(words), _is_called(words, _PHONE)
    if not (unnamed or of_person or counter or key or phone):
        return None
    numbers = column.to_numpy(dtype=float, na_value=np.nan)
    numbers = numbers[~np.isnan(numbers)]
    if unnamed and counts_rows(column):
        return ROW_NUMBERS
    different = len(np.unique(numbers))
    if different < _FEWEST or not (np.isfinite(numbers).all() and (numbers % 1 == 0).all()):
        return None
    share = different / len(numbers)
    if phone and share > _OF_ROWS and np.median(numbers) >= _SMALLEST_PHONE:
        return PHONES
    if share > _NEARLY_ALL and (unnamed or (counter and _rise(numbers))):
        return ROW_NUMBERS
    return IDS if share > (_OF_PEOPLE if of_person else _NEARLY_ALL) and (of_person or key) else None


def _rise(numbers: Floats) -> bool:
    return bool((np.diff(numbers) > 0).all())


def _is_called(words: tuple[str, ...], names: frozenset[str]) -> bool:
    """Return whether a header is one of some names, with words about whose it is, or its number, around it."""
    parts = [word for word in words if word not in _JOINING | _QUALIFIERS]
    if "".join(parts) in names:
        return True
    core = [word for word in parts if word not in _PEOPLE | _NUMBER]
    return bool(core) and _without_number("".join(core)) in names


def _without_number(word: str) -> str:
    """Return a German or Dutch word such as telefonnummer without its number."""
    return re.sub(r"(?<=[a-z]{2})(nummer|nr|number)$", "", word)


def _is_name_of_person(words: tuple[str, ...]) -> bool:
    """Return whether a header names a first name, a last name, or the name of a person."""
    if _is_called(words, _FIRST_AND_LAST):
        return True
    rest = [word for word in words if word not in _JOINING | (_QUALIFIERS - _PEOPLE)]
    if not rest:
        return False
    compound = re.fullmatch(r"(.{4,}?)(name|naam)", rest[-1]) if len(rest) == 1 else None
    if compound is not None:
        return compound[1] in _PEOPLE
    named = [word in _NAME for word in rest]
    return any(named) and len(rest) > 1 and all(word in _NAME or word in _PEOPLE for word in rest)


def is_key_of_person(words: tuple[str, ...]) -> bool:
    """Return whether words of a header name the id of a person, such as patient_id, Kundennummer or SSN."""
    rest = [word for word in words if word not in _JOINING]
    if not rest or _is_count(words):
        return False
    marks = _ID_WORDS | _NUMBER | _MARKS
    others = [word for word in rest if word not in marks]
    if "".join(rest) in _OWN_IDS or "".join(others) in _OWN_IDS:
        return True
    compound = re.fullmatch(r"(.{3,}?)(nummer|nr|number|no|id|code)", "".join(rest))
    if compound is not None and (compound[1] in _PEOPLE or compound[1] in _STEMS_OF_IDS):
        return True
    return 0 < len(others) < len(rest) and all(word in _PEOPLE for word in others)


def names_person(name: str, *, has_many: bool) -> bool:
    """Return whether a header names whose record it is: patient_id, CustomerNo or, with `has_many`, person."""
    words = header_words(name)
    return is_key_of_person(words) or (has_many and len(words) == 1 and words[0] in _PEOPLE)


def _is_count(words: tuple[str, ...]) -> bool:
    """Return whether a header counts people, as number_of_patients does."""
    return len(words) > 1 and words[0] in _COUNT


def _is_key(words: tuple[str, ...]) -> bool:
    """Return whether a header names the id of a record, such as id, order_id or invoice_no."""
    if not words:
        return False
    if words[-1] in _ID_WORDS:
        return True
    if words[-1] in _NUMBER and len(words) > 1 and all(word in _RECORDS for word in words[:-1]):
        return True
    compound = re.fullmatch(r"(.{4,}?)(nummer|nr)", words[-1]) if len(words) == 1 else None
    return (compound is not None and compound[1] in _RECORDS) or is_key_of_person(words)


def _is_counter(words: tuple[str, ...]) -> bool:
    return len(words) > 1 and words[0] in _COUNTERS and words[-1] in _NUMBER


def _are_phones(entries: _Texts) -> bool:
    fits = [
        _PHONE_ENTRY.fullmatch(text) is not None and 6 <= sum(map(str.isdigit, text)) <= 17 for text in entries.texts
    ]
    return entries.share(np.array(fits, dtype=bool)) >= _MOST


def _are_names(entries: _Texts) -> bool:
    """Return whether there are many names: texts without digits."""
    enough = entries.different >= _FEWEST_ALONE or entries.share_different > _OF_ROWS
    return enough and entries.are_mostly(_NAME_ENTRY)


def _are_full_names(entries: _Texts) -> bool:
    """Return whether most entries are two to five words that begin with capitals, and no digits."""
    fits = []
    for text in entries.texts:
        words = re.split(r"[\s,]+", re.sub(r"\([^)]*\)", "", text).strip())
        capital = sum(_CAPITALISED.match(word) is not None for word in words)
        fits.append(_NAME_ENTRY.fullmatch(text) is not None and 2 <= len(words) <= 6 and capital == len(words))
    return entries.share(np.array(fits, dtype=bool)) >= _MOST


def _are_codes(entries: _Texts) -> bool:
    """Return whether most entries are codes: one word with a digit, or more digits than letters."""
    fits = []
    for text in entries.texts:
        digits, letters = sum(map(str.isdigit, text)), sum(map(str.isalpha, text))
        fits.append(_ID_ENTRY.fullmatch(text) is not None and digits > 0 and (" " not in text or digits >= letters))
    return entries.share(np.array(fits, dtype=bool)) >= _MOST


def _are_ibans(entries: _Texts) -> bool:
    if not entries.are_mostly(_IBAN_ENTRY):
        return False
    return entries.share(np.array([_has_check_digits(text) for text in entries.texts], dtype=bool)) >= _MOST


def _has_check_digits(text: str) -> bool:
    """Return whether a text has the check digits of an IBAN, by ISO 13616."""
    plain = text.replace(" ", "")
    if _IBAN_ENTRY.fullmatch(text) is None or not plain.isascii():
        return False
    return int("".join(str(int(one, 36)) for one in plain[4:] + plain[:4])) % 97 == 1
