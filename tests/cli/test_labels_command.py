"""Labels on the command line: masked, then the numbers, measured, and held against a policy."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from command import run
from labels import random_codes

KEYS = "sex,status,job,size"


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    codes = random_codes(1, 300)
    table = pd.DataFrame(codes[:, :4], columns=KEYS.split(",")).assign(wage=(codes @ [1.5, 2, 3, 4, 5]) + range(300))
    table.to_csv(tmp_path / "survey.csv", index=False)
    return tmp_path / "survey.csv"


def test_keys_are_made_anonymous_and_measured(survey: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = survey.with_name("out.csv")
    options = ["--method", "suppress_cells", "--confidential", KEYS, "--set", "k=4", "--set", 'importance={"sex": 1}']
    assert run(capsys, "protect", survey, "-o", out, *options)[0] == 0
    measured = run(capsys, "assess", survey, out, "--keys", KEYS, "--measures", "k_anonymity,sample_uniques", "--json")
    found = json.loads(measured[1])["measures"]
    assert found["k_anonymity"]["value"] >= 4
    assert found["sample_uniques"]["value"] == 0
    before, after = pd.read_csv(survey), pd.read_csv(out)
    assert after[KEYS.split(",")].isna().to_numpy().any()
    assert (after["wage"] == before["wage"]).all()
    last = survey.with_name("last.csv")
    assert run(capsys, "protect", out, "-o", last, "--method", "noise", "--confidential", "wage")[0] == 0
    final = pd.read_csv(last)
    assert (final["wage"] != before["wage"]).any()
    pd.testing.assert_frame_equal(final.drop(columns="wage"), after.drop(columns="wage"))


def test_a_policy_holds_for_labels(survey: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy, out = survey.with_name("policy.toml"), survey.with_name("out.csv")
    policy.write_text('[policy]\nname = "labels"\nversion = 1\n[limits]\nk_anonymity = {at_least = 5}\n')
    options = ["--method", "suppress_cells", "--confidential", KEYS, "--policy", policy]
    assert run(capsys, "protect", survey, "-o", out, *options, "--set", "k=3")[0] == 1
    assert not out.exists()
    assert run(capsys, "protect", survey, "-o", out, *options, "--set", "k=5")[0] == 0


@pytest.mark.parametrize("method", [["pram", "--confidential", KEYS], ["recode", "--set", 'top={"wage": 3}']])
def test_rows_elsewhere_are_refused_by_name(
    survey: Path, method: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(capsys, "protect", survey, "-o", survey.with_name("o.csv"), "--engine", "stream", "--method", *method)
    assert done[0] == 2
    assert method[0] in done[2]
