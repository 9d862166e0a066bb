"""The release that the tests of reports share, with both of its reports."""

from __future__ import annotations

import pytest
from reported import SEED, Case, people, strictly

import microveil as mv
from microveil.assess import assess_release


@pytest.fixture(scope="session")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder, data = tmp_path_factory.mktemp("reports"), people()
    release = mv.protect(data, "pca", seed=SEED, components=2)
    policy = {
        "policy": {"name": "house limits", "version": 1},
        "limits": {"dbrl": {"at_most": 0.9}, "pil": {"at_most": 0.0}},
    }
    ids = ["default", "outlier_risk", "il1s", "norm_max_row"]
    found = assess_release(release, measures=ids, policy=policy)
    methods = ["noise", "ipso", ("score_mix", {"correlation": 0.9})]
    study = mv.compare(data, methods, repeats=2, measures=["dbrl", "pil"], seed=1, workers=1)
    html, told = {}, {}
    for audience in ("internal", "public"):
        page = folder / f"{audience}.html"
        release.report(page, audience, assessment=found, study=study)
        html[audience] = page.read_text(encoding="utf-8")
        told[audience] = strictly(page.with_suffix(".json"))
    return Case(data, release, found, study, html, told, folder)
