"""Faults that tests plant in the library: a test fails if no run reached its fault, since then it shows nothing."""

import functools
import types

import pytest


class Planted:
    """A fault, and how often a run reached it."""

    def __init__(self, place):
        self.place, self.times = place, 0

    def function(self, instead):
        """Return a function, or a maker of objects, that counts its calls."""

        @functools.wraps(instead, updated=())
        def reached(*given, **named):
            self.times += 1
            return instead(*given, **named)

        return reached

    def attribute(self, instead):
        """Return an attribute of a class that counts how often it is read."""

        def reached(_):
            self.times += 1
            return instead

        return property(reached)


class Plant:
    """Plants faults with `monkeypatch`, and keeps them."""

    def __init__(self, monkeypatch):
        self.monkeypatch, self.faults = monkeypatch, []

    def __call__(self, owner, name, instead):
        """Put a fault in the place of a function, or of a constant that a class holds, and return the fault.

        Nobody can count how often a constant of a module is read: plant the function that reads the constant.
        """
        fault = Planted(f"{getattr(owner, '__name__', owner)}.{name}")
        if callable(instead):
            planted = fault.function(instead)
        elif isinstance(owner, types.ModuleType):
            raise TypeError(f"a constant of a module is read unseen: plant what reads {fault.place}")
        else:
            planted = fault.attribute(instead)
        self.monkeypatch.setattr(owner, name, planted)
        self.faults.append(fault)
        return fault

    def require_reached(self):
        """Fail if there is no fault, or a fault that no run reached."""
        missed = [fault.place for fault in self.faults if not fault.times]
        if missed or not self.faults:
            pytest.fail(f"planted faults that no run reached: {', '.join(missed) or 'none was planted'}")
