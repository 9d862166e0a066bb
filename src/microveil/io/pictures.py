"""Pictures as tables of grey shades."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import FileError
from microveil.storage.atomic import shown

PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".pgm", ".gif")
SMALLEST = 10
"""Rows and columns that a picture must have: fewer have no spectrum to speak of."""


def read_picture(path: Path) -> Array:
    """A picture in grey shades from 0 to 255, rows x columns; colours become grey."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise FileError("pillow reads pictures and is not installed", "pip install pillow") from None
    try:
        with Image.open(path) as picture:
            shades = np.asarray(picture.convert("L"), dtype=np.float64)
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError):
        raise FileError(f"{shown(path)} cannot be read as a picture", "give a PNG, a TIFF or another") from None
    if min(shades.shape) < SMALLEST or not np.ptp(shades):
        raise FileError(f"{shown(path)} is too small or of one shade", "give another picture")
    return shades
