"""Options of ``train`` and ``plan``: common ones, and those that are read from the estimator and its law."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dpensemble.cli.help import one_line
from dpensemble.cli.manifest import LAWS, Parameter, law_of, law_parameter, laws_of, learners, method_of, rule
from dpensemble.cli.option import LAW, METHOD, PANELS, RULE, SETTING, Option
from dpensemble.cli.own_options import own_options
from dpensemble.cli.parameters import flag_of, shown

_RIGHT = 49


def options_of(command: str, method: str, law: str | None) -> list[Option]:
    """Return the options of a command for a method and a law, by panel."""
    options = {option.flag: option for option in own_options(command, method_of(method))}
    for option in _of_estimator(command, method, law):
        options.setdefault(option.flag, option)
    return sorted(options.values(), key=lambda option: PANELS.index(option.panel))


def _of_estimator(command: str, method: str, law: str | None) -> Iterator[Option]:
    described = method_of(method)
    parameters = [
        one
        for one in described.parameters.values()
        if (command != "plan" or shown(one.name).planned)
        # The budget of each record takes its place.
        and not (one.name == "epsilon" and "budgets" in described.fit)
    ]
    takes_law = law_parameter(method)
    if takes_law is not None:
        names = laws_of(method)
        yield Option(flag="--law", name="law", choices=names, text=_values(names, takes_law.default))
        # A method with its own rules also finds the noise of these rules.
        if law is not None and law in LAWS and set(names) <= set(LAWS):
            yield from _of_law(law, command, {flag_of(one.name) for one in parameters})
    for parameter in parameters:
        yield from _of_parameter(parameter, method)


def _of_parameter(parameter: Parameter, method: str) -> Iterator[Option]:
    """Yield the option of a method's parameter, and the options that belong to it."""
    how = shown(parameter.name)
    if not how.replaced and (how.kind or parameter.scalar) is not None:
        yield replace(_read(parameter, SETTING, how.panel), also=dict(how.also).get(method))
    yield from how.more
    if how.rule:
        yield from (_read(one, RULE, METHOD) for one in rule().parameters.values() if one.name not in parameter.choices)


def _of_law(law: str, command: str, taken: set[str]) -> Iterator[Option]:
    described = law_of(law)
    for field in described.parameters.values():
        option = _read(field, LAW, METHOD)
        if command == "train" and field.name == described.noise:
            option = replace(option, text=f"{option.text}; else found")
        yield replace(option, flag=f"--law-{option.flag[2:]}") if option.flag in taken else option


def _read(parameter: Parameter, goes_to: str, panel: str) -> Option:
    """Return the option of a parameter that is a number, a text or a bool."""
    how = shown(parameter.name)
    return Option(
        flag=flag_of(parameter.name),
        name=parameter.name,
        goes_to=goes_to,
        kind=how.kind or parameter.scalar or str,
        panel=panel,
        text=_line(parameter) if how.text is None else how.text.format(learners=", ".join(learners())),
        choices=parameter.choices if how.kind is None else (),
        default=how.default,
    )


def _line(parameter: Parameter) -> str:
    """Return the help of a parameter, on one line unless its values need more."""
    if not parameter.choices:
        is_number = isinstance(parameter.default, int | float) and not isinstance(parameter.default, bool)
        default = f" [{parameter.default:g}]" if is_number else ""
        return one_line(parameter.help, _RIGHT - len(default)) + default
    values, words = _values(parameter.choices, parameter.default), parameter.help.split(";")[0]
    fits = len(words) <= _RIGHT - len(values) - 2
    return f"{words}: {values}" if fits else values


def _values(choices: tuple[str, ...], default: object) -> str:
    return ", ".join(f"{value} (default)" if value == default else value for value in choices)
