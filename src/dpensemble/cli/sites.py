"""The commands of runs with several sites: the terms, the members, the run of one party, and a demonstration."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from dpensemble._checks import split_names
from dpensemble._files import JSON, file_bytes
from dpensemble.cli.check import checked
from dpensemble.cli.interrupts import INTERRUPTS
from dpensemble.cli.options import parts_of
from dpensemble.cli.output import warnings_as_lines
from dpensemble.cli.train import account_of
from dpensemble.errors import InvalidParameterError, file_errors
from dpensemble.sites import HTTPMessages, SiteRun
from dpensemble.sites.demo import Demo
from dpensemble.sites.tables import PartyTables
from dpensemble.sites.web import SharedBox
from dpensemble.workflow.life_tables import DeclaredLifeTable
from dpensemble.workflow.targets import DeclaredTimes, parsed_range

# Bytes of a file with a key, at most.
_LONGEST_KEY = 4096


def new(given: dict[str, JSON]) -> None:
    """Write the terms of a run, and print them."""
    most = parts_of(given["most_units"])
    settings: dict[str, JSON] = {
        "epsilon": given["epsilon"],
        "colluding": given["colluding"],
        "at_sites": given["at_sites"],
        "attempts": given["attempts"],
        "relation": given["relation"].value,
        "unit": given["unit"],
        "drop": tuple(parts_of(given["drop"]) or ()),
        "statistics": tuple(parts_of(given["statistics"]) or ()),
        "rounds": given["rounds"],
        "holdout_score": given["holdout_score"],
    }
    settings |= _predicted(given)
    if given["delta"] is not None:
        settings["delta"] = given["delta"]
    if most is not None:
        settings["most_units"] = [_whole(one) for one in most]
    with warnings_as_lines():
        run = SiteRun.new(
            given["messages"],
            given["own"],
            public=given["public"],
            declared_columns=given["declared_columns"],
            sites=parts_of(given["sites"]) or (),
            **settings,
        )
    _print(
        {"terms": run.terms.to_dict(), "words": run.terms.words(), "fingerprint": run.fingerprint},
        [
            *run.terms.words(),
            f"Each site now runs: dpensemble sites join {given['messages']} OWN --name SITE --private FILE",
        ],
        given["as_json"],
    )


_OF_TIMES = ("event", "bins", "censored", "competing", "strata", "at", "time_unit")


def _predicted(given: dict[str, JSON]) -> dict[str, JSON]:
    """Return the terms about what is released: labels, a number in a range, or a life table or risks."""
    named = [name for name in ("classes", "range", "time") if given[name] is not None]
    if len(named) != 1:
        raise InvalidParameterError(
            "--classes, --range or --time must be given, and one of them only: labels have classes, a number has a "
            "range, and life tables and risks have times.",
            parameter="classes",
        )
    if given["time"] is not None:
        return _times(given)
    if unused := [name for name in _OF_TIMES if given[name] is not None]:
        raise InvalidParameterError(
            f"{unused[0]} is for times until an event: give --time, or leave it out.", parameter=unused[0]
        )
    if given["target"] is None:
        raise InvalidParameterError("--target must be given: name the column to predict.", parameter="target")
    if (given["public"] is None) is (given["declared_columns"] is None):
        raise InvalidParameterError(
            "--public or --declared-columns must be given, and not both: if no rows are public, declare columns.",
            parameter="public",
        )
    if given["range"] is None:
        return {"target": given["target"], "classes": split_names(given["classes"])}
    declared = parsed_range(given["range"])
    return {"target": given["target"], "range": (declared.low, declared.high)}


def _times(given: dict[str, JSON]) -> dict[str, JSON]:
    """Return the terms about times until an event."""
    if given["event"] is None or given["bins"] is None or given["target"] is not None:
        raise InvalidParameterError(
            "--time goes with --event and --bins, and not with --target: give the column and the codes of the event, "
            "such as died=1, and the end of each bin.",
            parameter="time",
        )
    declared = DeclaredTimes.of_options(
        given["time"],
        given["event"],
        given["bins"],
        **{name: given[name] for name in ("censored", "competing", "at", "time_unit")},
    )
    own = {name: value for name, value in vars(declared).items() if name != "event"}
    return {"target": declared.event, "times": own | {"strata": DeclaredLifeTable.strata_of(given["strata"] or ())}}


def join(given: dict[str, JSON]) -> None:
    """Let a site join, and print its fingerprint. With `check`, only read the table, and print the counts."""
    if given["check"]:
        with warnings_as_lines():
            read = SiteRun.check(_messages(given), given["own"], name=given["name"], private=given["private"])
            counts, of_records = _counted(read, given["private"])
        facts = {"name": given["name"], "fingerprint": None, "words": read.terms.words(), "check": counts}
        last = "Nothing was sent, and no key was made: if the counts are right, join without --check."
        _print(facts, [*read.terms.words(), *of_records, last], given["as_json"])
        return
    with warnings_as_lines():
        run = SiteRun.join(
            _messages(given), given["own"], name=given["name"], private=given["private"], least=given["least"]
        )
        counts, of_records = _counted(run, given["private"])
    words = [
        *run.terms.words(),
        f"Fingerprint of {run.name}: {run.fingerprint}",
        "Read it to every other site by telephone, and write down theirs.",
        *of_records,
    ]
    facts = {"name": run.name, "fingerprint": run.fingerprint, "words": run.terms.words(), "check": counts}
    _print(facts, words, given["as_json"])


def _counted(run: SiteRun | PartyTables, private: Path) -> tuple[dict[str, JSON], list[str]]:
    """Return what `check` counts of the site's records, also in lines."""
    life_table = run.terms.declared_times if run.terms.public_digest is None else None
    counts = checked(run.files(private), life_table=life_table)
    return counts.to_dict(), counts.in_words()


def run(given: dict[str, JSON]) -> None:
    """Take part in a run until the model is there."""
    party = SiteRun.load(_messages(given), given["own"])
    if given["trust"]:
        party.trust(dict(_pair(text) for text in given["trust"]))
    account = account_of(given["ledger"], given["data_set"])
    quiet = given["quiet"] or given["as_json"]
    with warnings_as_lines():
        party.run(
            given["private"],
            ledger=account,
            patience=given["patience"],
            on_wait=(lambda _: None) if quiet else (lambda text: typer.echo(text, err=True)),
        )
    summary = party.summary() | {"own": str(given["own"])}
    words = [str(party.guarantee_), party.where_]
    _print(summary, words, given["as_json"])


def status(given: dict[str, JSON]) -> None:
    """Print what a party sees in the folder of messages."""
    party = SiteRun.load(_messages(given), given["own"])
    seen = party.status()
    words = [
        *seen["terms"],
        f"This is {seen['name']}, whose fingerprint is {seen['fingerprint']}.",
        *(f"{name} joined with the fingerprint {own}." for name, own in seen["joined"].items()),
        f"Approved: {', '.join(seen['approved']) or 'nobody'}. Trusted here: {', '.join(seen['trusted']) or 'nobody'}.",
        f"{_attempt(seen)}, {seen['opened_sums']} sums are open, and this site was charged for {len(seen['charges'])}.",
        *(f"Attempt {one} was lost by {', '.join(names)}." for one, names in seen["lost"].items()),
        *seen["problems"],
        "The result is there." if seen["done"] else "The result is not there yet.",
    ]
    _print(seen, words, given["as_json"])


def _attempt(seen: dict[str, JSON]) -> str:
    if not seen["attempts"]:
        return f"No attempt has begun (up to {seen['most_attempts']} are agreed)"
    return f"Attempt {seen['attempts']} of {seen['most_attempts']}"


def serve(given: dict[str, JSON]) -> None:
    """Serve a folder of messages until a signal arrives."""
    # Other commands do not need what serves, which is an extra.
    from dpensemble.server import serve_mailbox  # noqa: PLC0415

    box = SharedBox(given["messages"])
    INTERRUPTS.follow(lambda: "every message that was accepted is in the folder", lambda: False)
    serve_mailbox(
        box,
        given["keys"],
        host=given["host"],
        port=given["port"],
        certificate=given["certificate"],
        certificate_key=given["certificate_key"],
    )


def demo(given: dict[str, JSON]) -> None:
    """Run a coordinator and sites as processes of this machine, and print how good the model is."""
    outcome = Demo(
        dataset=given["dataset"],
        n_sites=given["sites"],
        epsilon=given["epsilon"],
        seed=given["seed"],
        unequal=given["unequal"],
        without_public=given["without_public"],
        holdout_score=given["holdout_score"],
        folder=given["out"],
    ).run(lambda text: None if given["as_json"] else typer.echo(text, err=True))
    words = [
        f"Accuracy {outcome['accuracy']:.3f}, AUROC {outcome['auroc']:.3f} on {outcome['test_rows']:,} other rows, "
        f"from {outcome['sites']} sites with {', '.join(f'{n:,}' for n in outcome['records'])} records.",
        *_measured(outcome["quality"]),
        *(f"{name} opened files in: {', '.join(folders)}." for name, folders in outcome["opened_folders"].items()),
        f"{outcome['cpu_seconds']:.0f} CPU seconds in all. Messages: {outcome['message_bytes'] / 1e6:.1f} MB.",
        outcome["verified"],
    ]
    _print(outcome, words, given["as_json"])


def _measured(quality: dict[str, JSON] | None) -> list[str]:
    """Return in words what sites measured on held-back units, if they held some back."""
    if quality is None:
        return []
    low, high = quality["accuracy_low"], quality["accuracy_high"]
    return [f"The sites measured an accuracy of {low:.3f} to {high:.3f} on {quality['units']:,} held-back units."]


def _messages(given: dict[str, JSON]) -> Path | HTTPMessages:
    """Return the folder of messages, or the service at an address."""
    place, key_file, authority = given["messages"], given["key_file"], given["authority"]
    if ("://" in place) is (key_file is None) or ("://" not in place and authority is not None):
        raise InvalidParameterError(
            "--key-file and --authority are for messages at an https address, which needs a key: give both the address "
            "and --key-file, or a folder.",
            parameter="key_file",
        )
    if key_file is None:
        return Path(place)
    with file_errors(lambda reason: f"key_file={str(key_file)!r} cannot be read ({reason}): give the file of a key."):
        key = file_bytes(key_file, links=True, largest=_LONGEST_KEY)
    return HTTPMessages(place, key.decode("ascii", errors="replace"), authority=authority)


def _print(facts: dict[str, JSON], words: list[str], as_json: bool) -> None:
    typer.echo(json.dumps(facts, indent=2) if as_json else "\n".join(words))


def _pair(text: str) -> tuple[str, str]:
    name, equals, own = text.partition("=")
    if not equals:
        raise InvalidParameterError(f"trust={text!r} must be NAME=FINGERPRINT.", parameter="trust")
    return name, own


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidParameterError(
            f"most_units={text!r} is not a whole number, or several with commas between them.", parameter="most_units"
        ) from None


#: What each command does, by its name.
ACTIONS = {"new": new, "join": join, "run": run, "status": status, "serve": serve, "demo": demo}
