"""A column as NumPy has it."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

NumpyColumn: TypeAlias = npt.NDArray[Any]
"""Values of one column, one after the other; their dtype follows the column's type, which only the data says."""

NumpyType: TypeAlias = np.dtype[Any]
"""The dtype of such a column."""
