"""`microveil mos` as a user runs it. The observers are simulated, and the files say so."""

from __future__ import annotations

import csv
import json
import tomllib
from pathlib import Path

import numpy as np
import observers
import polars as pl
import pytest
from command import run

import microveil as mv
from microveil.assessment import mos

SEED = 918273645546372819


@pytest.fixture
def stimuli(tmp_path: Path) -> Path:
    path = tmp_path / "stimuli.csv"
    rows = observers.stimuli()
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def rated(tmp_path: Path) -> tuple[Path, Path]:
    """A session and its ratings; three of twenty observers do not look."""
    shown = observers.session()
    mos.write(shown, tmp_path / "session.toml")
    return tmp_path / "session.toml", observers.write_ratings(
        tmp_path / "ratings.csv", observers.rated(shown, random=3)
    )


def test_a_session(stimuli: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "session.toml"
    asked = ["mos", "session", stimuli, "-o", out, "--observers", 12, "--seed", SEED, "--name", "try", "--simulated"]
    code, printed, err = run(capsys, *asked)
    assert (code, err) == (0, "")
    assert "14 stimuli and 2 hidden references for 12 simulated observers" in printed
    assert f"Wrote {out}" in printed
    made = mos.read_session(out)
    assert made == mos.make_session(observers.stimuli(), 12, seed=SEED, name="try", simulated=True)
    assert str(SEED) not in out.read_text() + printed
    code, printed, err = run(capsys, *asked, "--json")
    assert (code, printed) == (2, "")
    assert "exists already" in err
    code, printed, err = run(capsys, *asked, "--json", "--overwrite")
    assert (code, err) == (0, "")
    told = json.loads(printed)
    assert told["stimuli"][-1]["psnr"] == "Infinity"
    assert told["observers"] == made.to_dict()["observers"]
    assert run(capsys, "mos", "session", stimuli, "-o", out, "--observers", "anna,bo", "--overwrite")[0] == 0
    assert [observer.id for observer in mos.read_session(out).observers] == ["anna", "bo"]


def test_scores(rated: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, err = run(capsys, "mos", "score", *rated)
    assert (code, err) == (0, "")
    expected = mos.score(mos.read_ratings(rated[1], rated[0]))
    assert "Mean opinion scores (difference, 95 % intervals)" in printed
    assert "a-reference (hidden reference)" in printed
    assert f"Measured on {expected.observers} simulated observers, not people." in printed
    for name, reason in expected.rejected.items():
        assert f"Rejected: {name} ({reason})" in printed
    code, printed, err = run(capsys, "mos", "score", *rated, "--json")
    assert (code, err) == (0, "")
    assert json.loads(printed) == json.loads(json.dumps(expected.to_dict()))
    everybody = json.loads(run(capsys, "mos", "score", *rated, "--json", "--no-screening", "--kind", "processed")[1])
    assert (everybody["observers"], everybody["kind"], everybody["rejected"]) == (20, "processed", {})


def test_a_link_and_what_it_is_for(
    rated: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "link.toml"
    code, printed, err = run(capsys, "mos", "fit", *rated, "-o", out)
    assert (code, err) == (0, "")
    link = mos.read_link(out)
    assert link == mos.fit_link(mos.score(mos.read_ratings(rated[1], rated[0])))
    assert "What it says of other releases is predicted, not measured." in printed
    assert "Note: the observers were simulated: it says nothing about people" in printed
    assert f"R² {link.r2:.3f}" in printed
    code, printed, err = run(capsys, "mos", "fit", *rated, "-o", out, "--predictor", "psnr", "--json", "--overwrite")
    told = json.loads(printed)
    assert (code, err) == (0, "")
    assert told["link"] == tomllib.loads(out.read_text())["link"]
    assert told["link"]["predictor"] == "psnr"
    assert told["caveats"] == ["the observers were simulated: it says nothing about people"]
    assert told["scores"]["observers"] == told["link"]["observers"]

    rng = np.random.default_rng(1)
    data = pl.DataFrame(rng.gamma(1.5, size=(300, 5)) @ rng.normal(size=(5, 5)), schema=list("abcde"))
    source, released, recipe = tmp_path / "data.csv", tmp_path / "released.csv", tmp_path / "recipe.toml"
    data.write_csv(source)
    mos.write(link, out)
    asked = ["protect", source, "-o", released, "--method", "component_removal", "--set", "utility=mos"]
    code, printed, err = run(capsys, *asked, "--set", f"link={out}", "--set", "threshold=60", "--save-recipe", recipe)
    assert (code, err) == (0, "")
    assert "not measured: nobody has rated this release" in printed
    expected = mv.protect(data, "component_removal", utility="mos", link=link, threshold=60)
    assert np.abs(pl.read_csv(released).to_numpy() - expected.data.to_numpy()).max() < 1e-9
    saved = tomllib.loads(recipe.read_text())["parameters"]
    assert np.array_equal(mv.protect(data, "component_removal", **saved).data.to_numpy(), expected.data.to_numpy())

    code, printed, err = run(capsys, "mos", "predict", source, released, "--link", out)
    assert (code, err) == (0, "")
    assert printed.startswith("mos_predicted ")
    assert "not measured: nobody was asked" in printed
    assert "simulated" in printed
    code, printed, err = run(capsys, "mos", "predict", source, released, "--link", out, "--json")
    told = json.loads(printed)["measures"]["mos_predicted"]
    assert {"value", "low", "high", "chance", "better", "range", "meaning"} <= told.keys()
    assert told["value"] == pytest.approx(mos.predict(data, expected.data, link).value, abs=1e-6)


def test_bad_input_ends_with_two_and_writes_nothing(
    rated: tuple[Path, Path], stimuli: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session, ratings = rated
    broken = tmp_path / "broken.csv"
    broken.write_text(ratings.read_text().replace("s3", "s99"))
    lacking = tmp_path / "lacking.csv"
    lacking.write_text("id,source,removed,ssim\nx,y,1,0.5\n")
    out = tmp_path / "out.toml"
    cases = [
        (["score", session, broken], "stimulus 's99' is not in the session"),
        (["score", ratings, session], "ratings.csv' is not valid TOML"),
        (["score", session, ratings, "--kind", "ratio"], "kind: 'ratio' is unknown"),
        (["fit", session, ratings, "-o", out, "--predictor", "pil"], "predictor: 'pil' is unknown"),
        (["fit", session, broken, "-o", out], "stimulus 's99' is not in the session"),
        (["fit", session, ratings, "-o", session], "is one of the inputs"),
        (["session", lacking, "-o", out, "--observers", 5], "'psnr' is missing in stimuli 1 ('x')"),
        (["session", stimuli, "-o", out, "--observers", 0], "observers: "),
        (["session", stimuli, "-o", out, "--observers", "a,a"], "observer 'a' is there twice"),
        (["session", stimuli, "-o", out], "Missing option '--observers'"),
        (["session", stimuli, "-o", stimuli, "--observers", 5], "is one of the inputs"),
        (["predict", stimuli, stimuli, "--link", session], "is no link file"),
        (["guess"], "No such command 'guess'"),
    ]
    before = sorted(tmp_path.iterdir()), session.read_text(), stimuli.read_text()
    for arguments, message in cases:
        code, printed, err = run(capsys, "mos", *arguments)
        assert (code, printed) == (2, ""), arguments
        assert err.count("\n") == 1
        assert message in err
    assert (sorted(tmp_path.iterdir()), session.read_text(), stimuli.read_text()) == before


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, _ = run(capsys, "mos", "--help")
    assert code == 0
    for name in ("session", "score", "fit", "predict"):
        assert f"\n  {name} " in printed
    assert "mos" in run(capsys, "--help")[1]
