"""Policies: read strictly, checked line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from command import run

import microveil as mv
from microveil.assess import read_policy
from microveil.assessment import measuring
from microveil.errors import FileError, MicroveilError, ParameterError

GOOD = """
[policy]
name = "research files"
version = 1

[limits]
dbrl = {at_most = 0.9}
interval_disclosure_own = {at_most = 0.9, use = "high"}
vector_correlation = {at_least = 0.5}
"""


def data() -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).lognormal(size=(200, 3))


def released(noise: float) -> np.ndarray[Any, Any]:
    return data() + noise * np.random.default_rng(2).normal(size=(200, 3))


def written(folder: Path, text: str) -> Path:
    path = folder / "policy.toml"
    path.write_text(text)
    return path


def limits(**entries: Any) -> dict[str, Any]:
    return {"policy": {"name": "p", "version": 1}, "limits": entries}


def test_a_policy_that_is_met(tmp_path: Path) -> None:
    policy = mv.read_policy(written(tmp_path, GOOD))
    assert policy.name == "research files"
    assert policy.measures == ("dbrl", "interval_disclosure_own", "vector_correlation")
    found = mv.assess(data(), released(0.5), measures=[], policy=policy, sanity=False)
    assert list(found) == list(policy.measures), "its measures are taken, whether asked for or not"
    assert found.met
    assert found.verdict == policy.check(found)
    assert [line.figure for line in found.verdict.lines] == [
        found["dbrl"].value, found["interval_disclosure_own"].high, found["vector_correlation"].value,
    ]  # fmt: skip
    assert repr(found).endswith("policy met>")


def test_a_policy_that_is_not_met_says_where() -> None:
    policy = limits(dbrl={"at_most": 0.25}, ks={"at_most": 0.5})
    found = mv.assess(data(), data(), measures="pil", policy=policy, sanity=False)
    assert list(found) == ["pil", "dbrl", "ks"]
    assert found.met is False
    assert found.verdict is not None
    assert found.verdict.failed == ["dbrl"]
    assert [line.met for line in found.verdict.lines] == [False, True]
    assert found.verdict.lines[0].reason == "1 is not at most 0.25"
    assert repr(found).splitlines()[0].endswith("policy not met>")
    told = json.loads(found.to_json())["policy"]
    assert (told["name"], told["met"]) == ("p", False)
    assert told["lines"][0] == {
        "measure": "dbrl", "at_most": 0.25, "at_least": None, "use": "value", "figure": 1.0, "met": False,
        "reason": "1 is not at most 0.25",
    }  # fmt: skip


def test_without_a_policy_there_is_no_verdict() -> None:
    found = mv.assess(data(), data(), measures="ks", sanity=False)
    assert found.verdict is None
    assert found.met is None


def test_a_figure_on_the_limit_meets_it_and_an_end_of_the_interval_need_not() -> None:
    found = mv.assess(data(), data(), measures=["interval_disclosure_own", "dbrl"], sanity=False)
    share = found["interval_disclosure_own"]
    assert share.low < share.value == 1
    for use, limit, met in (("value", 1.0, True), ("low", share.low, True), ("value", 0.999, False)):
        policy = mv.read_policy(limits(interval_disclosure_own={"at_most": limit, "use": use}))
        assert policy.check(found).met is met
    half = mv.assess(data(), released(3.0), measures="dbrl", sanity=False)["dbrl"]
    between = (half.value + half.high) / 2
    assert half.value < half.high
    for use, met in (("value", True), ("high", False)):
        policy = mv.read_policy(limits(dbrl={"at_most": between, "use": use}))
        assert mv.assess(data(), released(3.0), measures="dbrl", policy=policy, sanity=False).met is met


def test_what_was_not_measured_is_not_met() -> None:
    policy = mv.read_policy(limits(dbrl={"at_most": 1.0}, ks={"at_most": 1.0}))
    other = policy.check(mv.assess(data(), data(), measures="ks", sanity=False))
    assert not other.met
    assert other.lines[0].figure is None
    assert other.lines[0].reason == "not measured: it was not asked for"
    shorter = mv.assess(data(), data()[:150], measures="ks", policy=policy, sanity=False)
    assert shorter.verdict is not None
    assert shorter.verdict.failed == ["dbrl"]
    assert "not measured: the files have 200 and 150 rows" in shorter.verdict.lines[0].reason


def test_a_dict_a_path_and_a_policy_are_the_same(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    policy = mv.read_policy(path)
    assert mv.read_policy(str(path)) == policy
    asked = mv.assess(data(), data(), measures=[], policy=str(path), sanity=False)
    assert asked.verdict == mv.assess(data(), data(), measures=[], policy=policy, sanity=False).verdict


def test_both_ends_where_neither_direction_is_better() -> None:
    neither = next(name for name, entry in mv.assess(data(), data(), measures="ks").entries.items()
                   if entry.better == "neither" and entry.range[1] > entry.range[0])  # fmt: skip
    middle = 0.5
    policy = mv.read_policy(limits(**{neither: {"at_least": middle, "at_most": middle}}))
    assert str(policy.limits[0]) == "at least 0.5 and at most 0.5"
    with pytest.raises(ParameterError, match="at_least is above at_most"):
        mv.read_policy(limits(**{neither: {"at_least": 0.75, "at_most": 0.25}}))


HEAD = '[policy]\nname = "p"\nversion = 1\n'
BAD = {
    "not TOML": (HEAD + "[limits]\ndbrl = {at_most = }\n", r"not valid TOML \(line 5\)"),
    "a key twice": (HEAD + "[limits]\nks = {at_most = 1}\nks = {at_most = 1}\n", r"not valid TOML \(line 6\)"),
    "empty": ("", "'policy' is missing"),
    "no header": ("[limits]\nks = {at_most = 1}\n", "'policy' is missing"),
    "no limits": (HEAD, "'limits' is missing"),
    "empty limits": (HEAD + "[limits]\n", "limits: has fewer entries than 1"),
    "no name": ("[policy]\nversion = 1\n[limits]\nks = {at_most = 1}\n", "'name' is missing in policy"),
    "empty name": ('[policy]\nname = ""\nversion = 1\n[limits]\nks = {at_most = 1}\n', "policy.name: is too short"),
    "no version": ('[policy]\nname = "p"\n[limits]\nks = {at_most = 1}\n', "'version' is missing in policy"),
    "another version": ('[policy]\nname = "p"\nversion = 2\n[limits]\nks = {at_most = 1}\n', "reads 1"),
    "true is no version": ('[policy]\nname = "p"\nversion = true\n[limits]\nks = {at_most = 1}\n', "policy.version"),
    "unknown section": (HEAD + "[limit]\nks = {at_most = 1}\n", "'limits' is missing|no key 'limit'"),
    "unknown key": (HEAD + "[limits]\nks = {at_mos = 1}\n", "no key 'at_mos' in limits.ks; did you mean 'at_most'"),
    "unknown key of the header": (
        '[policy]\nname = "p"\nversion = 1\nauthor = "x"\n[limits]\nks = {at_most = 1}\n', "no key 'author' in policy",
    ),
    "unknown measure": (HEAD + "[limits]\ndbrll = {at_most = 1}\n", "no measure 'dbrll'; did you mean 'dbrl'"),
    "a bare number": (HEAD + "[limits]\ndbrl = 0.02\n", "limits.dbrl: "),
    "text": (HEAD + '[limits]\ndbrl = {at_most = "0.02"}\n', "limits.dbrl.at_most: is not a number"),
    "true is no number": (HEAD + "[limits]\ndbrl = {at_most = true}\n", "limits.dbrl.at_most"),
    "not a number": (HEAD + "[limits]\ndbrl = {at_most = nan}\n", "limits.dbrl.at_most: .* finite number"),
    "infinite": (HEAD + "[limits]\npsnr = {at_least = inf}\n", "limits.psnr.at_least: .* finite number"),
    "no limit": (HEAD + '[limits]\ndbrl = {use = "high"}\n', "limits.dbrl: says no limit; give at_most"),
    "unknown use": (HEAD + '[limits]\ndbrl = {at_most = 1, use = "mean"}\n', "limits.dbrl.use: is none of the words"),
    "below the range": (HEAD + "[limits]\ndbrl = {at_most = -1}\n", r"dbrl.at_most: is outside .* it is 0 to 1"),
    "per cent": (HEAD + "[limits]\ndbrl = {at_most = 2}\n", r"dbrl.at_most: is outside .* it is 0 to 1"),
    "the wrong way round": (HEAD + "[limits]\ndbrl = {at_least = 0.5}\n", "low is better, so at_least is no prot"),
    "the wrong way up": (HEAD + "[limits]\nssim = {at_most = 0.5}\n", "high is better, so at_most is no prot"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_policy_is_refused_by_its_line_or_key(case: str, tmp_path: Path) -> None:
    text, expected = BAD[case]
    with pytest.raises(MicroveilError, match=expected) as refusal:
        mv.read_policy(written(tmp_path, text))
    assert str(refusal.value).startswith("policy: ")
    assert refusal.value.hint


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"no-such\.toml' cannot be read"):
        mv.read_policy(tmp_path / "no-such.toml")
    with pytest.raises(FileError, match="cannot be read"):
        mv.read_policy(tmp_path)
    secret = tmp_path / "data.csv"
    secret.write_text("a,b\n1,86420.97531\n")
    with pytest.raises(FileError, match="not valid TOML") as refusal:
        mv.read_policy(secret)
    assert "86420" not in str(refusal.value)
    assert refusal.value.__cause__ is None
    secret.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="not valid TOML"):
        mv.read_policy(secret)


@pytest.mark.parametrize("limit", ["dbrl=2", "worst_attack=-1", "classifier_auc=0.2", "dbrl=nan", "mixed_linkage=0.1"])
def test_limits_outside_of_the_range_are_refused_on_the_command_line(
    limit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "in.csv"
    pl.DataFrame(data(), schema=["a", "b", "c"][: data().shape[1]]).write_csv(source)
    for command in (["compare", source, "--methods", "noise"], ["recommend", source]):
        code, _, err = run(capsys, *command, "--limit", limit)
        assert code == 2
        name = limit.partition("=")[0]
        low, high = measuring.entries()[name].range
        said = "methods are compared on numbers" if name == "mixed_linkage" else f"it is {low:g} to {high:g}"
        assert said in err


def test_every_figure_that_is_printed_can_be_limited() -> None:
    for name, entry in measuring.entries().items():
        side = "at_least" if entry.better == "high" else "at_most"
        limits = {name: {side: max(entry.range[0], 0.0)}}
        assert read_policy({"policy": {"name": "p", "version": 1}, "limits": limits}).measures == (name,)
