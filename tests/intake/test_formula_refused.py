"""Formulas that are refused: what is no column, and what would give a record away. Nothing is ever evaluated."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from formula_samples import FIRMS, MONEY, firms, matrix_of, terms_of
from hypothesis import given
from hypothesis import strategies as st

import microveil as mv
from microveil.errors import DataError, ParameterError
from microveil.intake import model_matrix as module
from microveil.intake.formula import MOST_CROSSED, MOST_TERMS
from microveil.intake.roles import regressed

LETTERS = st.sampled_from([*"xyC0129 ~+-*:^()[]{}`'\"\\%|./,_=\n\té²\u202e", "region", "C(", "(x+y)^"])

# --- What is refused

COMPUTED = "would have to be computed, .*add computed columns to the data first"
INTERCEPT = "the intercept cannot be taken out of a formula, as means are always kept"
UNREADABLE = "the formula '.*' cannot be read"
NO_MEANING = "has no meaning in this formula"

REFUSED = {
    "~ __import__('os').system('touch {canary}')": r"'__import__\('os'\)' would have to be computed",
    "~ open('{canary}', 'w')": COMPUTED,
    "~ {open('{canary}', 'w')}": COMPUTED,
    "~ C(open('{canary}', 'w'))": COMPUTED,
    "~ C(x, open('{canary}', 'w'))": COMPUTED,
    "~ `open('{canary}', 'w')`": "there is no column",
    "~ C(`open('{canary}', 'w')`)": "there is no column",
    "~ x[open('{canary}', 'w')]": COMPUTED,
    "~ (lambda: open('{canary}', 'w'))()": COMPUTED,
    "~ lambda x: x": UNREADABLE,
    "~ (lambda: 1)()": "there is no column 'lambda'",
    "~ x.__class__": "there is no column 'x.__class__'",
    "~ x.fillna(0)": COMPUTED,
    "~ log(x)": r"'log\(x\)' .*add computed columns to the data first",
    "~ I(x + 1)": COMPUTED,
    "~ np.log(x)": COMPUTED,
    "~ center(x) + scale(y)": COMPUTED,
    "~ bs(x, df=3)": COMPUTED,
    "~ poly(x, 2)": COMPUTED,
    "~ Q('x')": COMPUTED,
    "~ {x + 1}": COMPUTED,
    "~ {C(code)}": COMPUTED,
    "~ C(code, contr.sum)": COMPUTED,
    "~ C(C(code))": COMPUTED,
    "~ C(code)[0]": COMPUTED,
    "~ C(code)(x)": COMPUTED,
    "~ C(`code` + x)": COMPUTED,
    "~ C()": COMPUTED,
    "~ C(1)": COMPUTED,
    "~ C(code).x": UNREADABLE,
    "~ 'x'": "'x' in the formula is no column",
    '~ "x"': '"x" in the formula is no column',
    "~ 2 * x": "2 in the formula is no column; a column whose name is a number goes in backticks",
    "~ 1.5 + x": "1.5 in the formula is no column",
    "~ .": r"\. in the formula is no column",
    "~ 0 + x": INTERCEPT,
    "~ x + 0": INTERCEPT,
    "~ x - 1": INTERCEPT,
    "~ -1 + x": INTERCEPT,
    "~ x * y - (1 + x)": INTERCEPT,
    "~": "the formula names no column",
    "~ 1": "the formula names no column",
    "~ ``": "the formula names no column",
    "~ ()": "the formula names no column",
    "~ x - x": "no term of 'x' is left",
    "~ x * y - y - x:y": "no term of 'y' is left",
    "~ x - y": "takes out 'y', which is not in it",
    "~ x - x:y": "takes out 'x:y', which is not in it",
    "~ -x": "takes out 'x', which is not in it",
    "~ x^2": "a column times itself is the column in a formula, not its square; add squares to the data",
    "~ x:x": "a column times itself",
    "~ x*y:x": "a column times itself",
    "~ (x + y)^99": "a power in a formula is a number from 1 to 9",
    "~ (x + y)^99999999999999999999": "a power in a formula",
    "~ (x + y)^0": "a power in a formula",
    "~ (x + y)^-1": NO_MEANING,
    "~ (x + y)^y": "a power in a formula",
    "~ (x + y)^`2`": "a power in a formula",
    "~ (x + y)^2^9": "a power in a formula",
    "~ x | y": r"'\|' has no meaning",
    "~ x ~ y": "'~' has no meaning",
    "~ x / y": "'/' has no meaning",
    "~ x %in% y": "'in' has no meaning",
    "~ [x ~ y]": NO_MEANING,
    "~ x +- y": r"'\+-' has no meaning",
    "~ x = y": NO_MEANING,
    "~ x; y": NO_MEANING,
    "~ x\\": NO_MEANING,
    "~ \x1b[31mx": "'\ufffd' has no meaning",
    "~ \u202ex": "'\ufffd' has no meaning",
    "~ x y": UNREADABLE,
    "~ x +": UNREADABLE,
    "~ (x": UNREADABLE,
    "~ x)": UNREADABLE,
    "~ `x": UNREADABLE,
    "~ {": UNREADABLE,
    "~ %": UNREADABLE,
    "~ x\ny": "the formula '~ x\ufffdy' cannot be read",
    "~ x²": "there is no column 'x²'",
    "~ х": "there is no column 'х'; there are: region",  # noqa: RUF001 - a Cyrillic letter that looks like x
    "~ rgion * size": "there is no column 'rgion'; did you mean 'region'?",
    "~ `floor  space`": "did you mean 'floor space'?",
    "~ floor space": UNREADABLE,
    "~ " + "x + " * 300 + "x": "more than 500 names and signs",
    "~ " + "x" * 20_000: "more than 10000 characters",
    "~ " + "-(" * 150 + "x" + ")" * 150: "takes out 'x'",
    "~ " + "(" * 300 + "x": UNREADABLE,
    "~ " + "(" * 3_000: "more than 500 names and signs",
}


@pytest.fixture(scope="module", autouse=True)
def everything_loaded() -> None:
    """Modules that are loaded late, as loading one is evaluating it."""
    mv.protect(FIRMS, confidential=MONEY, public="~ region", seed=1)


@contextmanager
def nothing_evaluated() -> Iterator[None]:
    """Within it, whatever evaluates a text or makes one ready to be evaluated fails."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("something was evaluated")

    with pytest.MonkeyPatch.context() as patch:
        for name in ("eval", "exec", "compile"):
            patch.setattr(builtins, name, refuse)
        yield


@pytest.mark.parametrize("formula", REFUSED)
def test_what_is_no_column_is_refused_and_never_evaluated(formula: str, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    text = formula.replace("{canary}", str(canary))
    with pytest.raises(ParameterError, match=REFUSED[formula]) as caught, nothing_evaluated():
        mv.protect(FIRMS, confidential=MONEY, public=text)
    assert not canary.exists()
    assert len(str(caught.value)) < 400
    assert str(caught.value).isprintable()


def test_a_formula_that_is_in_order_is_not_evaluated_either() -> None:
    with nothing_evaluated():
        found = matrix_of(FIRMS, "~ region * size + C(code):`floor space`")
    assert len(found.columns) == 14


def test_terms_without_end_are_refused() -> None:
    many = pd.DataFrame(np.eye(40), columns=[f"v{j}" for j in range(40)])
    everything = " + ".join(many)
    assert len(terms_of(many, f"~ {everything}").products) == 40
    with pytest.raises(ParameterError, match=f"more than {MOST_TERMS} terms"):
        terms_of(many, f"~ ({everything})^2")
    with pytest.raises(ParameterError, match=f"more than {MOST_TERMS} terms"):
        terms_of(many, f"~ ({everything})^9")
    with pytest.raises(ParameterError, match=f"more than {MOST_CROSSED} columns crossed"):
        terms_of(many, f"~ {' * '.join(many.columns[:7])}")
    with pytest.raises(ParameterError, match=f"more than {MOST_CROSSED} columns crossed"):
        terms_of(many, f"~ {':'.join(many.columns[:7])}")


@given(st.one_of(st.lists(LETTERS, max_size=25).map("".join), st.text(max_size=40)))
def test_any_text_is_a_formula_of_known_columns_or_refused(text: str) -> None:
    numeric = {"x": True, "y": True, "region": False, "floor space": True, "C": True, "0": True}
    try:
        found = regressed(numeric, "public", f"~{text}")
    except ParameterError as error:
        assert str(error).startswith("public: ")  # noqa: PT017 - it need not be refused
    else:
        assert found.columns
        assert set(found.columns) <= set(numeric)
        assert len(set(found.products)) == len(found.products)


def test_a_confidential_column_in_the_formula_is_refused() -> None:
    with pytest.raises(ParameterError, match="column 'wages' is named twice; give each column one role"):
        mv.protect(FIRMS, confidential=MONEY, public="~ x * wages")
    with pytest.raises(ParameterError, match="column 'region' is named twice"):
        mv.protect(FIRMS, confidential=MONEY, public="~ x * region", strata="region")
    with pytest.raises(ParameterError, match="column 'x' is named twice"):
        mv.protect(FIRMS, confidential=MONEY, public=["x", "x"])
    found = mv.protect(FIRMS, "pca", public="~ region:x", keep="rest").dose
    assert list(found) == ["code", "y", "floor space", *MONEY]


def test_other_roles_take_no_formula() -> None:
    with pytest.raises(ParameterError, match="strata: there is no column '~ region'"):
        mv.protect(FIRMS, confidential=MONEY, strata="~ region")


@pytest.mark.parametrize("formula", ["~ x", "~ region:x", "~ C(x)", "~ x:y"])
def test_missing_and_infinite_cells_are_refused(formula: str) -> None:
    holed, endless = FIRMS.copy(), FIRMS.copy()
    holed.loc[3, "x"], endless.loc[[3, 5], "x"] = np.nan, np.inf
    with pytest.raises(DataError, match="public: column 'x' has missing cells"):
        mv.protect(holed, confidential=MONEY, public=formula)
    with pytest.raises(DataError, match=r"public: column 'x' has (2 infinite cells|.* different labels)"):
        mv.protect(endless, confidential=MONEY, public=formula)


def test_a_product_that_cannot_be_squared_is_refused() -> None:
    for unit in (1e140, 1e-140):
        data = FIRMS.assign(x=FIRMS["x"] * unit, y=FIRMS["y"] * unit)
        with pytest.raises(DataError, match="public: column 'x:y' is too large or too small in its unit"):
            mv.protect(data, confidential=MONEY, public="~ x:y")


# --- Records that would be given away


def crossed_alone() -> pd.DataFrame:
    """No label is rare, but one record has a combination of its own."""
    few = FIRMS[(FIRMS["region"] != "west") | (FIRMS["size"] != "small")].reset_index(drop=True)
    few.loc[few.index[few["region"] == "west"][0], "size"] = "small"
    return few


@pytest.mark.parametrize("method", ["pca", "veil"])
def test_a_record_alone_in_a_combination_of_labels_has_no_column_of_its_own(method: str) -> None:
    data = crossed_alone()
    for formula in ("~ region * size", "~ (region + size + x)^2"):
        release = mv.protect(data, method, confidential=MONEY, public=formula, seed=1)
        assert any("groups by public 'region:size' have too few records" in said for said in release.warnings)
        alone = (data["region"] == "west") & (data["size"] == "small")
        assert alone.sum() == 1
        assert not np.isclose(release.data.loc[alone, MONEY], data.loc[alone, MONEY], rtol=1e-3).all()


@pytest.mark.parametrize("formula", ["~ region * size", "~ (region + size + x)^2"])
def test_its_leverage_alone_would_give_it_away(formula: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FEWEST_RECORDS", 1)
    with pytest.raises(DataError, match="public: 1 records are alone in what the public columns say"):
        mv.protect(crossed_alone(), "pca", confidential=MONEY, public=formula)


def test_a_record_alone_in_a_combination_within_a_stratum_is_refused() -> None:
    data = pd.concat([FIRMS.assign(s="u"), crossed_alone().assign(s="v")], ignore_index=True)
    with pytest.raises(DataError, match=r"in a stratum of \d+ rows: public: 1 records are alone"):
        mv.protect(data, "pca", confidential=MONEY, public="~ region * size", strata="s")


def test_a_slope_of_its_own_needs_a_row_more() -> None:
    west = FIRMS.index[FIRMS["region"] == "west"]
    data = FIRMS.drop(west[10:])
    assert not matrix_of(data, "~ region + x").rare
    assert matrix_of(data, "~ region * x").rare == {"region": 1}
    assert not matrix_of(FIRMS.drop(west[11:]), "~ region * x").rare


def test_too_many_combinations_of_labels_are_refused() -> None:
    data = firms(3_000)
    numbers = np.arange(3_000)
    data = data.assign(town=[f"t{j % 20}" for j in numbers], trade=[f"b{j // 20 % 15}" for j in numbers])
    mv.protect(data, "pca", confidential=MONEY, public="~ town + trade", seed=1)
    with pytest.raises(DataError, match="'town:trade' has 300 different combinations of labels, more than 200"):
        mv.protect(data, "pca", confidential=MONEY, public="~ town * trade")
    with pytest.raises(DataError, match="column 'x' has 3000 different labels, more than 200"):
        mv.protect(data, "pca", confidential=MONEY, public="~ C(x)")


def test_too_few_rows_for_the_terms_are_refused() -> None:
    data = FIRMS[["x", "y", "floor space", *MONEY]][:10]
    with pytest.raises(DataError, match="public: 9 rows are too few for these columns, at least 10 are needed"):
        mv.protect(data[:9], "pca", confidential=MONEY, public="~ x * y * `floor space`")
