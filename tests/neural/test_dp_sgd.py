"""DP-SGD through Opacus: noise, price, refusals and messages."""

import importlib.util
import sys
import warnings

import numpy as np
import pytest

from dpensemble import Budget
from dpensemble.errors import BudgetError, DataError, InvalidParameterError, TeacherError
from dpensemble.neural import SGD, DPSGDClassifier

torch = pytest.importorskip("torch", reason="DP-SGD needs PyTorch")
if importlib.util.find_spec("opacus") is None:
    # Importing it takes seconds, of every process that collects tests.
    pytest.skip("DP-SGD needs Opacus", allow_module_level=True)

from dpensemble._random import SeededNoise, SystemNoise  # noqa: E402
from dpensemble.neural import bagging_cnn, digit_cnn, hidden_layer_network, linear_network, personalised_pate_cnn  # noqa: E402
from dpensemble.neural.dp_sgd import Accountant, NoisySteps, _finest_waste, _least_noise, _own_generators  # noqa: E402
from dpensemble.relations import Relation  # noqa: E402
from dpensemble.teachers.private import _announced_privacy, _spent_privacy  # noqa: E402

SEEDED = {"random_state": 0, "insecure_release_seed": 1}


@pytest.fixture
def rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(600, 4))
    return X, (X[:, 0] > 0).astype(int)


# Each step multiplies the coefficients by -1e12.
BEYOND_ALL_NUMBERS = SGD(1e6, weight_decay=1e6)


def quick(**settings):
    return DPSGDClassifier(
        **{
            "module": linear_network,
            "classes": [0, 1],
            "epsilon": 4.0,
            "delta": 1e-4,
            "epochs": 5,
            "batch_size": 60,
            "optimizer": SGD(2.0),
        }
        | settings
    )


class TestPrice:
    @pytest.mark.parametrize(
        ("epsilon", "delta", "rate", "n_steps"),
        [(1.0, 1e-5, 0.05, 200), (0.017, 0.017, 0.1, 50), (4.0, 1e-5, 0.05, 40), (1.0, 1e-5, 1.0, 20)],
    )
    @pytest.mark.parametrize("accountant", list(Accountant))
    def test_dp_accounting_agrees_in_both_directions(self, epsilon, delta, rate, n_steps, accountant):
        event = pytest.importorskip("dp_accounting", reason="the independent accountant")
        from dp_accounting import pld

        steps = _least_noise(Budget(epsilon=epsilon, delta=delta), rate, n_steps, accountant)
        stated = steps.epsilon(delta, _finest_waste(epsilon))
        assert 0.98 * epsilon < stated <= epsilon
        independent = pld.PLDAccountant(
            event.NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=epsilon / 200
        )
        gaussian = event.GaussianDpEvent(steps.noise_multiplier)
        independent.compose(event.SelfComposedDpEvent(event.PoissonSampledDpEvent(rate, gaussian), n_steps))
        assert independent.get_epsilon(delta) <= stated
        if accountant is Accountant.PRV:
            assert independent.get_epsilon(delta) > 0.95 * epsilon

    def test_dp_accountings_renyi_bound_is_the_same(self):
        event = pytest.importorskip("dp_accounting", reason="the independent accountant")
        from dp_accounting import rdp

        steps = NoisySteps(sample_rate=0.05, n_steps=200, noise_multiplier=3.0, accountant=Accountant.RDP)
        orders = [1 + x / 10 for x in range(1, 100)] + list(range(12, 64))
        independent = rdp.RdpAccountant(orders)
        gaussian = event.GaussianDpEvent(3.0)
        independent.compose(event.SelfComposedDpEvent(event.PoissonSampledDpEvent(0.05, gaussian), 200))
        assert steps.epsilon(1e-5) == pytest.approx(independent.get_epsilon(1e-5), rel=1e-3)

    def test_one_per_cent_less_noise_would_not_do(self):
        found = _least_noise(Budget(epsilon=1, delta=1e-5), 0.05, 100, Accountant.PRV)
        less = NoisySteps(
            sample_rate=0.05,
            n_steps=100,
            noise_multiplier=0.985 * found.noise_multiplier,
            accountant=Accountant.PRV,
        )
        assert less.epsilon(1e-5, _finest_waste(1.0)) > 1

    def test_a_delta_that_is_enough_by_itself_costs_no_epsilon(self):
        steps = NoisySteps(sample_rate=0.05, n_steps=10, noise_multiplier=50.0, accountant=Accountant.PRV)
        assert steps.epsilon(0.1) == 0

    @pytest.mark.parametrize("broken", [ValueError("no"), float("nan"), float("inf")])
    def test_an_accountant_that_cannot_tell_is_not_believed(self, broken, monkeypatch):
        import opacus.accountants

        def get_epsilon(self, delta, **_):
            if isinstance(broken, Exception):
                raise broken
            return broken

        monkeypatch.setattr(opacus.accountants.RDPAccountant, "get_epsilon", get_epsilon)
        steps = NoisySteps(sample_rate=0.05, n_steps=10, noise_multiplier=1.0, accountant=Accountant.RDP)
        with pytest.raises(BudgetError, match="cannot price 10 steps"):
            steps.epsilon(1e-5)

    def test_the_renyi_accountant_says_where_it_ends(self):
        with pytest.raises(BudgetError, match=r"epsilon=0\.01 is too small"):
            _least_noise(Budget(epsilon=0.01, delta=1e-6), 0.5, 100, Accountant.RDP)


class TestFit:
    @pytest.mark.parametrize(
        ("settings", "shape"),
        [
            ({}, (4,)),
            ({"module": linear_network}, (4,)),
            ({"module": bagging_cnn}, (1, 28, 28)),
            ({"module": digit_cnn}, (1, 8, 8)),
        ],
        ids=["default", "linear", "bagging_cnn", "digit_cnn"],
    )
    def test_networks_train_and_state_what_they_spent(self, settings, shape):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(60, int(np.prod(shape)))), np.arange(60) % 2
        input_shape = shape if len(shape) > 1 else None
        model = DPSGDClassifier(
            input_shape=input_shape, classes=[0, 1], epsilon=2.0, delta=1e-3, epochs=2, batch_size=20, **settings
        ).fit(X, y)
        assert model.predict_proba(X).shape == (60, 2)
        guarantee = model.guarantee_
        assert 1.9 < guarantee.epsilon <= 2.0
        assert guarantee.delta == 1e-3
        assert guarantee.relation is Relation.ADD_OR_REMOVE_ONE
        assert guarantee.for_release
        assert guarantee.warning is None
        assert model.privacy_spent_(1e-3) == guarantee.epsilon
        assert model.privacy_spent_(1e-2) < guarantee.epsilon

    def test_it_learns(self, rows):
        assert quick(**SEEDED).fit(*rows).score(*rows) > 0.85

    def test_the_statement_says_what_it_rests_on(self, rows):
        guarantee = quick(delta=0.01).fit(*rows).guarantee_
        text = str(guarantee)
        assert "floating point" in text
        assert "not a cryptographic one" in text
        assert "50 steps" in guarantee.accounting
        assert "noise multiplier" in guarantee.accounting
        # 0.01 is six of 600 records.
        assert "about 6 of the 600 records" in guarantee.warning

    def test_seeds_repeat_and_mark_the_guarantee(self, rows):
        one, two = (quick(**SEEDED).fit(*rows) for _ in range(2))
        assert all(np.array_equal(one.state_[name], two.state_[name]) for name in one.state_)
        assert not one.guarantee_.for_release
        other = quick(random_state=0, insecure_release_seed=2).fit(*rows)
        assert not np.array_equal(one.state_["1.weight"], other.state_["1.weight"])

    def test_without_a_seed_noise_differs_whatever_the_public_seed(self, rows):
        torch.manual_seed(0)
        one = quick(random_state=0).fit(*rows)
        torch.manual_seed(0)
        assert not np.array_equal(one.state_["1.weight"], quick(random_state=0).fit(*rows).state_["1.weight"])

    def test_empty_batches_are_steps_too(self):
        X = np.random.default_rng(0).normal(size=(8, 4))
        # Batches of one record expected: a third of them is empty.
        model = quick(batch_size=1, epochs=20, epsilon=8.0, delta=1e-2).fit(X, np.arange(8) % 2)
        assert "160 steps" in model.guarantee_.accounting

    def test_labels_that_nobody_has_keep_their_columns(self, rows):
        X, y = rows
        model = quick(classes=[0, 1, 7]).fit(X, y)
        assert model.classes_.tolist() == [0, 1, 7]
        assert model.predict_proba(X).shape == (600, 3)

    def test_warnings_of_opacus_stay_inside_and_others_come_out(self, rows):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            quick().fit(*rows)
        assert [str(w.message) for w in caught] == []

    def test_the_global_generator_is_left_alone(self, rows):
        torch.manual_seed(5)
        before = torch.get_rng_state()
        quick().fit(*rows)
        assert torch.equal(before, torch.get_rng_state())

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"classes": None}, "classes=None"),
            ({"epsilon": 0}, "epsilon=0 is not a number from 0.001"),
            ({"epsilon": float("nan")}, "epsilon=nan"),
            ({"delta": 1}, "delta=1 is not"),
            ({"clip": 0}, "clip=0"),
            ({"accountant": "gdp"}, "accountant='gdp' is unknown"),
            ({"epochs": 0}, "epochs=0"),
            ({"batch_size": 0}, "batch_size=0"),
            ({"optimizer": SGD(-1)}, "learning_rate=-1"),
            ({"optimizer": "lbfgs"}, "optimizer='lbfgs'"),
            ({"insecure_release_seed": -1}, "insecure_release_seed=-1"),
            ({"device": "tpu"}, "device='tpu'"),
            ({"module": 3}, "module=3 must be callable"),
        ],
    )
    def test_bad_settings_are_refused_in_one_sentence(self, rows, settings, message):
        with pytest.raises(InvalidParameterError, match=message) as caught:
            quick(**settings).fit(*rows)
        assert str(caught.value).count(". ") == 0

    def test_batch_normalisation_is_refused(self):
        X = np.zeros((20, 64))
        model = quick(module=personalised_pate_cnn, input_shape=(1, 8, 8))
        with pytest.raises(InvalidParameterError, match="module has BatchNorm2d, which mixes"):
            model.fit(X, np.arange(20) % 2)

    def test_other_layers_that_opacus_refuses_are_refused(self, rows):
        def module(input_shape, n_classes):
            nn = torch.nn
            return nn.Sequential(nn.Linear(4, 4), nn.InstanceNorm1d(4, affine=True, track_running_stats=True))

        def frozen(input_shape, n_classes):
            layer = torch.nn.Linear(4, n_classes)
            layer.bias.requires_grad_(False)
            return layer

        with pytest.raises(InvalidParameterError, match="layers that Opacus refuses"):
            quick(module=module).fit(*rows)
        with pytest.raises(InvalidParameterError, match="frozen parameters"):
            quick(module=frozen).fit(*rows)

    def test_undeclared_labels_and_numbers_that_blow_up(self, rows):
        X, y = rows
        with pytest.raises(DataError, match="declare"):
            quick(classes=[0, 2]).fit(X, y)
        with pytest.raises(TeacherError, match="diverge"):
            quick(optimizer=BEYOND_ALL_NUMBERS).fit(X, y)

    def test_a_second_fit_that_fails_leaves_the_first(self, rows):
        model = quick().fit(*rows)
        spent = model.privacy_spent_(1e-4)
        with pytest.raises(TeacherError, match="diverge"):
            model.set_params(epochs=6, optimizer=BEYOND_ALL_NUMBERS).fit(*rows)
        assert model.privacy_spent_(1e-4) == spent == model.guarantee_.epsilon


class TestGenerators:
    def test_the_whole_state_comes_from_the_source(self):
        generator, same = _own_generators(SeededNoise(4), "cpu")
        assert generator is same
        words = (SeededNoise(4).uniform_bits(624) & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        twister = np.random.MT19937()
        twister.state = {"bit_generator": "MT19937", "state": {"key": words, "pos": 624}}
        drawn = torch.randint(0, 2**24, (2000,), generator=generator).numpy()
        assert np.array_equal(drawn, twister.random_raw(2000) % 2**24)

    def test_the_operating_system_never_repeats(self):
        one, two = (_own_generators(SystemNoise(), "cpu")[0] for _ in range(2))
        assert not torch.equal(torch.randn(10, generator=one), torch.randn(10, generator=two))


class TestAsTeacher:
    def test_what_it_announces_is_doubled_where_records_are_replaced(self, rows):
        model = quick(epsilon=1.0, delta=1e-5)
        assert _announced_privacy(model, Relation.ADD_OR_REMOVE_ONE) == (1.0, 1e-5)
        assert _announced_privacy(model, Relation.REPLACE_ONE) == (2.0, pytest.approx((1 + np.e) * 1e-5))
        fitted = quick(epsilon=1.0, delta=1e-3).fit(*rows)
        # The budget's own delta is more than is needed of each of the two steps.
        assert fitted.privacy_spent_(1e-3) <= 1
        epsilon, delta = _spent_privacy(fitted, (1 + np.e) * 1e-3, Relation.REPLACE_ONE)
        assert 0.9 < epsilon / 2 < 1.2
        assert delta == (1 + np.e) * 1e-3

    def test_it_is_never_trained_in_a_stack(self, rows):
        from sklearn.base import clone

        assert not hasattr(quick(), "fit_together")
        model = clone(quick(epsilon=3.0))
        assert model.get_params()["epsilon"] == 3.0


@pytest.mark.parametrize("name", ["opacus", "torch"])
def test_a_missing_library_is_named_with_its_extra(rows, name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InvalidParameterError, match=rf'pip install "dpensemble\[{name}\]"'):
        quick().fit(*rows)


class TestBadRecords:
    def spoiled(self, rows, kind):
        X, y = rows[0].astype(object), rows[1].astype(object)
        if kind in ("infinite", "missing", "text"):
            X[7, 2] = {"infinite": np.inf, "missing": np.nan, "text": "Zaphod"}[kind]
        else:
            y[7] = {"undeclared": 5, "no label": None}[kind]
        return X, y

    @pytest.mark.parametrize("kind", ["infinite", "missing", "text", "undeclared", "no label"])
    def test_every_kind_has_the_gradient_zero(self, rows, kind):
        """What else the bad record holds changes no bit of the released network."""
        X, y = self.spoiled(rows, kind)
        found = quick(**SEEDED, on_bad_record="zero").fit(X, y)
        X[7, 0] = 1e6
        again = quick(**SEEDED, on_bad_record="zero").fit(X, y)
        good = quick(**SEEDED, on_bad_record="zero").fit(*rows)
        assert all(np.array_equal(found.state_[name], again.state_[name]) for name in found.state_)
        assert not all(np.array_equal(found.state_[name], good.state_[name]) for name in found.state_)
        assert found.noise_multiplier_ == good.noise_multiplier_
        with pytest.raises(DataError) as caught:
            quick(**SEEDED).fit(X, y)
        assert "Zaphod" not in str(caught.value)

    def test_good_records_alone_are_learned_from_as_before(self, rows):
        zero, plain = quick(**SEEDED, on_bad_record="zero").fit(*rows), quick(**SEEDED).fit(*rows)
        assert all(np.allclose(zero.state_[name], plain.state_[name], atol=1e-5) for name in plain.state_)

    @pytest.mark.filterwarnings("ignore:Full backward hook is firing")
    def test_gradients_of_other_records_stay_as_they_are(self):
        """Divided by the number of all records of the batch, not of the good ones."""
        from opacus import GradSampleModule

        from dpensemble.neural.dp_sgd import _loss

        torch.manual_seed(0)
        rows, targets = torch.randn(6, 3), torch.tensor([0, 1, 0, 1, 1, 0])
        gradients = []
        for counts in (torch.ones(6), torch.tensor([1.0, 1, 0, 1, 1, 1])):
            torch.manual_seed(1)
            module = GradSampleModule(torch.nn.Linear(3, 2))
            _loss(module(rows), targets, counts).backward()
            gradients.append(module._module.weight.grad_sample)
        whole, without = gradients
        assert torch.equal(without[2], torch.zeros(2, 3))
        kept = [0, 1, 3, 4, 5]
        assert torch.equal(without[kept], whole[kept])
        assert bool((whole[2] != 0).any())

    def test_a_record_that_overflows_stops_no_run(self, rows):
        """Its gradient is not finite and becomes zero. The others' gradients stay."""
        X = rows[0].copy()
        X[7] = 3e38
        found = quick(**SEEDED, module=hidden_layer_network, epochs=2).fit(X, rows[1])
        assert all(np.isfinite(value).all() for value in found.state_.values())

    def test_a_gradient_with_a_missing_entry_is_zero_in_every_layer(self):
        from dpensemble.neural.dp_sgd import _zero_broken_gradients

        first, second = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(1))
        first.grad_sample = torch.tensor([[1.0, 2.0], [float("nan"), 1.0], [3.0, 4.0]])
        second.grad_sample = torch.tensor([[5.0], [6.0], [float("inf")]])
        _zero_broken_gradients([first, second])
        assert first.grad_sample.tolist() == [[1, 2], [0, 0], [0, 0]]
        assert second.grad_sample.tolist() == [[5], [0], [0]]
