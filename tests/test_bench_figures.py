"""`make bench` ends with what moved: figures are found by the words and sizes of their case, not by their place."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "bench"))

from moved import moved

OLD = {"cores": 2, "cases": [{"rows": 10, "kind": "even", "cpu_s": 1.0}, {"rows": 99, "kind": "even", "cpu_s": 5.0}]}


def test_a_figure_that_moved_by_more_than_a_tenth_is_named_with_its_case() -> None:
    cases = [{"rows": 99, "kind": "even", "cpu_s": 4.0}, {"rows": 10, "kind": "even", "cpu_s": 1.09}]
    assert moved(OLD, {"cores": 4, "cases": cases}) == ["cases / 99 even / cpu_s: 5 -> 4"]


def test_new_cases_and_hundredths_of_a_second_do_not_count() -> None:
    assert moved(OLD, {"cases": [{"rows": 11, "kind": "even", "cpu_s": 7.0}]}) == []
    assert moved({"cpu_s": 0.01, "ratio": 0.01}, {"cpu_s": 0.02, "ratio": 0.02}) == ["ratio: 0.01 -> 0.02"]


def test_the_largest_move_comes_first_and_zero_is_no_error() -> None:
    assert moved({"a": 1.0, "b": 4.0, "c": 0.0}, {"a": 1.5, "b": 1.0, "c": 2.0}) == [
        "c: 0 -> 2",
        "b: 4 -> 1",
        "a: 1 -> 1.5",
    ]


def test_cases_that_words_do_not_tell_apart_are_compared_in_their_order() -> None:
    old = {"cases": [{"kind": "near", "cpu_s": 1.0}, {"kind": "near", "cpu_s": 9.0}]}
    assert moved(old, old) == []
    new = {"cases": [{"kind": "near", "cpu_s": 1.0}, {"kind": "near", "cpu_s": 4.5}]}
    assert moved(old, new) == ["cases / near (2) / cpu_s: 9 -> 4.5"]
