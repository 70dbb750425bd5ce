"""What must stay secret is planted, and looked for everywhere."""

import json

from dpensemble.server.service import GrantHandler

from .conftest import Served
from .test_hosted_teachers import ROW, hospital  # noqa: F401 - a fixture

SECRET = "Zq7vSECRETx9"  # noqa: S105


def everything(served, responses):
    """Return all output so far, on every channel."""
    said = [served.log.getvalue(), served.get("/metrics", who="prometheus").text]
    said += [json.dumps(entry.to_dict()) for entry in served.ledger.entries()]
    return "\n".join([*said, *(f"{one.headers} {one.text}" for one in responses)])


def test_what_was_sent_is_in_no_log_metric_error_or_page(served):
    token = served.tokens["alice"]
    forms = [
        {"counts": [[SECRET, 3]]},
        {"counts": SECRET},
        {SECRET: 3},
        {"ballots": [[SECRET] * 100]},
        {"rows": [{SECRET: SECRET}]},
        {"log_probs": [[[SECRET]]]},
        SECRET,
    ]
    found = [
        served.client.post("/v1/grants/october/predictions", json=one, headers=served.as_("alice", "k"))
        for one in forms
    ]
    odd = served.as_("alice", "k")
    found += [
        served.client.post("/v1/grants/october/predictions", content=f'{{"counts": {SECRET}', headers=odd),
        served.client.post(f"/v1/grants/{SECRET}/predictions", json={}, headers=odd),
        served.client.get(f"/{SECRET}?{SECRET}={SECRET}", headers=odd),
        served.client.get(f"/v1/grants/october/quote?answers={SECRET}", headers=odd),
        served.client.get("/v1/grants", headers={"Authorization": f"Bearer dpe_{SECRET}"}),
        served.client.get("/v1/grants", headers={"Authorization": f"Basic {SECRET}"}),
        served.client.request(SECRET[:6], "/v1/grants", headers=odd),
        served.client.post("/login", data={"key": SECRET}),
        served.client.post("/login", data={SECRET: SECRET}),
        served.client.get("/", headers={"Cookie": f"dpensemble={SECRET}.1.{SECRET}"}),
        served.client.get("/grants/october", headers={"X-Forwarded-For": SECRET, "User-Agent": SECRET}),
        served.ask(key=SECRET + "\t", counts=[[50, 50]]),
    ]
    assert all(400 <= one.status_code < 500 or one.status_code == 200 for one in found)
    served.login()
    found.append(served.client.get("/"))
    assert SECRET not in everything(served, found)
    assert token not in everything(served, found)
    assert token.split("_", 2)[2] not in (served.home / "keys.json").read_text()


def test_votes_and_holders_requests_are_in_no_log(served):
    found = [served.ask(key="quiet name", counts=[[37, 63]]), served.ask(key="other", counts=[[37, 64]])]
    assert [one.status_code for one in found] == [200, 422]
    said = everything(served, found)
    assert "[37" not in said
    assert "63]" not in said
    assert "quiet name" not in served.log.getvalue()
    assert all("seconds" not in line and "duration" not in line for line in served.log.getvalue().splitlines())


def test_an_error_that_nobody_foresaw_is_not_quoted(served, monkeypatch):
    def broken(*given):
        raise RuntimeError(SECRET)

    monkeypatch.setattr(GrantHandler, "predict", broken)
    found = served.ask()
    assert found.status_code == 500
    assert found.json()["type"].endswith("unexpected")
    served.login()
    pages = [served.client.get("/grants/october")]
    assert SECRET not in everything(served, [found, *pages])
    assert '"error": "RuntimeError"' in served.log.getvalue()


def test_the_private_table_is_nowhere(hospital, capfd):  # noqa: F811
    with open(hospital / "patients.csv", "a") as table:
        table.write(f"44,{SECRET},no,{SECRET}\n")
    served = Served(hospital)
    found = [served.ask(rows=[ROW]), served.get("/v1/grants"), served.get("/openapi.json")]
    assert found[0].status_code == 200
    assert SECRET not in everything(served, found) + str(capfd.readouterr())
