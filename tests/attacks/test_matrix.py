"""No release that its own assessment calls safe can be broken: every method passes through every attack.

A new method is in the registry, and so in here. `make test` tries some methods on one file with one seed, `make slow`
all methods and files, `make studies` more seeds.
"""

from __future__ import annotations

import pytest
from matrix import ATTACKS, FILES, outcome

import microveil as mv

every_method = pytest.mark.parametrize("method", list(mv.methods()))
every_attack = pytest.mark.parametrize("attack", list(ATTACKS))


@pytest.mark.quick("*-veil", "*-pca", "*-noise", "*-rank_swap", "l*-microaggregate", "l*-correct")
@every_method
@every_attack
def test_what_succeeds_is_refused_or_seen(method: str, attack: str) -> None:
    assert outcome(method, attack, FILES["firms"](1), 1) != "open"


@pytest.mark.slow
@pytest.mark.parametrize("file", list(FILES))
@pytest.mark.parametrize("seed", [2, *(pytest.param(seed, marks=pytest.mark.study) for seed in (1, 3))])
@every_method
@every_attack
def test_on_every_file(method: str, attack: str, file: str, seed: int) -> None:
    assert outcome(method, attack, FILES[file](seed), seed) != "open"


@pytest.mark.quick("member", "link", "small file")
@pytest.mark.parametrize("attack", ["lone gap", "rare label", "giant", "member", "largest", "link", "small file"])
def test_the_default_holds_against_all(attack: str) -> None:
    for file, make in FILES.items():
        assert outcome("veil", attack, make(2), 2) == "holds", file


def test_an_attack_can_succeed() -> None:
    """A matrix in which nothing can fail would tell nothing: masking that hardly masks is broken by all but two."""
    data = FILES["firms"](1)
    assert ATTACKS["link"].run("rank_swap", data, 1).gained > ATTACKS["link"].run("veil", data, 1).gained
    assert ATTACKS["member"].run("shuffle", data, 1).gained > 0.95
