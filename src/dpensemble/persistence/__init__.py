"""Save and load the publishable classifier without running code from the file."""

from dpensemble.persistence.files import load_classifier, require_savable, save_classifier

__all__ = ["load_classifier", "require_savable", "save_classifier"]
