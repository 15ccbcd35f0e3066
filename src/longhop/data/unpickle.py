"""Pickles from strangers: numpy and scipy.sparse classes are admitted, nothing else."""

import importlib
import pickle
from collections import OrderedDict, defaultdict
from typing import IO, Any

import numpy as np
import scipy.sparse

from longhop.types import InputError

_SPARSE = {
    f"{kind}_{form}": getattr(scipy.sparse, f"{kind}_{form}")
    for kind in ("csr", "csc", "coo")
    for form in ("matrix", "array")
}
_BUILTINS = {"list": list, "dict": dict}


class _RefusedError(pickle.UnpicklingError):
    """The pickle names something that is not admitted."""


def _latin1(text: str, encoding: str) -> bytes:
    """What Python 3 writes for ``bytes`` in old pickle protocols; no other codec is let in."""
    if encoding != "latin1":
        raise _RefusedError(f"_codecs.encode to {encoding}")
    return text.encode("latin1")


def numpy_rebuilder(module: str, name: str) -> Any:
    """Numpy's own rebuilders; numpy 2 moved them from ``numpy.core`` to ``numpy._core``."""
    home = "numpy._core" if int(np.__version__.split(".")[0]) >= 2 else "numpy.core"
    return getattr(importlib.import_module(f"{home}.{module}"), name)


def _admitted(module: str, name: str) -> Any:
    """The object a pickle may name, or None."""
    if module == "numpy" and name in ("ndarray", "dtype"):
        return getattr(np, name)
    if (module, name) in (
        ("_codecs", "encode"),
        ("collections", "defaultdict"),
        ("collections", "OrderedDict"),
    ):
        return {"encode": _latin1, "defaultdict": defaultdict, "OrderedDict": OrderedDict}[name]
    if module in ("builtins", "__builtin__"):
        return _BUILTINS.get(name)
    for core in ("numpy.core.", "numpy._core."):
        rest = module.removeprefix(core)
        if (rest, name) in (
            ("multiarray", "_reconstruct"),
            ("multiarray", "scalar"),
            ("numeric", "_frombuffer"),
        ):
            return numpy_rebuilder(rest, name)
    if module == "scipy.sparse" or module.startswith("scipy.sparse."):
        return _SPARSE.get(name)
    return None


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        found = _admitted(module, name)
        if found is None:
            raise _RefusedError(f"{module}.{name}")
        return found


def load_pickle(stream: IO[bytes], where: str) -> Any:
    """Unpickle one object that is made of numpy, scipy.sparse and plain Python containers.

    Args:
        stream: an open binary file; strings of Python 2 are decoded as latin1.
        where: how messages name the file.

    Returns:
        The object. Sparse matrices in it are unchecked: pass them through :func:`checked_csr`.

    Raises:
        InputError: the pickle names any other class or function (nothing of it was run), or is damaged.
    """
    try:
        return _Unpickler(stream, encoding="latin1").load()
    except _RefusedError as error:
        raise InputError(
            f"{where}: the pickle asks for {error}, but only numpy arrays, scipy.sparse matrices and plain "
            "containers are read from pickles; save the data as arrays (npz) instead"
        ) from error
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise InputError(f"{where}: truncated or damaged pickle ({error}); fetch the file again") from error


def checked_csr(matrix: Any, where: str) -> scipy.sparse.csr_matrix:
    """A sparse matrix from an untrusted file, rebuilt and checked before any kernel walks its offsets.

    Args:
        matrix: what the pickle held.
        where: how messages name it.

    Returns:
        CSR, entries as they came.

    Raises:
        InputError: it is no scipy.sparse CSR, CSC or COO matrix, or its offsets or ids are inconsistent.
    """
    try:
        if isinstance(matrix, scipy.sparse.coo_matrix | scipy.sparse.coo_array):
            rebuilt: Any = scipy.sparse.coo_matrix((matrix.data, (matrix.row, matrix.col)), shape=matrix.shape)
        else:
            parts = (matrix.data, matrix.indices, matrix.indptr)
            csc = isinstance(matrix, scipy.sparse.csc_matrix | scipy.sparse.csc_array)
            rebuilt = (scipy.sparse.csc_matrix if csc else scipy.sparse.csr_matrix)(parts, shape=matrix.shape)
            rebuilt.check_format(full_check=True)
    except (AttributeError, TypeError, ValueError, IndexError) as error:
        raise InputError(f"{where}: not a consistent scipy.sparse matrix ({error}); fetch the file again") from error
    return scipy.sparse.csr_matrix(rebuilt)
