"""The page: for whom, what it shows, and what its forms may do."""

import itertools
import logging
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dpensemble.errors import InvalidParameterError
from dpensemble.server import read_settings
from dpensemble.server.app import serve

from .conftest import CONFIG, Served, open_group_as_before


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
    monkeypatch.setattr("dpensemble.server.app.logging", SimpleNamespace(getLogger=logging.Logger))
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
