"""A public feature map of images: logarithms of scattering averages, principal directions, partly whitened."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd
from sklearn.utils.validation import check_is_fitted

from dpensemble.errors import DataError
from dpensemble.moments.maps.base import FeatureMap

_Singles = NDArray[np.float32]
_KERNEL = 7  # side of an oriented filter, in pixels of its own scale
_TILE = 14  # most columns of a strip that filters are applied to
_FIT_FLOATS = 80_000_000  # numbers held when principal directions are learned
_BLOCK_FLOATS = 12_000_000  # numbers held by one block of rows in transform


def _oriented_filters(orientations: int) -> _Singles:
    """Complex Gabor filters without a mean, as real parts followed by imaginary parts, shape (side, side, 2 L)."""
    reach = np.arange(_KERNEL) - (_KERNEL - 1) / 2
    down, across = np.meshgrid(reach, reach, indexing="ij")
    bank = []
    for angle in np.arange(orientations) * np.pi / orientations:
        along = across * np.cos(angle) + down * np.sin(angle)
        aside = down * np.cos(angle) - across * np.sin(angle)
        envelope = np.exp(-(along**2 + (0.5 * aside) ** 2) / (2 * 0.8**2))
        wave = envelope * np.exp(0.75j * np.pi * along)
        wave -= envelope * wave.sum() / envelope.sum()
        bank.append(wave / np.abs(wave).sum())
    stacked = np.stack(bank, axis=-1)
    return np.concatenate([stacked.real, stacked.imag], axis=-1).astype(np.float32)


def _averaging(length: int, cells: int) -> _Singles:
    """Gaussian averages of `length` pixels around `cells` centres, shape (cells, length), rows sum to one."""
    step = length / cells
    centres = (np.arange(cells) + 0.5) * step - 0.5
    weights = np.exp(-0.5 * ((np.arange(length) - centres[:, None]) / (0.8 * step)) ** 2)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float32)


def _averaged(maps: _Singles, cells: tuple[int, int]) -> _Singles:
    """Local averages of maps of shape (rows, height, width, channels) on a grid of cells."""
    rows, height, width, channels = maps.shape
    first = np.matmul(_averaging(height, cells[0]), maps.reshape(rows, height, width * channels))
    second: _Singles = np.matmul(_averaging(width, cells[1]), first.reshape(rows, cells[0], width, channels))
    return second


def _moduli(maps: _Singles, bank: _Singles) -> _Singles:
    """Moduli of the responses of every oriented filter: (rows, height, width) to (rows, height, width, L).

    A strip of columns is filtered by one matrix product with a banded matrix, which copies the image seven times
    rather than forty-nine times.
    """
    rows, height, width = maps.shape
    strips = -(-width // _TILE)
    tile = -(-width // strips)
    reach, filters = _KERNEL // 2, bank.shape[-1]
    padded = np.pad(maps, ((0, 0), (reach, reach), (reach, reach + strips * tile - width)), mode="edge")
    span = tile + _KERNEL - 1
    banded = np.zeros((_KERNEL, span, tile, filters), dtype=np.float32)
    for column in range(tile):
        banded[:, column : column + _KERNEL, column] = bank
    windows = np.lib.stride_tricks.sliding_window_view(padded, (_KERNEL, span), axis=(1, 2))[:, :, ::tile]
    responses = windows.reshape(rows * height * strips, _KERNEL * span) @ banded.reshape(_KERNEL * span, -1)
    responses = responses.reshape(rows, height, strips * tile, filters)[:, :, :width]
    np.square(responses, out=responses)
    half = filters // 2
    sizes: _Singles = responses[..., :half] + responses[..., half:]
    np.sqrt(sizes, out=sizes)
    return sizes


def _scattered(images: _Singles, scales: int, cells: tuple[int, int], bank: _Singles) -> _Singles:
    """Scattering averages of grey images (rows, height, width), shape (rows, cells down, cells across, channels).

    Channels are the local mean, the moduli of oriented waves at every scale, and the moduli of coarser waves in
    each finer modulus. There are 1 + L S + L^2 S (S - 1) / 2 channels for L orientations and S scales.
    """
    layers = [_averaged(images[..., None], cells)]
    image = images[..., None]
    finer: list[_Singles] = []
    for scale in range(scales):
        if scale:
            halved = (max(1, image.shape[1] // 2), max(1, image.shape[2] // 2))
            image = _averaged(image, halved)
            finer = [_averaged(waves, halved) for waves in finer]
        for waves in finer:
            rows, height, width, count = waves.shape
            stacked = np.ascontiguousarray(waves.transpose(0, 3, 1, 2)).reshape(rows * count, height, width)
            second = _averaged(_moduli(stacked, bank), cells)
            second = second.reshape(rows, count, *cells, -1).transpose(0, 2, 3, 1, 4)
            layers.append(second.reshape(rows, *cells, -1))
        waves = _moduli(image[..., 0], bank)
        layers.append(_averaged(waves, cells))
        finer.append(waves)
    return np.concatenate(layers, axis=-1)


class ImageMap(FeatureMap):
    """Features of images learned from public images without labels, every row of norm at most one.

    Parameters
    ----------
    shape : tuple of int
        Height and width of an image in pixels, and the number of colours if more than one.
    n_components : int
        Principal directions kept (fewer if the public images cannot support this number).
    orientations : int
        Angles of the oriented waves.
    whitening : float
        Each direction is divided by its public variance to the power of half of this: 0 keeps principal
        components as they are, 1 whitens them.
    offset : float
        Added to an average, relative to the root mean square of its channel, before the logarithm is taken.
    constant : float
        Value of the constant, the last feature. The other features of a row are sqrt(1 - constant**2) long.
    random_state : int
        Seed of the choice of public rows (if many) and of the randomized decomposition.

    Attributes
    ----------
    blocks_ : ndarray of int, shape (n_features,)
        Features that share a prior scale: directions 1, 2-3, 4-7, and so on, then the constant.
    nonnegative_ : bool
        False: features have either sign.
    floor_, sizes_, centre_, directions_ : ndarray
        Least public pixel, root mean square of each channel, public mean of the logarithms, and scaled directions.

    Raises
    ------
    DataError
        If rows are not images of that shape, or hold values that are not finite numbers.

    Examples
    --------
    >>> images = np.random.default_rng(0).random((20, 64))
    >>> ImageMap((8, 8), n_components=10).fit(images).transform(images).shape
    (20, 11)

    Notes
    -----
    Images are filtered with oriented complex waves at octaves. The moduli are filtered once more at coarser octaves
    (a scattering transform). Both are averaged on a grid of at most 7 by 7 cells. Nothing depends on the scale
    of pixel values. Rows are handled in blocks, so that memory does not grow with their number.
    """

    reads_rows_by_place = True

    def __init__(
        self,
        shape: tuple[int, ...],
        n_components: int = 500,
        *,
        orientations: int = 8,
        whitening: float = 0.75,
        offset: float = 0.1,
        constant: float = 0.1,
        random_state: int = 0,
    ) -> None:
        self.shape = shape
        self.n_components = n_components
        self.orientations = orientations
        self.whitening = whitening
        self.offset = offset
        self.constant = constant
        self.random_state = random_state

    def fit(self, X: Any, y: object = None) -> ImageMap:  # noqa: ARG002
        """Learn channel sizes and principal directions from public images. `y` is ignored.

        Parameters
        ----------
        X : array-like, shape (n, height, width[, colours]) or (n, pixels)
        """
        images = self._images(X)
        rng = np.random.default_rng(self.random_state)
        most = max(_FIT_FLOATS // self._averages(images[:1], np.float32(0)).size, self.n_components + 1, 100)
        if len(images) > most:
            images = images[np.sort(rng.choice(len(images), most, replace=False))]
        self.floor_ = np.float32(images.min())
        averages = np.concatenate([self._averages(images[i], self.floor_) for i in self._slices(len(images))])
        squares = np.mean([(row**2).mean(axis=0) for row in averages], axis=0, dtype=np.float64)
        self.sizes_ = np.maximum(np.sqrt(squares), 1e-12).astype(np.float32)
        averages = self._logarithms(averages)
        self.centre_ = averages.mean(axis=0, dtype=np.float64).astype(np.float32)
        averages -= self.centre_
        n_directions = max(1, min(self.n_components, len(averages) - 1, averages.shape[1]))
        _, singular, directions = randomized_svd(averages, n_directions, n_iter=3, random_state=self.random_state)
        relative = np.maximum(singular / max(float(singular[0]), 1e-30), 1e-4)
        self.directions_ = np.ascontiguousarray((directions / relative[:, None] ** self.whitening).T, dtype=np.float32)
        self.blocks_ = self.octaves_of(n_directions)
        self.nonnegative_ = False
        self.n_features_in_ = int(np.prod(self.shape))
        return self

    def transform(self, X: Any) -> _Singles:
        """Features of images, shape (n, n_components + 1), rows of norm at most one.

        Parameters
        ----------
        X : array-like, shape (n, height, width[, colours]) or (n, pixels)
        """
        check_is_fitted(self, "directions_")
        images = self._images(X)
        features = np.empty((len(images), self.directions_.shape[1] + 1), dtype=np.float32)
        shrink = np.float32(np.sqrt(1 - self.constant**2) * (1 - 1e-6))
        for rows in self._slices(len(images)):
            averages = self._logarithms(self._averages(images[rows], self.floor_))
            scores = (averages - self.centre_) @ self.directions_
            lengths = np.sqrt(np.einsum("ij,ij->i", scores, scores))
            features[rows, :-1] = scores * (shrink / np.maximum(lengths, 1e-12))[:, None]
        features[:, -1] = self.constant * (1 - 1e-6)
        return features

    def _images(self, X: Any) -> NDArray[np.generic]:
        """Rows as (n, height, width, colours), with their own type of number."""
        height, width, *colours = self.shape
        images = np.asarray(X)
        if not (np.issubdtype(images.dtype, np.number) or images.dtype == np.bool_) or np.iscomplexobj(images):
            raise DataError(f"images must hold real numbers, not entries of type {images.dtype}.")
        if len(colours) > 1 or images.ndim < 2 or np.prod(images.shape[1:]) != np.prod(self.shape) or not len(images):
            raise DataError(
                f"rows of shape {images.shape[1:]} are not images of shape={tuple(self.shape)}: give another shape."
            )
        return images.reshape(len(images), height, width, *(colours or [1]))

    def _averages(self, images: NDArray[np.generic], floor: np.float32) -> _Singles:
        """Scattering averages of a block of rows, shape (rows, cells, channels)."""
        pixels = np.maximum(images.astype(np.float32) - floor, 0)
        if not np.isfinite(pixels).all():
            raise DataError("images hold missing or infinite values: drop those images.")
        height, width = pixels.shape[1:3]
        cells = (max(1, min(7, height // 2)), max(1, min(7, width // 2)))
        bank = _oriented_filters(self.orientations)
        scales = 2 if max(height, width) <= 40 else 3
        maps = [_scattered(pixels[..., colour], scales, cells, bank) for colour in range(pixels.shape[-1])]
        joined = np.concatenate(maps, axis=-1)
        return joined.reshape(len(joined), -1, joined.shape[-1])

    def _logarithms(self, averages: _Singles) -> _Singles:
        """Averages replaced by logarithms, relative to the size of their channel, one flat row an image."""
        averages /= self.sizes_
        averages += np.float32(self.offset)
        np.log(averages, out=averages)
        return averages.reshape(len(averages), -1)

    def _slices(self, rows: int) -> list[slice]:
        """Blocks of rows that bound the memory of the second layer."""
        height, width = self.shape[:2]
        block = max(1, _BLOCK_FLOATS // (height * width * self.orientations * 12))
        return [slice(start, min(start + block, rows)) for start in range(0, rows, block)]
