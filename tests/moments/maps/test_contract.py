"""What every feature map of the library states, and that transformers of others state nothing."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler

from dpensemble.datasets import TableEncoder, TablePreparation
from dpensemble.datasets.tables import LibraryTransformer, as_library_transformer
from dpensemble.moments import BoundedMap, DirectionsMap, ImageMap, TableMap
from dpensemble.moments.maps.base import FeatureMap, MapOnBase
from dpensemble.moments.maps.curved import BesideMap, CurvedDecoder, CurvedMap
from dpensemble.moments.maps.directions import ColumnDirectionsMap
from dpensemble.moments.maps.grid import SnappedMap, declared_grid
from dpensemble.moments.model import column_effects

GRID = declared_grid({"age": (0, 100), "ward": ["1", "2"]})
MAPS = {
    "table": TableMap(),
    "directions": DirectionsMap(TableMap(), n_directions=6),
    "directions of columns": ColumnDirectionsMap(TableMap()),
    "snapped": SnappedMap(TableMap(fewest=1), GRID.columns),
    "image": ImageMap((4, 4), n_components=5),
    "bounded": BoundedMap(StandardScaler()),
    "curved": CurvedMap(DirectionsMap(TableMap(), n_directions=6)),
}
ON_TABLES = ("table", "directions", "directions of columns", "snapped", "curved")


def table(n=60):
    rng = np.random.default_rng(0)
    return pd.DataFrame({"age": rng.uniform(0, 100, n), "ward": rng.choice(["1", "2"], n)})


def rows_for(name):
    return table() if name in ON_TABLES else np.random.default_rng(0).random((60, 16))


@pytest.fixture(scope="module")
def fitted():
    return {name: clone(one).fit(rows_for(name)) for name, one in MAPS.items()}


def test_every_map_of_the_library_is_tried():
    # Maps that take fitted parts are tried beside the map that the parts belong to.
    below = (FeatureMap, MapOnBase, DirectionsMap)
    concrete = {kind for one in below for kind in one.__subclasses__()} - {MapOnBase, CurvedDecoder, BesideMap}
    assert {type(one) for one in MAPS.values()} == concrete


@pytest.mark.parametrize("name", MAPS)
def test_a_map_fulfils_the_contract(fitted, name):
    one = fitted[name]
    features = one.transform(rows_for(name))
    assert one.is_bounded
    assert features.shape[1] == len(one.blocks_) == len(one.get_feature_names_out())
    dense = np.asarray(features.todense() if hasattr(features, "todense") else features)
    assert np.linalg.norm(dense, axis=1).max() <= 1 + 1e-6
    # The constant is the last feature, and has a block to itself, the last one.
    assert np.ptp(dense[:, -1]) == 0
    assert (one.blocks_ == one.blocks_.max()).tolist() == [False] * (len(one.blocks_) - 1) + [True]
    assert not one.nonnegative_ or dense.min() >= 0
    assert one.squares_ is None or one.squares_.shape == (one.blocks_.max() + 1,)


@pytest.mark.parametrize("name", MAPS)
def test_rows_are_read_as_a_map_states(fitted, name):
    one, rows = fitted[name], rows_for(name)

    def read(part):
        features = one.transform(part)
        return np.asarray(features.todense() if hasattr(features, "todense") else features)

    together = read(rows)
    if one.reads_rows_alone:
        alone = np.vstack([read(rows[i : i + 1]) for i in range(len(rows))])
        assert np.array_equal(together, alone)
    if one.reads_rows_by_place:
        others = rows.copy()
        others[1:] = 0.5
        assert np.array_equal(together[0], read(others)[0])


@pytest.mark.parametrize("name", ON_TABLES)
def test_a_map_of_tables_states_its_columns(fitted, name):
    one = fitted[name]
    assert one.numeric_columns == ["age"]
    assert {"1", "2"} <= one.known_categories["ward"]
    assert set(one.known_categories) == {"ward"}
    blank = pd.DataFrame({"age": [np.nan], "ward": [None]})
    assert one.takes_blanks
    assert one.transform(blank).shape[0] == 1


@pytest.mark.parametrize("name", ["image", "bounded"])
def test_a_map_of_other_rows_states_no_columns(fitted, name):
    one = fitted[name]
    assert not hasattr(one, "numeric_columns")
    assert not one.takes_blanks
    assert not one.known_categories
    assert one.needed_columns is None


@pytest.mark.parametrize(("name", "effects"), [*zip(MAPS, (True, True, True, True, False, False, False), strict=True)])
def test_effects_are_those_of_a_table_map(fitted, name, effects):
    one = fitted[name]
    coefficients = np.random.default_rng(0).normal(size=(len(one.blocks_), 1))
    behind = one.on_table(coefficients, rows_for(name))
    assert (behind is not None) == effects
    assert bool(column_effects(one, coefficients, rows_for(name))) == effects
    if effects:
        assert type(behind[0]) is TableMap


def test_only_a_table_map_has_columns_drawn_apart(fitted):
    assert [name for name, one in fitted.items() if one.reads_columns_apart] == ["table"]


def test_blanks_are_for_maps_that_have_a_place_for_them(fitted):
    assert [name for name, one in fitted.items() if one.takes_blanks] == [*ON_TABLES]
    behind = DirectionsMap(StandardScaler(), n_directions=3).fit(rows_for("bounded"))
    assert not behind.takes_blanks
    assert not FeatureMap.takes_blanks


def test_only_an_image_map_reads_rows_by_place(fitted):
    assert [name for name, one in fitted.items() if one.reads_rows_by_place] == ["image"]


def test_codes_that_were_declared_become_texts(fitted):
    codes = pd.DataFrame({"age": [3.0], "ward": [1]})
    assert fitted["snapped"].as_declared(codes)["ward"].tolist() == ["1"]
    assert fitted["table"].as_declared(codes) is codes


def test_encoders_of_tables_state_the_same():
    rows = table()
    preparation, encoder = TablePreparation().fit(rows), TableEncoder("median").fit(rows)
    assert preparation.takes_blanks
    assert not preparation.encodes_rows_alone
    assert encoder.takes_blanks
    assert encoder.encodes_rows_alone
    assert not TableEncoder().takes_blanks
    assert encoder.known_categories == {"ward": {"1", "2"}}
    assert preparation.needed_columns == encoder.needed_columns == ["age", "ward"]


def test_a_transformer_of_others_states_nothing_even_if_it_passes_attributes_on():
    """The frozen one may read rows together, for every statement of the class behind it."""
    frozen = FrozenEstimator(TableEncoder().fit(table()))
    assert frozen.encodes_rows_alone
    assert not as_library_transformer(frozen).encodes_rows_alone
    assert not as_library_transformer(FrozenEstimator(TableMap().fit(table()))).reads_columns_apart
    assert not as_library_transformer(FrozenEstimator(MAPS["image"])).reads_rows_by_place
    assert column_effects(StandardScaler(), np.zeros((2, 1)), table()) == []
    assert type(as_library_transformer(StandardScaler())) is LibraryTransformer
    assert as_library_transformer(MAPS["table"]) is MAPS["table"]


class Plain(StandardScaler):
    """A map of others behind cells: it states nothing."""

    def transform(self, X):
        features = super().transform(X[["age"]]) / 10
        return np.hstack([np.clip(features, -0.5, 0.5), np.full((len(features), 1), 0.5)])

    def fit(self, X, y=None):
        self.blocks_, self.nonnegative_ = np.array([0, 1]), False
        return super().fit(X[["age"]])


def test_cells_before_a_map_of_others_have_no_effects_and_raise_nothing():
    one = SnappedMap(Plain(), GRID.columns).fit(table())
    assert column_effects(one, np.zeros((2, 1)), table()) == []
