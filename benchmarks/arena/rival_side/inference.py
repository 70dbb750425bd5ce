"""A quick estimate of a graphical model from noisy marginals, in the place of dpmm's own.

This is the arena's, not dpmm's: dpmm's mirror descent takes minutes for a fit. The objective and the descent are the
same (McKenna et al. 2019, "Graphical-model based estimation and inference for differential privacy"), belief
propagation works on plain arrays, steps grow while they succeed, and the descent stops when it gains little. Estimates
are post-processing of noisy marginals, so they do not change what is private.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
from dpmm.models.base.mbi import CliqueVector, Factor, GraphicalModel, JunctionTree


class Effort(NamedTuple):
    """When a descent stops: after some steps, or once ten steps gain less than one and this share of the loss.

    The loss is half a sum of squares in standard deviations of the noise, so that a gain of one is far below what
    noise makes of it.
    """

    steps: int
    least_gain: float


#: For AIM's rounds, which start from the model of the round before, and for the model that is kept.
ROUND, KEPT = Effort(100, 5e-3), Effort(600, 3e-4)


class Step(NamedTuple):
    """A step between two cliques of a tree: the axes that they do not share, and the shape of what they share."""

    here: int
    there: int
    here_outside: tuple[int, ...]
    there_outside: tuple[int, ...]
    here_shape: tuple[int, ...]
    there_shape: tuple[int, ...]


class QuickModel(GraphicalModel):
    """A graphical model that computes the tables of all pairs of columns together, when one is asked for.

    It has what dpmm's model has, less the order of messages, which dpmm works out three times.
    """

    def __init__(self, domain: Any, cliques: list[tuple], total: float, prng: Any = None) -> None:
        self.domain, self.total, self._prng = domain, total, prng
        self.junction_tree = JunctionTree(domain, cliques, prng=prng)
        self.cliques = self.junction_tree.maximal_cliques()
        self.neighbors = self.junction_tree.neighbors()
        self.elimination_order = self.junction_tree.elimination_order

    def project(self, attrs: Any) -> Factor:
        """Return the marginal of some columns."""
        attrs = tuple(attrs)
        if len(attrs) != 2 or any(set(attrs) <= set(clique) for clique in self.cliques):
            return super().project(attrs)
        if not hasattr(self, "pairs"):
            tree = Propagation(self)
            self.pairs = tree.all_pairs(tree.arrays(self.marginals))
        if attrs in self.pairs:
            return Factor(self.domain.project(attrs), self.pairs[attrs])
        return Factor(self.domain.project(attrs), self.pairs[attrs[::-1]].T)


def megabytes(domain: Any, cliques: list[tuple]) -> float:
    """Return the size of a model with these cliques; whole numbers of Python do not overflow."""
    return sum(domain.size(clique) for clique in JunctionTree(domain, cliques).maximal_cliques()) * 8 / 2**20


class QuickInference:
    """Estimates models like dpmm's FactoredInference, whose arguments it takes."""

    def __init__(self, domain: Any, iters: int = 0, warm_start: bool = False, prng: Any = None) -> None:
        del iters
        self.domain, self.warm_start, self.prng = domain, warm_start, prng
        self.effort = ROUND if warm_start else KEPT
        self.model: QuickModel | None = None

    def estimate(self, measurements: list[tuple[Any, np.ndarray, float, tuple]]) -> QuickModel:
        """Return the model whose marginals are nearest to the measured ones."""
        measured = [
            (np.asarray(matrix @ np.ones(matrix.shape[1])), np.asarray(answer).ravel(), noise, tuple(columns))
            for matrix, answer, noise, columns in measurements
        ]
        model = QuickModel(self.domain, [columns for *_, columns in measured], _total(measured), self.prng)
        start = CliqueVector.zeros(self.domain, model.cliques)
        if self.warm_start and self.model is not None:
            start.combine(self.model.potentials)
        tree = Propagation(model)
        loss = Loss(tree, measured)
        logs, marginals = _descend(tree, loss, tree.arrays(start), self.effort)
        model.potentials, model.marginals = tree.factors(logs), tree.factors(marginals)
        self.model = model
        return model


class Propagation:
    """Belief propagation on a model's junction tree, with all axes worked out beforehand.

    An array of a clique has its columns in the order of the domain, so that sums over columns need no transposition.
    """

    def __init__(self, model: GraphicalModel) -> None:
        self.domain, self.total = model.domain, model.total
        rank = {column: number for number, column in enumerate(model.domain.attrs)}
        self.keys = list(model.cliques)
        self.cliques = [tuple(sorted(clique, key=rank.__getitem__)) for clique in self.keys]
        place = {clique: number for number, clique in enumerate(self.keys)}
        self.neighbours = [[place[other] for other in model.neighbors[clique]] for clique in self.keys]
        self.walks = [self._walk(start) for start in range(len(self.keys))]

    def _walk(self, start: int) -> list[Step]:
        """Return all steps of the tree away from a clique, the nearest first."""
        steps, waiting, seen = [], [start], {start}
        while waiting:
            here = waiting.pop(0)
            for there in self.neighbours[here]:
                if there not in seen:
                    shared = set(self.cliques[here]) & set(self.cliques[there])
                    outside = self.outside(here, shared), self.outside(there, shared)
                    within = self.within(here, shared), self.within(there, shared)
                    steps.append(Step(here, there, *outside, *within))
                    seen.add(there)
                    waiting.append(there)
        return steps

    def outside(self, place: int, columns: Any) -> tuple[int, ...]:
        """Return the axes of a clique that are not of these columns."""
        return tuple(axis for axis, column in enumerate(self.cliques[place]) if column not in columns)

    def within(self, place: int, columns: Any) -> tuple[int, ...]:
        """Return the shape in which an array over these columns fits a clique."""
        return tuple(self.domain.config[c] if c in columns else 1 for c in self.cliques[place])

    def smallest(self, columns: Any) -> int:
        """Return the place of the smallest clique that holds columns."""
        held = [place for place, clique in enumerate(self.cliques) if set(columns) <= set(clique)]
        return min(held, key=lambda place: self.domain.size(self.cliques[place]))

    def arrays(self, vector: CliqueVector) -> list[np.ndarray]:
        """Return factors as arrays."""
        return [vector[key].transpose(clique).values for key, clique in zip(self.keys, self.cliques, strict=True)]

    def factors(self, arrays: list[np.ndarray]) -> CliqueVector:
        """Return arrays as factors."""
        zipped = zip(self.keys, self.cliques, arrays, strict=True)
        return CliqueVector({key: Factor(self.domain.project(clique), array) for key, clique, array in zipped})

    def marginals(self, logs: list[np.ndarray]) -> list[np.ndarray]:
        """Return each clique's expected counts from log-potentials: in to the first clique, and out again."""
        beliefs, conditional = list(logs), list(logs)
        for step in reversed(self.walks[0]):
            belief = beliefs[step.there]
            peak = belief.max(axis=step.there_outside, keepdims=True)
            raised = np.exp(belief - peak)
            mass = raised.sum(axis=step.there_outside, keepdims=True)
            conditional[step.there] = raised / mass
            beliefs[step.here] = beliefs[step.here] + (np.log(mass) + peak).reshape(step.here_shape)
        raised = np.exp(beliefs[0] - beliefs[0].max())
        counts = [raised * (self.total / raised.sum()), *conditional[1:]]
        for step in self.walks[0]:
            shared = counts[step.here].sum(axis=step.here_outside).reshape(step.there_shape)
            counts[step.there] = conditional[step.there] * shared
        return counts

    def all_pairs(self, counts: list[np.ndarray]) -> dict[tuple[str, str], np.ndarray]:
        """Return the expected counts of every pair of columns, from the counts of cliques.

        From the clique of a column outwards, the counts of the column with what two cliques share give those of the
        column with the further clique, which depends on the nearer one through what they share alone.
        """
        columns, tables = self.domain.attrs, {}
        home = {column: self.smallest([column]) for column in columns}
        conditional = {
            (step.here, step.there): _divided(counts[step.there], step.there_outside)
            for walk in self.walks
            for step in walk
        }
        for number, column in enumerate(columns):
            start, size = home[column], self.domain.config[column]
            chosen = np.eye(size).reshape(size, *self.within(start, [column]))
            joint = {start: chosen * counts[start]}
            for step in self.walks[start]:
                axes = tuple(axis + 1 for axis in step.here_outside)
                shared = joint[step.here].sum(axis=axes).reshape(size, *step.there_shape)
                joint[step.there] = shared * conditional[step.here, step.there]
            for later in columns[number + 1 :]:
                axes = tuple(axis + 1 for axis in self.outside(home[later], [later]))
                tables[column, later] = joint[home[later]].sum(axis=axes)
        return tables


class Loss:
    """The squared distance of marginals from measured ones, in standard deviations, and its gradient."""

    def __init__(self, tree: Propagation, measured: list[tuple[np.ndarray, np.ndarray, float, tuple]]) -> None:
        self.tree = tree
        self.groups = defaultdict(list)
        for weights, answer, noise, columns in measured:
            place = tree.smallest(columns)
            order = tuple(column for column in tree.cliques[place] if column in columns)
            shape = tuple(tree.domain.config[column] for column in columns)
            turn = tuple(columns.index(column) for column in order)
            held = [np.transpose((array / noise).reshape(shape), turn) for array in (weights, answer)]
            self.groups[place].append((*held, tree.outside(place, columns), tree.within(place, columns)))

    def __call__(self, marginals: list[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        """Return the loss and its gradient in the marginals."""
        loss, gradients = 0.0, [np.zeros_like(marginal) for marginal in marginals]
        for place, group in self.groups.items():
            for weights, answer, summed, shape in group:
                difference = weights * marginals[place].sum(axis=summed) - answer
                loss += 0.5 * float((difference**2).sum())
                gradients[place] += (weights * difference).reshape(shape)
        return loss, gradients


def _descend(
    tree: Propagation, loss_of: Loss, logs: list[np.ndarray], effort: Effort
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return log-potentials and marginals after mirror descent with a line search."""
    marginals = tree.marginals(logs)
    loss, gradient = loss_of(marginals)
    # The first steps are far too short on purpose; they grow quickly until one fails.
    rate, growth, losses = 1.0 / tree.total**2, 8.0, [loss]
    for _ in range(effort.steps):
        for _ in range(25):
            tried = [log - rate * slope for log, slope in zip(logs, gradient, strict=True)]
            reached = tree.marginals(tried)
            lower, steeper = loss_of(reached)
            expected = sum(
                float((g * (before - after)).sum())
                for g, before, after in zip(gradient, marginals, reached, strict=True)
            )
            if loss - lower >= 0.5 * rate * expected:
                break
            rate, growth = rate / 2, 2.0
        logs, marginals, loss, gradient = tried, reached, lower, steeper
        rate *= growth
        losses.append(loss)
        if growth == 2.0 and len(losses) > 10 and losses[-11] - loss < 1.0 + effort.least_gain * loss:
            break
    return logs, marginals


def _total(measured: list[tuple[np.ndarray, np.ndarray, float, tuple]]) -> float:
    """Return the estimate of the number of rows with the least variance, at least 1."""
    sums = np.array([(answer / weights).sum() for weights, answer, *_ in measured])
    variances = np.array([noise**2 * (1 / weights**2).sum() for weights, _, noise, _ in measured])
    return max(1.0, float((sums / variances).sum() / (1 / variances).sum()))


def _divided(counts: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Return chances given the other axes; 0 where these have no counts."""
    mass = counts.sum(axis=axes, keepdims=True)
    return np.divide(counts, mass, out=np.zeros_like(counts), where=mass > 0)
