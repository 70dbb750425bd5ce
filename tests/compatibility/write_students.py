"""Write a student of every kind, with what it predicts: ``python -m tests.compatibility.write_students FILE.zip``.

Give a new file for a new version. Files that earlier versions wrote must stay as they are.
"""

import importlib.metadata
import json
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import dpensemble
from dpensemble import load_classifier, save_classifier
from dpensemble.moments import DirectionsMap, ImageMap, TableMap
from dpensemble.moments.maps.curved import CurvedMap
from dpensemble.moments.maps.directions import ColumnDirectionsMap
from dpensemble.student import release_mark

RNG = np.random.default_rng(28)
RUN = {"classes": ["no", "yes"], "epsilon": 6.0, "delta": 1e-4, "random_state": 0, "insecure_release_seed": 0}
VOTES = RUN | {"n_teachers": 30, "student": GaussianNB()}
#: One of each kind that can be the last step of a student.
LEARNERS = {
    "logistic-regression": LogisticRegression(),
    "naive-bayes": GaussianNB(),
    "decision-tree": DecisionTreeClassifier(max_depth=2),
    "random-forest": RandomForestClassifier(2, max_depth=2, random_state=0),
    "gradient-boosting": GradientBoostingClassifier(n_estimators=2, max_depth=1),
    "histogram-boosting": HistGradientBoostingClassifier(max_iter=1, max_leaf_nodes=3),
    "constant": DummyClassifier(strategy="constant", constant="yes"),
}
VOTING = {
    "pate": "PATEClassifier",
    "bagged-pate": "BaggedPATEClassifier",
    "dpbag": "DPBaggingClassifier",
    "random-subspace": "RandomSubspaceClassifier",
    "saa": "SubsampleAggregateClassifier",
    "soft-votes": "SoftVotesClassifier",
    "upsampling-pate": "UpsamplingPATEClassifier",
    "vanishing-pate": "VanishingPATEClassifier",
    "weighting-pate": "WeightingPATEClassifier",
}
SETTINGS = {"bagged-pate": {"max_labels": 3}, "dpbag": {"n_partitions": 1}}
WITH_BUDGETS = ("upsampling-pate", "vanishing-pate", "weighting-pate")


def numbers(n):
    rows = pd.DataFrame(RNG.normal(size=(n, 3)), columns=["age", "dose", "weight"])
    return rows, np.where(rows["age"] ** 2 + rows["dose"] > 0.7, "yes", "no")


def table(n):
    rows = pd.DataFrame(
        {
            "age": np.where(RNG.random(n) < 0.1, np.nan, RNG.integers(20, 90, n)),
            "ward": RNG.choice(["a", "b", "c, d"], n),
            "dose": RNG.normal(size=n).round(2),
        }
    )
    return rows, np.where(rows["dose"] + (rows["ward"] == "a") > 0.4, "yes", "no")


def pictures(n):
    pixels = RNG.integers(0, 256, (n, 36))
    return pixels.astype(float), np.where(pixels[:, :18].mean(axis=1) > pixels[:, 18:].mean(axis=1), "yes", "no")


def students():
    """Yield the name, the fitted student and rows to predict, for every kind of student."""
    X, y = numbers(400)
    public = numbers(250)[0]
    for name, kind in VOTING.items():
        model = getattr(dpensemble, kind)(**VOTES | SETTINGS.get(name, {}))
        budgets = {"budgets": np.where(np.arange(400) % 2, 3.0, 6.0)} if name in WITH_BUDGETS else {}
        yield name, model.fit(X, y, X_public=public, **budgets).student_, public[:5]
    private_majority = dpensemble.PrivateMajorityClassifier(**RUN, student=GaussianNB())
    yield "private-majority", private_majority.fit(X, y, X_public=public).student_, public[:5]
    for name, learner in LEARNERS.items():
        pate = dpensemble.PATEClassifier(**VOTES | {"student": learner})
        yield f"pate with {name}", pate.fit(X, y, X_public=public).student_, public[:5]
        arrays = pate.fit(X.to_numpy(), y, X_public=public.to_numpy())
        yield f"pate of arrays with {name}", arrays.student_, public[:5].to_numpy()
    bagging = dpensemble.BaggingPrivacyClassifier(
        classes=RUN["classes"], subsample=60, insecure_release_seed=0, random_state=0
    )
    yield "bagging", bagging.fit(X, y).models_[0], public[:5]
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    piped = dpensemble.PATEClassifier(**VOTES | {"student": pipeline})
    yield "pate with a pipeline", piped.fit(X, y, X_public=public).student_, public[:5]

    yield from students_of_tables()
    yield from students_of_sums()


def students_of_tables():
    """Yield students behind encoders."""
    X, y = table(400)
    public = table(250)[0]
    encoded = dpensemble.EncodedClassifier(dpensemble.PATEClassifier(**VOTES), fill="median")
    yield "encoded", encoded.fit(X, y, X_public=public).student_, public[:5]
    encoder = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["ward"]), (StandardScaler(), ["dose"]))
    own = dpensemble.EncodedClassifier(dpensemble.PATEClassifier(**VOTES), encoder=encoder)
    yield (
        "encoded by another encoder",
        own.fit(X.dropna(), y[X["age"].notna()], X_public=public.dropna()).student_,
        public[:5],
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        X.assign(ill=y).to_csv(folder / "private.csv", index=False)
        public.to_csv(folder / "public.csv", index=False)
        for method in ("pate", "label-moments"):
            line = (
                f"train {method} --private {folder}/private.csv --public {folder}/public.csv --target ill "
                f"--classes no,yes --epsilon 6 --delta 1e-4 --seed 0 --out {folder}/{method} --quiet"
            )
            more = " --teachers 30 --fill --student naive-bayes" if method == "pate" else ""
            if dpensemble.cli.main((line + more).split()):
                raise SystemExit(f"the command failed: {line}")
            yield f"command line, {method}", folder / method / "student.skops", public[:5]


def students_of_sums():
    """Yield students that noisy sums train, with each of the library's feature maps."""
    X, y = table(600)
    public = table(300)[0]
    moments, curved = dpensemble.LabelMomentsClassifier, numbers(3200)
    three = np.where(X["dose"] > 1, "maybe", y)
    many, plain = numbers(1100)[0], numbers(600)
    yield "auto", dpensemble.AutoClassifier(**RUN).fit(X, y, X_public=public).student_, public[:5]
    little = RUN | {"epsilon": 0.5, "relation": "replace-one"}
    auto = dpensemble.AutoClassifier(**little).fit(plain[0], plain[1], X_public=many[:300])
    yield "auto of little budget", auto.student_, many[:5]
    yield "label-moments", moments(**RUN).fit(X, y, X_public=public).student_, public[:5]
    yield "label-moments, few public rows", moments(**RUN).fit(X, y, X_public=public[:150]).student_, public[:5]
    classes = RUN | {"classes": ["maybe", "no", "yes"]}
    yield "label-moments, three classes", moments(**classes).fit(X, three, X_public=public).student_, public[:5]
    few = DirectionsMap(TableMap(knots=(2, 3)), n_directions=8)
    yield "label-moments, directions", moments(few, **RUN).fit(X, y, X_public=public).student_, public[:5]
    of_columns = ColumnDirectionsMap(TableMap(knots=(2, 3)))
    apart = moments(of_columns, **RUN).fit(X, y, X_public=public)
    yield "label-moments, directions of columns", apart.student_, public[:5]
    tree = moments(None, DecisionTreeClassifier(max_depth=2), **RUN)
    tree_of = tree.fit(plain[0], plain[1], X_public=many[:300])
    yield "label-moments with a student", tree_of.student_, many[:5]
    bent = moments(CurvedMap(few, n_landmarks=20), **RUN).fit(curved[0], curved[1], X_public=many)
    yield "label-moments, curved", bent.student_, many[:5]
    pixels, light = pictures(300)
    image = moments(ImageMap((6, 6), n_components=3, orientations=3), **RUN)
    yield "label-moments, images", image.fit(pixels, light, X_public=pictures(200)[0]).student_, pixels[:3]
    discriminant = dpensemble.DiscriminantClassifier(**RUN)
    yield "discriminant", discriminant.fit(plain[0], plain[1], X_public=many[:300]).student_, many[:5]
    encoded = dpensemble.EncodedClassifier(discriminant, fill="median")
    yield "discriminant, encoded", encoded.fit(X, y, X_public=public).student_, public[:5]
    mixed = [rows.assign(ward=RNG.choice(["a", "b"], len(rows))) for rows in (curved[0], many)]
    beside = moments(**RUN).fit(mixed[0], curved[1], X_public=mixed[1])
    yield "label-moments, mixed columns", beside.student_, mixed[1][:5]


def written(student):
    """Return the bytes of a student's file, which the command line has written already."""
    if isinstance(student, Path):
        return student.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        save_classifier(student, Path(folder) / "student.skops")
        return written(Path(folder) / "student.skops")


def rows_as_json(rows):
    if isinstance(rows, np.ndarray):
        return rows.tolist()
    return json.loads(rows.to_json(orient="split", index=False, double_precision=15))


def main(path):
    """Write all students, and the rows and probabilities of each, into one archive."""
    warnings.simplefilter("ignore", UserWarning)
    expected = {}
    with zipfile.ZipFile(path, "x", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, student, rows in students():
            archive.writestr(f"{name}.skops", written(student))
            fitted = load_classifier(student) if isinstance(student, Path) else student
            expected[name] = {
                "for_release": release_mark(fitted),
                "rows": rows_as_json(rows),
                "probabilities": fitted.predict_proba(rows).tolist(),
            }
        versions = {name: importlib.metadata.version(name) for name in ("dpensemble", "scikit-learn", "skops")}
        archive.writestr("expected.json", json.dumps({"versions": versions, "students": expected}))


if __name__ == "__main__":
    main(sys.argv[1])
