"""Which data a run reads and how it is prepared."""

from dataclasses import dataclass
from typing import Literal, get_args

from longhop.types import InputError

Format = Literal["auto", "ogb", "planetoid", "gnn-benchmark", "heterophilous", "arrays", "synthetic"]
Features = Literal["raw", "row_normalize", "binary", "standardize"]


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """A data set and its preparation.

    Attributes:
        path: a file, a folder, ``synthetic:NAME?option=value&...``; a leading ``$LONGHOP_DATA/`` is the
            folder of published data sets.
        format: the reader; ``auto`` looks at the files. ``arrays`` is PyG's ``Data``, or a dictionary of
            arrays, in a ``.pt`` or ``.npz`` file.
        name: which data set of a folder that holds several; letter case, ``-`` and ``_`` do not matter.
        symmetrize: add the missing reverse of every edge.
        split: column of the split masks to train on, 0..S-1.
        features: ``raw``; ``row_normalize`` (each row sums to one in absolute value); ``binary``
            (x > 0); ``standardize`` (mean 0 and deviation 1 over the training nodes of ``split``).
        seed: draws the 60/20/20 split of data that come without one.

    Raises:
        InputError: a format or a feature option that does not exist.
    """

    path: str
    format: Format = "auto"
    name: str = ""
    symmetrize: bool = False
    split: int = 0
    features: Features = "raw"
    seed: int = 0

    def __post_init__(self) -> None:
        for field, value, known in (
            ("format", self.format, get_args(Format)),
            ("features", self.features, get_args(Features)),
        ):
            if value not in known:
                raise InputError(f"data.{field} is {value!r}; choose one of {', '.join(known)}")
