import collections
import io
import os
import pickle
import zipfile

import numpy as np
import pytest
import scipy.sparse

from longhop.data.files import Npz
from longhop.data.unpickle import checked_csr, load_pickle
from longhop.types import InputError

MATRIX = scipy.sparse.csr_matrix(np.array([[0, 1.5], [2, 0]]))


class Evil:
    def __init__(self, call, *args):
        self.call = (call, args)

    def __reduce__(self):
        return self.call


def loads(data: bytes):
    return load_pickle(io.BytesIO(data), "file.pkl")


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize(
    "value",
    [
        np.arange(6).reshape(2, 3),
        np.array(["a", "b"]),
        np.float32(1.5),
        collections.defaultdict(list, {0: [1, 2]}),
        {"a": [1, (2, None)], "b": b"\xff"},
    ],
    ids=["array", "strings", "scalar", "defaultdict", "containers"],
)
def test_admits_arrays_and_containers(value, protocol):
    found = loads(pickle.dumps(value, protocol=protocol))
    np.testing.assert_equal(found, value)


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("form", ["csr_matrix", "csc_matrix", "coo_matrix", "csr_array"])
def test_admits_sparse_matrices(form, protocol):
    matrix = getattr(scipy.sparse, form)(MATRIX)
    found = checked_csr(loads(pickle.dumps(matrix, protocol=protocol)), "m")
    np.testing.assert_array_equal(found.toarray(), MATRIX.toarray())


def test_reads_the_module_names_of_old_numpy_and_scipy():
    data = pickle.dumps(MATRIX, protocol=2).replace(b"scipy.sparse._csr", b"scipy.sparse.csr")
    data = data.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    np.testing.assert_array_equal(checked_csr(loads(data), "m").toarray(), MATRIX.toarray())


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
@pytest.mark.parametrize(
    ("call", "args"),
    [
        (os.system, ("touch {}",)),
        (eval, ("open('{}', 'w')",)),
        (exec, ("open('{}', 'w')",)),
        (open, ("{}", "w")),
        (getattr, (os, "system")),
        (np.save, ("{}", 0)),
        (np.memmap, ("{}", "u1", "w+", 0, (1,))),
        (scipy.sparse.save_npz, ("{}", MATRIX)),
        (str.encode, ("a", "rot13")),
    ],
    ids=["system", "eval", "exec", "open", "getattr", "np.save", "memmap", "save_npz", "method"],
)
def test_refuses_everything_else_before_it_runs(tmp_path, call, args, protocol):
    target = tmp_path / "written"
    args = tuple(arg.format(target) if isinstance(arg, str) else arg for arg in args)
    if os in args:
        args = (MATRIX, "toarray")
    data = pickle.dumps({"x": [Evil(call, *args)]}, protocol=protocol)
    with pytest.raises(InputError, match=r"file\.pkl: the pickle asks for "):
        loads(data)
    assert not list(tmp_path.glob("written*"))


def test_no_codec_but_latin1():
    import _codecs

    with pytest.raises(InputError, match="rot13"):
        loads(pickle.dumps(Evil(_codecs.encode, "a", "rot13")))


@pytest.mark.parametrize("cut", [0, 1, 20, -1])
def test_truncated_pickle(cut):
    with pytest.raises(InputError, match=r"file\.pkl: truncated or damaged"):
        loads(pickle.dumps(np.arange(100), protocol=2)[:cut])


@pytest.mark.parametrize("field", ["indices", "indptr"])
def test_inconsistent_matrix_never_reaches_a_kernel(field):
    bad = MATRIX.copy()
    setattr(bad, field, getattr(bad, field) + 10**6)
    with pytest.raises(InputError, match="not a consistent"):
        checked_csr(loads(pickle.dumps(bad)), "m")


def test_npz_object_member_is_restricted(tmp_path):
    target = tmp_path / "written"
    path = tmp_path / "evil.npz"
    np.savez(path, a=np.arange(3), b=np.array(Evil(os.system, f"touch {target}"), dtype=object))
    npz = Npz(path)
    np.testing.assert_array_equal(npz["a"], np.arange(3))
    with pytest.raises(InputError, match=r"evil\.npz\[b\]: the pickle asks for (posix|nt)\.system"):
        npz["b"]
    assert not target.exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no zip", None], ids=["empty", "garbage", "cut"])
def test_damaged_npz(tmp_path, content):
    path = tmp_path / "bad.npz"
    np.savez(path, a=np.arange(1000))
    path.write_bytes(path.read_bytes()[:500] if content is None else content)
    with pytest.raises(InputError, match=r"bad\.npz: truncated or damaged"):
        Npz(path)


def test_damaged_npz_member(tmp_path):
    path = tmp_path / "bad.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY\x01\x00 nothing")
    with pytest.raises(InputError, match=r"bad\.npz\[a\]: truncated or damaged"):
        Npz(path)["a"]
