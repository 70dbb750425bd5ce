"""Bodies by the thousand, none of which may be charged, quoted, or answered with a 5xx."""

import json
import random

from dpensemble.server.grants import KINDS
from dpensemble.server.http import prediction_model

HARMLESS = frozenset({400, 404, 405, 413, 415, 422})


def grown(random_, depth=0):
    """Return a random JSON value, often near to what a grant takes."""
    kind = random_.randrange(12 if depth < 4 else 8)
    if kind < 8:
        odd = [None, True, -1, 0, 50, 10**25, 1e308, -1e-320, "", "yes", "\x00", "\ud800", "é" * 40, float("nan")]
        return random_.choice(odd)
    if kind < 10:
        return [grown(random_, depth + 1) for _ in range(random_.randrange(5))]
    names = ["counts", "ballots", "log_probs", "rows", "x", ""]
    return {random_.choice(names): grown(random_, depth + 1) for _ in range(random_.randrange(3))}


def body(random_):
    """Return a body that no grant takes, from one that is nearly right to one that is noise."""
    turn = random_.randrange(4)
    if turn == 0:
        return random_.randbytes(random_.randrange(200))
    if turn == 1:
        text = bytearray(json.dumps({"counts": [[50, 50]]}).encode())
        for _ in range(1 + random_.randrange(3)):
            text[random_.randrange(len(text))] = random_.randrange(256)
        return bytes(text)
    if turn == 2:
        return json.dumps({random_.choice(["counts", "ballots", "log_probs", "rows"]): grown(random_)}).encode()
    return json.dumps(grown(random_)).encode()


def test_thousands_of_malformed_bodies_are_refused_at_no_cost(served):
    random_, found = random.Random(17), set()
    headers = served.as_("alice", "k") | {"Content-Type": "application/json"}
    sent = 0
    while sent < 300:
        content = body(random_)
        if b"[[50, 50]]" in content.replace(b"\t", b" "):
            continue
        told = served.client.post("/v1/grants/october/predictions", content=content, headers=headers)
        sent += 1
        # A changed digit or two can make votes that are right.
        if told.status_code == 200:
            (row,) = json.loads(content)["counts"]
            assert sum(row) == 100
            headers["Idempotency-Key"] += "k"
            continue
        assert told.status_code in HARMLESS, content
        assert told.headers["content-type"] == "application/problem+json"
        found.add(told.status_code)
    assert {400, 422} & found
    assert served.ledger.verify().requests == len(headers["Idempotency-Key"]) - 1


def test_wrong_tokens_are_all_refused(served):
    random_ = random.Random(18)
    token = served.tokens["alice"]
    for _ in range(150):
        cut = random_.randrange(len(token))
        wrong = token[:cut] + random_.choice("ab0_-. ~") * random_.randrange(3) + token[cut + 1 :]
        if wrong.strip() == token:
            continue
        assert served.client.get("/v1/grants", headers={"Authorization": f"Bearer {wrong}"}).status_code == 401


def test_every_field_of_the_schema_is_tried_by_name():
    assert set(prediction_model(1).model_fields) == set(KINDS) == {"counts", "ballots", "log_probs", "rows"}
