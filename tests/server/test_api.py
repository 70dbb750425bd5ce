"""The interface for programs and the pages for people: answers, refusals, repeated answers, and forms.

Bodies by the thousand, none of which may be charged, quoted, or answered with a 5xx. An audit through HTTP: what
answers reveal of one voter is there, and no more than was quoted.
"""

import itertools
import json
import logging
import random
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from dpensemble.audit import audit_pipeline
from dpensemble.errors import InvalidParameterError
from dpensemble.server import Ledger, read_settings
from dpensemble.server.app import serve
from dpensemble.server.http import _prediction_model

from .conftest import CONFIG, Served, buy_back, open_group_as_before


def problem(response, status):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    found = response.json()
    assert found["status"] == status
    assert found["type"].startswith("urn:dpensemble:problem:")
    return found


def test_a_batch_is_charged_answered_and_counted(served):
    found = served.ask(counts=[[0, 100], [100, 0], [50, 50]])
    assert found.status_code == 200
    assert set(found.json()) == {"grant", "key", "labels", "means"}
    assert len(found.json()["labels"]) == 3
    assert set(found.json()["labels"]) <= {"no", "yes"}
    about = served.get("/v1/grants/october").json()
    assert (about["answers"], about["answered"], about["remaining"]) == (60, 3, 57)
    assert "patient" in about["guarantee"]
    assert served.ledger.verify().requests == 1


def test_a_key_is_told_the_same_bytes_for_nothing_also_by_a_new_service(served):
    told = {key: served.ask(key=key) for key in map(str, range(12))}
    assert len({one.json()["labels"][0] for one in told.values()}) == 2, "all coins alike: try another seed"
    assert {one.headers["idempotent-replayed"] for one in told.values()} == {"false"}
    other = Served(served.home)
    for place in (served, other):
        for key, one in told.items():
            again = place.ask(key=key)
            assert again.content == one.content
            assert again.headers["idempotent-replayed"] == "true"
    assert served.get("/v1/grants/october").json()["answered"] == 12


def test_a_key_takes_no_other_request_and_is_its_holders_own(served):
    assert served.ask().status_code == 200
    found = problem(served.ask(counts=[[49, 51]]), 422)
    assert found["type"] == "urn:dpensemble:problem:idempotency-key-reused"
    assert served.ask(who="bob", counts=[[49, 51]]).status_code == 200
    assert served.get("/v1/grants/october").json()["answered"] == 2


def test_a_charge_needs_a_key(served):
    assert problem(served.ask(key=None), 400)["type"].endswith("idempotency-key-missing")
    problem(served.ask(key=""), 422)
    problem(served.ask(key="x" * 121), 422)
    assert served.ledger.verify().requests == 0


def test_what_is_too_much_is_refused_with_what_would_fit_and_changes_nothing(served):
    served.ask(counts=[[50, 50]] * 58)
    head = served.ledger.head()
    for counts in ([[50, 50]] * 3, [[0, 100]] * 3):
        found = problem(served.ask(key="more", counts=counts), 403)
        figures = {name: found[name] for name in ("unit", "requested", "spent", "remaining", "fits")}
        assert figures == {"unit": "answers", "requested": 3, "spent": 58, "remaining": 2, "fits": 2}
    assert served.ledger.head() == head
    assert served.ask(key="more", counts=[[50, 50]] * 2).status_code == 200


def test_a_first_request_that_can_never_fit_charges_nothing(served):
    found = problem(served.ask(counts=[[50, 50]] * 61), 403)
    assert (found["spent"], found["fits"]) == (0, 60)
    assert "nothing was charged" in found["title"]
    assert served.ledger.account("patients").state().spent.loss == 0


def test_a_grant_that_the_account_does_not_cover_is_refused_in_public_numbers(home):
    text = (home / "service.toml").read_text().replace("epsilon = 2", "epsilon = 9").replace("200.0", "9.0")
    (home / "service.toml").write_text(text)
    found = problem(Served(home).ask(), 403)
    assert found["requested"] > found["remaining"] > 0
    assert found["spent"] == 0
    assert found["fits"] > 0
    assert found["unit"] == "Renyi divergence at order 8"


UNUSABLE = [
    {"counts": [[50, 51]]},
    {"counts": [[-1, 101]]},
    {"counts": [[50.5, 49.5]]},
    {"counts": [[50, 50, 0]]},
    {"counts": []},
    {"counts": [[10**30, 50]]},
    {"counts": [[50, 50]], "rows": [{}]},
    {"counts": [[50, 50]] * 1001},
    {"ballots": [["maybe"] * 100]},
    {"rows": [{"age": 3}]},
    {"log_probs": [[[0.0, -1.0]] * 100]},
    {"count": [[50, 50]]},
    {},
    [],
    3,
    None,
    "text",
]
NO_JSON = [b"", b"{", b"\xff\xfe", b'{"counts": [[NaN, 3]]}', b"[" * 90_000, b"1" * 5_000]


def test_what_cannot_be_used_is_refused_and_not_charged(served):
    for body in UNUSABLE:
        found = served.client.post("/v1/grants/october/predictions", json=body, headers=served.as_("alice", "k"))
        assert "50" not in problem(found, 422).get("detail", ""), body
    headers = served.as_("alice", "k") | {"Content-Type": "application/json"}
    for content in NO_JSON:
        found = served.client.post("/v1/grants/october/predictions", content=content, headers=headers)
        assert found.status_code in (400, 422)
        problem(found, found.status_code)
    assert served.ledger.verify().requests == 0


def test_large_bodies_are_refused_before_they_are_read(served):
    headers = served.as_("alice", "k")
    found = served.client.post("/v1/grants/october/predictions", content=b"x" * 10_000_000, headers=headers)
    problem(found, 413)

    def parts():
        for _ in range(100):
            yield b"x" * 100_000

    problem(served.client.post("/v1/grants/october/predictions", content=parts(), headers=headers), 413)


def test_scopes(served):
    assert problem(served.get("/v1/grants", who=None), 401)["title"] == "A valid API key is required."
    assert [one["name"] for one in served.get("/v1/grants").json()] == ["october"]
    problem(served.get("/v1/grants", who="bob"), 403)
    problem(served.ask(who="prometheus"), 403)
    problem(served.get("/metrics"), 403)
    problem(served.get("/v1/checkpoint"), 403)
    assert served.get("/metrics", who="prometheus").status_code == 200
    checkpoint = served.get("/v1/checkpoint", who="owner").json()
    assert served.ledger.verify([checkpoint]).head == checkpoint["hash"]
    assert served.get("/health", who=None).json() == {"status": "ok"}


def test_keys_for_some_grants_see_nothing_of_others(two_grants):
    assert two_grants.ask(grant="december").status_code == 200
    two_grants.ask()
    problem(two_grants.get("/v1/grants/december", who="some"), 404)
    counted = two_grants.get("/metrics", who="counter").text
    assert 'answers_remaining{grant="october"} 59.0' in counted
    assert 'budget_share_left{data_set="patients"}' in counted
    assert "december" not in counted
    assert "dpensemble_requests_total" not in counted
    assert "ledger_entries" not in counted
    every = two_grants.get("/metrics", who="prometheus").text
    assert 'answers_remaining{grant="december"} 59.0' in every
    assert "dpensemble_requests_total" in every
    assert "all grants" in problem(two_grants.get("/v1/checkpoint", who="some_owner"), 403)["detail"]
    assert two_grants.get("/v1/checkpoint", who="owner").status_code == 200


def test_grants_of_a_configuration_do_not_look_alike(home):
    text = (home / "service.toml").read_text()
    grant = text[text.index("[[grants]]") :].replace('"october"', '"October"')
    (home / "service.toml").write_text(text + grant)
    with pytest.raises(InvalidParameterError, match="'october' and 'October' look alike"):
        read_settings(home / "service.toml")


def test_unknown_places_and_methods_are_problems(served):
    problem(served.get("/v2"), 404)
    problem(served.client.delete("/v1/grants"), 405)
    problem(served.get("/v1/grants/november"), 404)
    problem(served.ask(grant="november"), 404)


def test_nothing_points_elsewhere(served):
    for path in ("/v1/grants/", "/v1/budgets/", "/grants/october/", "/health/"):
        assert served.client.get(path, headers=served.as_("alice"), follow_redirects=False).status_code == 404


def test_numbers_are_not_taken_as_texts():
    Prediction = _prediction_model(10)
    assert Prediction(log_probs=[[[0, -1.5]]]).log_probs == [[[0.0, -1.5]]]
    for one in ({"log_probs": [[["-0.5", -1.0]]]}, {"log_probs": [[[True, -1.0]]]}, {"counts": [["50", 50]]}):
        with pytest.raises(ValidationError):
            Prediction(**one)


def test_quotes_look_at_no_data(served):
    few, many = (served.get(f"/v1/grants/october/quote?answers={n}").json() for n in (1, 500))
    assert few["fits"]
    assert not many["fits"]
    assert 0 < few["epsilon"] < many["epsilon"]
    for wrong in ("0", "-1", "601", "x", "1e3", ""):
        problem(served.get(f"/v1/grants/october/quote?answers={wrong}"), 422)
    assert served.ledger.verify().grants == 0


def test_budgets_of_people_are_for_owners(served):
    open_group_as_before(served.ledger, "patients", "cautious", 2.5)
    served.ask()
    assert [one["whom"] for one in served.get("/v1/budgets").json()] == ["everyone"]
    owned = served.get("/v1/budgets", who="owner").json()
    assert [one["whom"] for one in owned] == ["everyone", "cautious"]
    assert all(0 < one["share_left"] < 1 for one in owned)


def test_an_old_ledger_gives_no_budget_back(served):
    import shutil
    import sqlite3

    with sqlite3.connect(served.home / "ledger.db") as old:
        old.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(served.home / "ledger.db", served.home / "old.db")
    assert served.ask().status_code == 200
    served.client.__exit__(None, None, None)
    for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
        (served.home / name).unlink(missing_ok=True)
    shutil.copy(served.home / "old.db", served.home / "ledger.db")
    assert problem(served.ask(key="new"), 503)["type"].endswith("unavailable")
    assert problem(served.get("/health", who=None), 503)
    assert "old copy" in served.log.getvalue()
    assert str(served.home) not in served.ask(key="new").text
    served.client.__enter__()


def test_a_row_that_no_entry_is_behind_makes_the_service_unhealthy(served):
    assert served.ask().status_code == 200
    assert served.get("/health", who=None).json() == {"status": "ok"}
    buy_back(served.home / "ledger.db")
    assert problem(served.get("/health", who=None), 503)
    assert "dpensemble_charges of the ledger does not follow" in served.log.getvalue()


def test_the_schema_describes_every_refusal(served):
    schema = served.get("/openapi.json", who=None).json()
    post = schema["paths"]["/v1/grants/{grant}/predictions"]["post"]
    assert {"400", "401", "403", "404", "413", "422", "503"} < set(post["responses"])
    (named,) = [one for one in post["parameters"] if one["in"] == "header"]
    assert (named["name"], named["required"], named["schema"]["maxLength"]) == ("idempotency-key", True, 120)
    assert "HTTPValidationError" not in json.dumps(schema)
    assert post["security"] == [{"HTTPBearer": []}]


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
    assert set(_prediction_model(1).model_fields) == {"counts", "ballots", "log_probs", "rows"}


N_RUNS = 1000


def test_answers_reveal_no_more_than_was_quoted(home):
    text = CONFIG.replace('{ name = "gnmax", sigma = 200.0 }', '{ name = "lnmax", scale = 2.0 }')
    text = text.replace("voters = 100", "voters = 10").replace("answers = 60", "answers = 2000")
    text = text.replace("epsilon = 2", "epsilon = 4000").replace('"patients"', '"audited"')
    (home / "service.toml").write_text(text)
    Ledger(home / "ledger.db").open_account("audited", epsilon=5000, delta=1e-3, filter="basic")
    served = Served(home)
    told = {}
    for counts in ((5, 5), (4, 6)):
        told[counts] = iter(served.ask(key=str(counts), counts=[counts] * N_RUNS).json()["labels"])
    claimed = served.get("/v1/grants/october/quote?answers=1").json()["epsilon"]
    result = audit_pipeline(lambda counts, _: next(told[counts]), (5, 5), (4, 6), n_runs=N_RUNS, delta=1e-6)
    assert not result.caught(claimed)
    assert result.epsilon_lower > 0.1 * claimed


def fields(page):
    return dict(re.findall(r'name="(token|request_key)" value="([^"]*)"', page.text))


def test_nobody_sees_anything_before_logging_in(served):
    page = served.client.get("/")
    assert page.status_code == 200
    assert 'type="password"' in page.text
    assert "october" not in page.text
    assert served.client.get("/grants/october").status_code == 401
    assert served.client.get("/grants/october/quote?answers=3").status_code == 401
    assert served.client.post("/login", data={"key": "dpe_wrong"}).status_code == 401
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_an_analyst_sees_what_is_left_and_asks(served):
    cookie = served.login().headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    page = served.client.get("/grants/october")
    assert "60</b> of 60 answers left" in page.text
    assert "Replacing any one patient by any other" in page.text
    form = {**fields(page), "field-0": "20", "field-1": "80"}
    told = served.client.post("/grants/october", data=form)
    assert told.status_code == 200
    assert 'id="told"' in told.text
    assert "59</b> of 60" in told.text
    again = served.client.post("/grants/october", data=form)
    assert "Repeated from before; nothing was charged." in again.text
    assert served.ledger.verify().requests == 1
    overview = served.client.get("/")
    assert "answers, grant october" in overview.text
    assert "<svg" in overview.text
    assert "/v1/checkpoint" not in overview.text


@pytest.mark.parametrize(
    ("said", "scheme", "secure"),
    [("", "http", True), ("true", "http", True), ("false", "http", False), ("false", "https", True)],
)
def test_the_cookie_is_for_https_unless_it_is_said_otherwise(home, said, scheme, secure):
    (home / "service.toml").write_text((f"secure_cookie = {said}" if said else "") + CONFIG)
    served = Served(home)
    found = served.client.post(
        f"{scheme}://testserver/login", data={"key": served.tokens["alice"]}, follow_redirects=False
    )
    assert ("; Secure" in found.headers["set-cookie"]) is secure


def test_the_cookie_of_the_set_up_in_containers_is_for_https():
    assert read_settings(Path(__file__).parents[2] / "deploy/config/service.toml").secure_cookie is True


def test_the_setting_of_the_cookie_is_checked(home):
    (home / "service.toml").write_text("secure_cookie = 1" + CONFIG)
    with pytest.raises(InvalidParameterError, match="secure_cookie must be true or false; got 1"):
        read_settings(home / "service.toml")


@pytest.mark.parametrize(
    ("host", "secure"),
    [("localhost", False), ("127.0.0.2", False), ("::1", False), ("0.0.0.0", True), ("::", True), ("a.org", True)],  # noqa: S104
)
def test_the_cookie_goes_over_http_to_this_machine_alone(home, monkeypatch, host, secure):
    made = []
    monkeypatch.setattr("dpensemble.server.app.create_app", made.append)
    monkeypatch.setattr("dpensemble.server.app.uvicorn.run", lambda *_, **__: None)
    # Not the loggers of this process, which later tests read.
    monkeypatch.setattr(
        "dpensemble.server.app.logging", SimpleNamespace(getLogger=logging.Logger, WARNING=logging.WARNING)
    )
    settings = read_settings(home / "service.toml")
    serve(settings, host=host)
    serve(replace(settings, secure_cookie=not secure), host=host)
    assert [one.secure_cookie for one in made] == [secure, not secure]


def test_forms_of_others_charge_nothing(served):
    served.login()
    form = {**fields(served.client.get("/grants/october")), "field-0": "20", "field-1": "80"}
    assert served.client.post("/grants/october", data={**form, "token": "0" * 64}).status_code == 403
    assert served.client.post("/grants/october", data=form, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert served.client.post("/logout", data={"token": "x"}).status_code == 403
    assert served.client.post("/grants/october", json=form).status_code == 415
    assert served.ledger.verify().requests == 0
    assert served.client.post("/logout", data=form, follow_redirects=False).status_code == 303
    assert "password" in served.client.get("/").text


def test_a_session_ends_with_its_logout_and_no_other_does(served):
    def seen(cookie):
        served.client.cookies.clear()
        return "october" in served.client.get("/", headers={"Cookie": cookie}).text

    one, other = (served.login().headers["set-cookie"].split(";")[0] for _ in range(2))
    assert seen(one)
    form, headers = fields(served.client.get("/", headers={"Cookie": one})), {"Cookie": one}
    assert served.client.post("/logout", data=form, headers=headers, follow_redirects=False).status_code == 303
    assert not seen(one)
    assert seen(other)
    assert seen(served.login().headers["set-cookie"].split(";")[0])


def test_nobody_is_logged_in_from_another_site(served):
    form = {"key": served.tokens["alice"]}
    for site, status in {"cross-site": 403, "same-site": 403, "same-origin": 303}.items():
        found = served.client.post("/login", data=form, headers={"Sec-Fetch-Site": site}, follow_redirects=False)
        assert found.status_code == status
        assert ("set-cookie" in found.headers) == (status == 303)


SITES = [
    ({"Origin": "https://testserver"}, True),
    ({"Origin": "https://testserver:443"}, True),
    ({"Origin": "https://TESTSERVER"}, True),
    ({"Origin": "https://evil.example"}, False),
    ({"Origin": "https://testserver.evil.example"}, False),
    ({"Origin": "https://testserver:8443"}, False),
    ({"Origin": "null"}, False),
    ({"Origin": ""}, False),
    ({"Origin": "https://testserver:x"}, False),
    ({"Referer": "https://testserver/grants/october"}, True),
    ({"Referer": "https://evil.example/testserver"}, False),
    # The browser's own word for the place goes first, because a proxy may change the host.
    ({"Sec-Fetch-Site": "same-origin", "Origin": "https://answers.example.org"}, True),
    ({"Sec-Fetch-Site": "cross-site", "Origin": "https://testserver"}, False),
    ({"Origin": "https://evil.example", "Referer": "https://testserver/"}, False),
]


@pytest.mark.parametrize(("headers", "is_here"), SITES, ids=str)
def test_origin_and_referer_count_where_the_browser_names_no_site(served, headers, is_here):
    form = {"key": served.tokens["alice"]}
    found = served.client.post("/login", data=form, headers=headers, follow_redirects=False)
    assert found.status_code == (303 if is_here else 403)
    assert ("set-cookie" in found.headers) is is_here


def test_pages_let_browsers_state_their_origin(served):
    # With "no-referrer" a browser sends "Origin: null" with the service's own forms.
    assert served.client.get("/").headers["referrer-policy"] == "same-origin"


def test_keys_for_some_grants_are_shown_no_others(two_grants):
    assert two_grants.ask(grant="december").status_code == 200
    for who in ("some", "some_owner"):
        two_grants.login(who)
        page = two_grants.client.get("/").text
        assert "Nothing yet." in page
        assert "december" not in page
        assert "<svg" not in page
        assert "/v1/checkpoint" not in page
    two_grants.ask()
    assert "answers, grant october" in two_grants.client.get("/").text
    two_grants.login("alice")
    page = two_grants.client.get("/").text
    assert "answers, grant december" in page
    assert "<svg" in page


def test_wrong_votes_are_said_beside_the_form_and_kept_there(served):
    served.login()
    form = {**fields(served.client.get("/grants/october")), "field-0": "20", "field-1": "81"}
    page = served.client.post("/grants/october", data=form)
    assert page.status_code == 422
    assert "must add up to n_voters=100" in page.text
    assert 'value="81"' in page.text
    assert served.client.post("/grants/october", data={**form, "field-1": "x"}).status_code == 422
    assert served.ledger.verify().requests == 0


def test_quotes_work_with_a_script_and_without(served):
    served.login()
    found = served.client.get("/grants/october/quote?answers=1").json()
    assert found["words"] in served.client.get("/grants/october?answers=1").text
    assert found["words"].endswith("which the grant covers.")
    assert "more than the grant covers" in served.client.get("/grants/october?answers=500").text
    assert served.client.get("/grants/october?answers=x").status_code == 422
    assert "fetch(" in served.client.get("/static/page.js").text


def test_the_owner_sees_people_and_checkpoints(served):
    open_group_as_before(served.ledger, "patients", "cautious", 2.5)
    served.login("owner")
    page = served.client.get("/").text
    assert "cautious" in page
    assert "/v1/checkpoint" in page
    served.login("alice")
    assert "cautious" not in served.client.get("/").text
    served.login("prometheus")
    assert served.client.get("/").status_code == 403


def test_soft_votes_are_asked_for_as_json_and_names_are_escaped(home):
    text = CONFIG.replace('law = { name = "gnmax", sigma = 200.0 }', 'law = { name = "gaussian-sum", sigma = 20.0 }')
    text = text.replace("voters = 100", "voters = 2").replace('"no", "yes"', '"<b>no", "yes"').replace("60", "20")
    (home / "service.toml").write_text(text.replace("comes back", "comes <i>back"))
    served = Served(home)
    served.login()
    page = served.client.get("/grants/october")
    assert "<i>back" not in page.text
    form = {**fields(page), "json": "[[[-0.1, -2.4], [-0.2, -1.8]]]"}
    told = served.client.post("/grants/october", data=form)
    assert "Noisy means" in told.text
    assert "<b>no" not in told.text.replace("<b>&lt;b&gt;no", "")
    for wrong in ("", "3", "{", '{"a": 1}'):
        assert served.client.post("/grants/october", data={**form, "json": wrong}).status_code == 422


def test_every_input_has_a_label_and_headings_go_down_by_one(served):
    served.login("owner")
    served.ask()
    for path in ("/", "/grants/october"):
        page = served.client.get(path).text
        ids = re.findall(r'<(?:input|textarea)(?![^>]*type="hidden")[^>]* id="([^"]+)"', page)
        assert all(f'for="{one}"' in page for one in ids)
        levels = [int(one) for one in re.findall(r"<h(\d)", page)]
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
        assert page.count("<main") == 1
        assert '<html lang="en">' in page
        anchors = re.findall(r'aria-labelledby="([^"]+)"', page)
        assert all(f'id="{one}"' in page for name in anchors for one in name.split())
