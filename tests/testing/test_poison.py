import types

import torch

from longhop.testing.poison import poisoned_empty

SOURCE = """
def allocate():
    like = torch.zeros(2)
    return [torch.empty(3), torch.empty_like(like), like.new_empty(2), torch.empty(2, dtype=torch.int16)]
"""


def test_only_what_longhop_allocates_is_poisoned() -> None:
    inside, outside = types.ModuleType("longhop.ops.some"), types.ModuleType("elsewhere")
    for module in (inside, outside):
        module.__dict__["torch"] = torch
        exec(SOURCE, module.__dict__)
    before = torch.empty
    with poisoned_empty():
        poisoned, plain = inside.allocate(), outside.allocate()
    assert all(bool(t.isnan().all()) for t in poisoned[:3])
    assert poisoned[3].tolist() == [32767, 32767]
    assert [t.shape for t in plain] == [t.shape for t in poisoned]
    assert torch.empty is before
