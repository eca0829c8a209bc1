"""Types of columns as NumPy arrays."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

NumpyColumn: TypeAlias = npt.NDArray[Any]
"""The values of one column; their dtype depends on the column's type."""

NumpyType: TypeAlias = np.dtype[Any]
"""The dtype of such a column."""
