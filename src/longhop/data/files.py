"""Arrays in files: npz archives read member by member, number tables as csv(.gz), and the cache of both.

Every problem of a file becomes an InputError that names the file and, where there is one, the row.
"""

import gzip
import hashlib
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from longhop import env
from longhop.data.unpickle import load_pickle
from longhop.types import InputError

Array: TypeAlias = npt.NDArray[Any]

_DAMAGE = (EOFError, OSError, ValueError, zlib.error, zipfile.BadZipFile)


class Npz(Mapping[str, Any]):
    """The arrays of an npz file, each read when asked for; object arrays go through the restricted unpickler.

    Args:
        path: the file.

    Raises:
        InputError: the file is missing or no complete zip archive; on access, a damaged or refused member.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with reading(path), zipfile.ZipFile(path) as archive:
            names = archive.namelist()
        self._members = {name.removesuffix(".npy"): name for name in names if name.endswith(".npy")}

    def __getitem__(self, key: str) -> Any:
        member = self._members[key]
        with reading(self.path, key), zipfile.ZipFile(self.path) as archive:
            with archive.open(member) as stream:
                shape, dtype = _npy_header(stream)
                if dtype.hasobject:
                    found = load_pickle(stream, f"{self.path}[{key}]")
                    # numpy stores one Python object as an object array without axes.
                    return found.item() if isinstance(found, np.ndarray) and shape == () else found
            with archive.open(member) as stream:
                return np.lib.format.read_array(stream, allow_pickle=False)

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def cached(self, key: str) -> Array:
        """A member mapped from the cache, where it is unpacked first without holding it in memory."""

        def unpack(target: IO[bytes]) -> None:
            with zipfile.ZipFile(self.path) as archive, archive.open(self._members[key]) as stream:
                while block := stream.read(1 << 22):
                    target.write(block)

        with reading(self.path, key):
            return _through_cache(self.path, key, unpack, lambda: self[key])


def read_table(path: Path, dtype: type[np.generic]) -> Array:
    """Read a csv or csv.gz of numbers without a header.

    The parsed array is kept under ``longhop.env.cache_dir()`` under the file's path, size and time of
    change, so that the second reading maps it.

    Args:
        path: the file.
        dtype: numpy type of every column.

    Returns:
        [rows, columns]; writable (a private mapping: the cache does not change).

    Raises:
        InputError: missing or truncated file; a row that is not numbers, or of another length than the first.
    """
    opener: Any = gzip.open if path.suffix == ".gz" else open

    def parse() -> Array:
        with opener(path, "rb") as stream:
            if not stream.read(1):
                return np.zeros((0, 1), dtype=dtype)
        try:
            return np.loadtxt(path, delimiter=",", dtype=dtype, ndmin=2, comments=None)
        except ValueError as error:
            bad = _bad_row(path, opener, dtype)
            if bad is None:
                raise
            raise bad from error

    with reading(path):
        key = np.dtype(dtype).str
        return _through_cache(path, key, lambda target: np.lib.format.write_array(target, parse()), parse)


@contextmanager
def reading(path: Path, key: str = "") -> Iterator[None]:
    """Turn what a missing or damaged file raises into an InputError that names it."""
    where = f"{path}[{key}]" if key else str(path)
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"{where}: no such file; check the path and that the download is complete") from error
    except PermissionError as error:
        raise InputError(f"{where}: no permission to read; change the file's mode") from error
    except _DAMAGE as error:
        raise InputError(f"{where}: truncated or damaged ({error}); fetch the file again") from error


def _npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    # Versions 2 and 3 differ from 1 in the length field and in the text's encoding only.
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    return shape, dtype


def _bad_row(path: Path, opener: Callable[..., IO[str]], dtype: type[np.generic]) -> InputError | None:
    """Find what numpy stumbled over: its own messages count rows in two ways and do not name the file."""
    width = None
    with opener(path, "rt") as lines:
        for number, line in enumerate(lines, start=1):
            fields = line.strip().split(",")
            width = width or len(fields)
            if len(fields) != width:
                return InputError(
                    f"{path}, line {number}: {len(fields)} columns, but {width} in the lines above; mend it"
                )
            try:
                np.array(fields).astype(dtype)
            except (ValueError, OverflowError):
                kind = np.dtype(dtype).name
                return InputError(f"{path}, line {number}: {line.strip()[:60]!r} is not {kind} numbers; mend it")
    return None


def _through_cache(path: Path, key: str, write: Callable[[IO[bytes]], None], read: Callable[[], Array]) -> Array:
    """Map the cached array of a file, written first on a miss; without a usable cache, just read the file."""
    stat = path.stat()
    identity = f"1|{path.resolve()}|{stat.st_size}|{stat.st_mtime_ns}|{key}"
    digest = hashlib.blake2b(identity.encode(), digest_size=16).hexdigest()
    target = env.cache_dir() / "data" / f"{digest}.npy"
    found = _map(target)
    if found is None:
        try:
            _write_atomically(target, write)
        except OSError:
            # A cache that cannot be written (full, read-only) costs time, not the run; where it was the
            # source that could not be read, reading it again says so.
            return read()
        found = _map(target)
    return read() if found is None else found


def _map(target: Path) -> Array | None:
    try:
        # "c": private pages. Callers may write, the file keeps its content.
        mapped: Array = np.load(target, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return mapped


def _write_atomically(target: Path, write: Callable[[IO[bytes]], None]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=target.parent, prefix=".", delete=False) as stream:
        try:
            write(stream)
            stream.flush()
            os.replace(stream.name, target)
        except BaseException:
            Path(stream.name).unlink(missing_ok=True)
            raise
