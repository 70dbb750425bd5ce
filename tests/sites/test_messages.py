"""Messages of strangers: every file is read, refused in a sentence, or counts as missing."""

import json
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpensemble.errors import DPEnsembleError, FileError
from dpensemble.sites.messages import Folder, Post, SigningKey, StillWaiting, canonical, fingerprint, first_of, parsed
from tests.sites.parties import Box, Crew, Party, play

KEYS = {name: SigningKey(bytes([place]) * 32) for place, name in enumerate(("a", "b"), start=1)}


def post(box, name="a"):
    one = Post(box, "0" * 64, name, KEYS[name])
    one.keys.update({other: key.public for other, key in KEYS.items()})
    return one


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=300) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_count_as_missing(content):
    reader = post(Box({"sum.b.1.0.json": content}))
    assert reader.read("sum", "b", 1, 0) is None
    assert "counts as missing" in reader.problems["sum.b.1.0.json"]
    with pytest.raises(FileError):
        first_of(content, "join", lambda body: bytes.fromhex(body["key"]), "b")


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_change_of_a_signed_message_counts_as_missing(data):
    box = Box()
    post(box, "b").send("sum", {"agreed": "1", "words": "AAAA"}, 1, 0)
    good = json.loads(box.messages["sum.b.1.0.json"])
    name = data.draw(st.sampled_from(sorted(good)))
    value = data.draw(JSON)
    if canonical(value) == canonical(good[name]):
        return
    box.messages["sum.b.1.0.json"] = json.dumps({**good, name: value}).encode()
    assert post(box).read("sum", "b", 1, 0) is None


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(["key", "agree", "sum", "opened", "start"]), JSON)
def test_a_signed_message_with_any_body_is_refused_in_a_sentence_or_waited_for(kind, body):
    crew = Crew(3)
    sender = "coordinator" if kind in ("opened", "start") else "b"
    play(crew, 0)
    Post(crew.box, crew.terms.run, sender, crew.keys[sender]).send(kind, body, 1, 0)
    reader = "a" if sender == "coordinator" else "coordinator"
    fresh = Party(crew, reader, box=Box(dict(crew.box.messages)))
    fresh.exchange.opened = []
    # Any other error would be one of a reader that trusts what it reads.
    with suppress(DPEnsembleError):
        fresh.open(0)


def test_messages_are_strict_json_without_doubles_floats_out_of_range_and_booleans_for_numbers():
    box = Box()
    post(box, "b").send("sum", {}, 1, 0)
    good = box.messages["sum.b.1.0.json"].decode()
    assert parsed(good.encode()) is not None
    for bad in (
        good.replace('"attempt":1', '"attempt":1,"attempt":1'),
        good.replace('"attempt":1', '"attempt":true'),
        good.replace('"attempt":1', '"attempt":1.0'),
        good.replace('"body":{}', '"body":NaN'),
        good.replace('"body":{}', '"body":1e999'),
        good.replace('"body":{}', '"body":' + "[" * 500 + "]" * 500),
        good.replace('"version":1', '"version":2'),
        good[:-1],
    ):
        assert parsed(bad.encode()) is None, bad[:80]


def test_a_link_in_the_folder_is_not_followed(tmp_path):
    (tmp_path / "secret").write_bytes(b"x")
    (tmp_path / "messages").mkdir()
    (tmp_path / "messages" / "sum.b.1.0.json").symlink_to(tmp_path / "secret")
    reader = post(Folder(tmp_path / "messages"))
    assert reader.read("sum", "b", 1, 0) is None
    assert "it is a link" in reader.problems["sum.b.1.0.json"]


def test_a_file_above_its_size_is_not_read(tmp_path):
    (tmp_path / "lost.b.1.0.json").write_bytes(b" " * (2**16 + 1))
    reader = post(Folder(tmp_path))
    assert reader.read("lost", "b", 1, 0) is None
    assert "larger" in reader.problems["lost.b.1.0.json"]


def test_a_link_in_the_place_of_a_message_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "messages").mkdir()
    journal = tmp_path / "journal.jsonl"
    journal.write_text("kept")
    (tmp_path / "messages" / "lost.a.1.0.json").symlink_to(journal)
    post(Folder(tmp_path / "messages")).send("lost", {}, 1)
    assert journal.read_text() == "kept"
    assert not (tmp_path / "messages" / "lost.a.1.0.json").is_symlink()


def test_fingerprints_are_short_and_differ():
    one, other = (fingerprint(key.public) for key in KEYS.values())
    assert one != other
    assert len(one) == 39
    assert one.count("-") == 7


def test_nothing_is_read_of_strangers():
    box = Box()
    Post(box, "0" * 64, "stranger", SigningKey(b"s" * 32)).send("sum", {}, 1, 0)
    assert post(box).read("sum", "stranger", 1, 0) is None


def test_a_masked_sum_of_another_size_is_refused():
    crew = Crew(3)
    crew.numbers["b"] = np.zeros(7, dtype=np.int64)
    with pytest.raises(DPEnsembleError, match="another size"):
        play(crew, 0)
    assert not any(name.startswith("opened") for name in crew.box.messages)


def test_waiting_states_who_is_missing():
    crew = Crew(3)
    with pytest.raises(StillWaiting, match="coordinator is waiting for the key of a, b, c"):
        crew["coordinator"].open(0)
