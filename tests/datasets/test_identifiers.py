"""Columns that name people are seen by header and public rows together, in six languages."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpensemble.datasets import TablePreparation
from dpensemble.datasets.identifiers import (
    EMAILS,
    IDS,
    NAMES,
    PHONES,
    ROW_NUMBERS,
    header_words,
    identifier,
    names_person,
)

N = 120
DRAW = np.random.default_rng(0)
_FIRST = "Anna Ben Cleo Dora Élise Felix Gül Hans Ida Jan Kai Lea Max Nia Ole Pia Rosa Sam Tom Uma Vito Wim Xena Zoe"
FIRST = DRAW.choice(_FIRST.split(" "), N)
LAST = DRAW.choice([a + b for a in ("Mei", "Schm", "Dup", "Gar", "Ros") for b in ("er", "idt", "ont", "cía", "si")], N)
FULL = [f"{first} {last}" for first, last in zip(FIRST, LAST, strict=True)]
MAILS = [f"p.{number}@clinic-{number % 7}.example.org" for number in range(N)]
PHONE = [f"+49 {a} {b}" for a, b in DRAW.integers(10**5, 10**6, (N, 2))]
NUMBERS = DRAW.permutation(N) + 10_000
CODES = [f"M{number}" for number in NUMBERS]
SOCIAL = [f"{a}-{b}-{c}" for a, b, c in zip(NUMBERS % 900 + 100, NUMBERS % 89 + 10, NUMBERS, strict=True)]
UUIDS = [f"{number:08x}-1234-4abc-8def-0123456789ab" for number in range(N)]
CITIES = [f"{letter}erlin" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXY"]
YES_NO = DRAW.choice(["yes", "no"], N)
FEW = DRAW.choice(["Milk", "Bread", "Eggs", "Rice", "Tea"], N)


def iban(number):
    """Return a German IBAN with its check digits, computed here from the standard."""
    account = f"{number:018d}"
    return f"DE{98 - int(account + '131400') % 97:02d}{account}"


LEFT_OUT = {
    NAMES: [
        *[(name, FIRST) for name in ("first_name", "FirstName", "Vorname", "prénom", "voornaam", "given name")],
        *[(name, LAST) for name in ("last name", "Nachname", "surname", "apellidos", "cognome", "achternaam")],
        *[(name, LAST) for name in ("patient_name", "Patientenname", "Nom du patient", "nombre del paciente")],
        # A few patients with many visits each.
        ("Name", [f"{last}, {first}" for first, last in zip(FIRST[:25], LAST[:25], strict=True)] * 20),
        *[(name, FULL) for name in ("Name", "Vor- und Nachname", "nom", "full_name", "emergency contact name")],
    ],
    EMAILS: [
        *[(name, MAILS) for name in ("e-mail", "E-Mail-Adresse", "courriel", "correo electrónico", "email_address")],
        *[(name, MAILS) for name in ("Adresse e-mail", "indirizzo email", "contact", "x7")],
    ],
    PHONES: [
        *[(name, PHONE) for name in ("phone", "Telefon", "Handy", "Numéro de téléphone", "teléfono móvil")],
        *[(name, PHONE) for name in ("Telefonnummer (privat)", "home phone", "cellulare", "emergency_contact_phone")],
        ("mobile", 10**9 + NUMBERS.astype(np.int64) * 7919),
    ],
    IDS: [
        *[(name, NUMBERS) for name in ("patient_id", "id", "MRN", "n° client", "Kundennummer", "patiëntnummer")],
        *[
            (name, NUMBERS)
            for name in ("numéro de patient", "order_id", "encounter number", "Fallnummer", "CustomerNo")
        ],
        *[(name, CODES) for name in ("PatientID", "customerID", "Versicherungsnummer", "Codice fiscale", "record id")],
        *[("SSN", SOCIAL), ("uuid", UUIDS), ("x7", UUIDS), ("konto", [iban(number) for number in range(N)])],
        ("id_paciente", NUMBERS // 5),
        ("patient", [iban(number) for number in range(N)]),
        ("PassengerId", np.arange(N)),
        ("username", [f"u{number}" for number in range(N)]),
    ],
    ROW_NUMBERS: [("Unnamed: 0", np.arange(N)), ("Unnamed: 0", NUMBERS), ("index", 2 * np.arange(N)), ("#", None)],
}
LEFT_OUT[ROW_NUMBERS][-1] = ("lfd. Nr.", np.arange(N))

KEPT = [
    *[(name, FEW) for name in ("name", "nom", "product_name", "brand")],
    *[(name, YES_NO) for name in ("id_type", "identity", "valid", "phone_service", "PhoneService", "mobile_phone")],
    *[(name, YES_NO) for name in ("first_name", "mail", "nie", "fall", "personal", "tenant", "covid", "hybrid", "e")],
    *[(name, DRAW.integers(1, 13, N)) for name in ("region_id", "id", "policy_code", "store_id", "client_id")[:4]],
    ("region_id", [f"R{number}" for number in DRAW.integers(1, 13, N)]),
    ("contact", DRAW.choice(["cellular", "telephone", "unknown"], N)),
    ("contact", [f"desk{number % 4}@clinic.example.org" for number in range(N)]),
    *[(name, DRAW.integers(1000, 99_999, N)) for name in ("zip", "Postleitzahl", "paid", "price", "account_balance")],
    ("zip", [f"{number:05d}" for number in DRAW.integers(1000, 99_999, N)]),
    *[(name, DRAW.integers(4000, 11_000, N)) for name in ("cell_number", "number_of_patients", "n_customers")],
    *[(name, DRAW.random(N)) for name in ("index", "id", "mobile_minutes", "lid", "patient_id", "Unnamed: 0")],
    *[(name, DRAW.integers(0, 200, N)) for name in ("phone", "phone_calls", "user_score", "client_age", "staff")],
    *[(name, LAST) for name in ("city", "company", "hospital name", "drug_name", "brand_name", "name")],
    ("name", [f"{part} Clinic" for part in CITIES] * 20),
    ("first_name", CODES[:60] * 2),
    ("konto", [iban(number)[:-1] + str((int(iban(number)[-1]) + 1) % 10) for number in range(3)] * 40),
    ("", FEW),
    ("日本", FEW),
]


@pytest.mark.parametrize("kind", list(LEFT_OUT))
def test_columns_that_name_people_are_seen(kind):
    assert [(name, identifier(name, pd.Series(values))) for name, values in LEFT_OUT[kind]] == [
        (name, kind) for name, _ in LEFT_OUT[kind]
    ]


def test_columns_whose_rows_do_not_agree_with_the_header_stay():
    seen = [(name, identifier(name, pd.Series(values))) for name, values in KEPT]
    assert [one for one in seen if one[1] is not None] == []


def test_wrong_check_digits_are_no_account_number():
    wrong = [f"{iban(number)[:2]}{(int(iban(number)[2:4]) + 1) % 100:02d}{iban(number)[4:]}" for number in range(N)]
    assert identifier("x7", pd.Series([iban(number) for number in range(N)])) == IDS
    assert identifier("x7", pd.Series(wrong)) is None


@pytest.mark.parametrize("values", [MAILS[:9], [None] * 30, [np.nan] * 30, MAILS[:5] * 10])
def test_few_or_no_entries_show_nothing(values):
    assert identifier("email", pd.Series(values)) is None
    assert identifier("Unnamed: 0", pd.Series([1.0, np.inf] * 20)) is None


def test_a_tenth_of_other_entries_changes_nothing():
    mixed = pd.Series([*MAILS[:100], *["none"] * 10, *[None] * 10])
    assert identifier("email", mixed) == EMAILS
    assert identifier("x7", mixed) is None


def test_headers_become_words():
    assert header_words("PatientID") == ("patient", "id")
    assert header_words("Straße_2 (Größe)") == ("strasse", "grosse")
    assert header_words("N° de sécurité") == ("nr", "de", "securite")


def test_whose_record_it_is():
    people = ("patient_id", "Kundennummer", "CustomerNo", "member code", "SSN")
    assert all(names_person(name, has_many=False) for name in people)
    others = ("person", "region_id", "patients", "number of patients", "age")
    assert not any(names_person(name, has_many=False) for name in others)
    assert names_person("person", has_many=True)


TABLE = pd.DataFrame(
    {
        "Vorname": FIRST,
        "email": MAILS,
        "patient_id": NUMBERS,
        "age": DRAW.normal(50, 9, N),
        "ward": DRAW.choice(["a", "b"], N),
    }
)


def test_they_are_left_out_with_the_reason_unless_a_kind_is_declared():
    found = TablePreparation().fit(TABLE)
    assert found.identifiers_ == {"Vorname": NAMES, "email": EMAILS, "patient_id": IDS}
    assert found.words()["email"] == "left out: e-mail addresses"
    assert found.output_columns == ["age", "ward"]
    columns = {"Vorname": "category", "patient_id": "number"}
    kept = TablePreparation(columns=columns).fit(TABLE)
    assert kept.output_columns == ["Vorname", "patient_id", "age", "ward"]
    assert kept.identifiers_ == {"email": EMAILS}
    assert TablePreparation(columns={"patient_id": "category"}).fit(TABLE).words()["patient_id"] == "category"


@pytest.mark.parametrize("rules", [1, 2])
def test_runs_that_earlier_versions_began_keep_the_columns(rules):
    found = TablePreparation(rules=rules).fit(TABLE)
    assert found.identifiers_ == {}
    assert found.output_columns == ["Vorname", "patient_id", "age", "ward"]
    assert found.words()["email"] == "left out"


ODD = st.one_of(st.none(), st.text(max_size=12), st.sampled_from(["a@b.org", "+49 1", "inf", "nan", "\x00", "1e999"]))


@pytest.fixture(scope="module")
def prepared():
    return TablePreparation("median").fit(TABLE)


@settings(max_examples=12, deadline=None)
@given(st.tuples(*[ODD] * 5), st.integers(0, 9))
def test_no_private_entry_decides_what_is_left_out(prepared, odd, place):
    """One private record replaced by anything: the others are read the same to the bit."""
    from dpensemble.datasets.tables import take_kinds

    def read(table):
        rows = take_kinds("private", prepared.as_declared(table), TABLE, keep_bad=True, encoded=True)
        return prepared.encoded(rows)

    private = TABLE.astype(object).astype(str).iloc[:10].reset_index(drop=True)
    mutated = private.copy()
    mutated.iloc[place] = list(odd)
    before, after = (read(one).drop(index=place) for one in (private, mutated))
    assert before["age"].to_numpy().tobytes() == after["age"].to_numpy().tobytes()
    assert before["ward"].astype(object).tolist() == after["ward"].astype(object).tolist()
    # A left-out entry of the record itself changes nothing of the record.
    beside = private.copy()
    beside.loc[place, ["Vorname", "email", "patient_id"]] = list(odd[:3])
    pd.testing.assert_frame_equal(read(beside), read(private), check_exact=True)
