"""Nothing that depends on private rows reaches a screen: neither as a warning nor in an error."""

import traceback
import warnings

import numpy as np
import pytest

from dpensemble._hide_private_rows import guard_private_rows, on_public_rows
from dpensemble.errors import DataError, LibraryWarning, SettingWarning

SECRET = 7315.25


def test_foreign_warnings_are_dropped_and_those_of_the_library_are_kept():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with guard_private_rows():
            warnings.warn(f"odd value {SECRET}", UserWarning, stacklevel=1)
            np.divide(1e308, 1e-308)
            warnings.warn("a threshold that nothing reaches", SettingWarning, stacklevel=1)
            with on_public_rows():
                warnings.warn("a public row", RuntimeWarning, stacklevel=1)
                np.divide(np.float64(1.0), 0.0)
            warnings.warn(f"again {SECRET}", RuntimeWarning, stacklevel=1)
    assert [one.category for one in caught] == [SettingWarning, RuntimeWarning, RuntimeWarning]
    assert not any(str(SECRET) in str(one.message) for one in caught)


def test_filters_of_the_user_hold_for_warnings_of_the_library():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SettingWarning), guard_private_rows():
            warnings.warn("text", SettingWarning, stacklevel=1)
        with guard_private_rows():
            warnings.warn("text", UserWarning, stacklevel=1)
        with pytest.raises(UserWarning), guard_private_rows(), on_public_rows():
            warnings.warn("text", UserWarning, stacklevel=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore", LibraryWarning)
        with guard_private_rows():
            warnings.warn("text", SettingWarning, stacklevel=1)
    assert caught == []


def test_filters_and_numerical_settings_are_put_back():
    before, numerical = list(warnings.filters), np.geterr()
    with pytest.raises(DataError), guard_private_rows():
        raise ValueError
    assert (list(warnings.filters), np.geterr()) == (before, numerical)


@pytest.mark.parametrize("numerical", ["raise", "print", "warn", "call"])
def test_numerical_settings_of_the_user_tell_nothing(numerical, capfd):
    heard = []
    previous = np.seterrcall(lambda *told: heard.append(told))
    try:
        with np.errstate(all=numerical), guard_private_rows():
            assert np.isinf(np.divide(np.float64(1e308), 1e-308))
    finally:
        np.seterrcall(previous)
    assert (heard, *capfd.readouterr()) == ([], "", "")


@pytest.mark.parametrize("kind", [ValueError, TypeError, KeyError, FloatingPointError, OverflowError, RuntimeError])
def test_errors_quote_nothing(kind, monkeypatch):
    monkeypatch.delenv("DPENSEMBLE_TRACEBACK", raising=False)
    message = f"^{kind.__name__} was raised by a pass over private rows"
    with pytest.raises(DataError, match=message) as caught, guard_private_rows():
        raise kind(f"bad row {SECRET}")
    assert str(SECRET) not in "".join(traceback.format_exception(caught.value))
    assert (caught.value.__context__, caught.value.__cause__) == (None, None)
    assert isinstance(caught.value, TypeError) is (kind is TypeError)


def test_the_owner_can_ask_for_the_error_itself(monkeypatch):
    monkeypatch.setenv("DPENSEMBLE_TRACEBACK", "1")
    with pytest.raises(DataError) as caught, guard_private_rows():
        raise ValueError(f"bad row {SECRET}")
    assert str(SECRET) in str(caught.value.__cause__)


@pytest.mark.parametrize(
    "text",
    [
        "Complex data not supported\n[[{}+1j]]\n",
        "could not convert string to float: '{}'",
        "Expected 2D array, got 1D array instead:\narray=[{}].\nReshape",
        "Unknown label type: (array([{}]),)",
    ],
)
def test_the_public_beginning_of_a_text_is_kept(text):
    with pytest.raises(DataError) as caught, guard_private_rows():
        raise ValueError(text.format(SECRET))
    assert str(SECRET) not in str(caught.value)
    assert str(caught.value).split(";")[0] == text.split(":")[0].split("\n")[0]


def test_errors_about_public_rows_and_missing_libraries_pass():
    with pytest.raises(KeyError, match="town"), guard_private_rows(), on_public_rows():
        raise KeyError("town")
    with pytest.raises(ImportError, match="torch"), guard_private_rows():
        raise ImportError("torch is missing")
    with pytest.raises(KeyboardInterrupt), guard_private_rows():
        raise KeyboardInterrupt


def test_a_run_on_public_rows_alone_is_not_guarded():
    with pytest.raises(ValueError, match="public"), on_public_rows(), guard_private_rows():
        raise ValueError("public")
