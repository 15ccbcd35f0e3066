"""Names as people type them."""

from collections.abc import Iterable
from difflib import get_close_matches

from longhop.types import InputError

# Names under which the same gnn-benchmark files go elsewhere: in papers, in split files, in other libraries.
_ALIASES = {
    "amazon-cs": (
        "computer",
        "computers",
        "amazon-computer",
        "amazon-computers",
        "amazon-electronics-computers",
    ),
    "amazon-photo": ("photo", "amazon-electronics-photo"),
    "coauthor-cs": ("cs", "ms-academic-cs"),
    "coauthor-phy": ("physics", "coauthor-physics", "ms-academic-phy"),
}


def plain(name: str) -> str:
    """A name without what people vary: letter case, ``_`` for ``-``, blanks."""
    return name.strip().lower().replace("_", "-").replace(" ", "-")


def all_names(name: str) -> set[str]:
    """A data set's name and its aliases, each in :func:`plain` form."""
    groups = ({known, *others} for known, others in _ALIASES.items())
    return next((group for group in groups if plain(name) in group), {plain(name)})


def choose(given: str, known: Iterable[str], what: str) -> str:
    """The known name that is meant.

    Args:
        given: as typed.
        known: names to choose from, as they are spelled.
        what: how the message names the choice.

    Raises:
        InputError: none matches; the message names the nearest, or all.
    """
    spelled = list(known)
    for name in spelled:
        if plain(given) == plain(name):
            return name
    for name in spelled:
        if plain(given) in all_names(name):
            return name
    meant = {alias: name for name in spelled for alias in all_names(name)}
    near = get_close_matches(plain(given), meant, n=1)
    if near:
        raise InputError(f"{what}: unknown; did you mean {meant[near[0]]}?")
    raise InputError(f"{what}: unknown; choose one of {', '.join(sorted(spelled)) or 'none'}")
