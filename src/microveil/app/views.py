"""What pages show of a release: the risk as a light, pictures, and the lines that make it again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from microveil.app.cases import Candidate, Case, Decisions, reading_key
from microveil.catalogue import measure_details
from microveil.io.files.formats import ReadOptions
from microveil.report import plots
from microveil.report.command_line import protect_words
from microveil.studies.recommend import LIMIT

GREEN, AMBER = LIMIT["worst_attack"], 0.2
"""What the worst attack may gain over chance for a green light (the limit of `recommend`), and for a yellow one."""

STORY = 330
"""Signs of the story of an attack."""

PICTURES = ("histograms", "correlations", "group_means", "two_way")
REPORT, PUBLIC = "report-internal.html", "report-public.html"
RECIPE, RULES, POLICY = "recipe.toml", "rules.toml", "policy.toml"


def light(run: Candidate) -> dict[str, Any]:
    """The risk of a release: the attack that gains most, its figure, chance and story, and a colour."""
    attacks = [attack for attack in run.figures.get("worst_attacks", []) if isinstance(attack.get("chance"), float)]
    if not attacks:
        return {"colour": "none", "word": "none", "attacks": [], "gain": None}
    worst = attacks[0]
    details = measure_details(worst["measure"])
    colour = "green" if worst["gain"] <= GREEN else "amber" if worst["gain"] <= AMBER else "red"
    luck = worst["low"] <= worst["chance"]
    word = "luck" if colour == "red" and luck else colour  # as in the reports: what luck does as well is no finding
    return {
        "colour": "amber" if word == "luck" else colour,
        "word": word,
        "gain": worst["gain"],
        "attack": worst["measure"].replace("_", " "),
        "meaning": run.figures["measures"].get(worst["measure"], {}).get("meaning") or details["summary"],
        "story": _story(details["story"]),
        "luck": luck,
        **{name: worst[name] for name in ("value", "low", "high", "chance")},
        "attacks": [{**attack, "meaning": measure_details(attack["measure"])["summary"]} for attack in attacks],
    }


def _story(text: str) -> str:
    """What an attack does, in some sentences: from the paragraph after the first, which names its paper."""
    parts = [part for part in text.split("\n\n") if part.strip()] or [""]
    story = ""
    for sentence in " ".join(parts[min(1, len(parts) - 1)].split()).split(". "):
        if story and (len(story) + len(sentence) > STORY or sentence.endswith(":")):
            break
        story += f"{sentence.rstrip('.')}. "
    return story.strip()


def usefulness(run: Candidate) -> dict[str, float]:
    """What the release has lost, in three figures."""
    measures = run.figures.get("measures", {})
    wanted = ("ks", "correlation_difference", "pil")
    return {name: measures[name]["value"] for name in wanted if isinstance(measures.get(name, {}).get("value"), float)}


def pictures(run: Candidate) -> list[dict[str, Any]]:
    """Pictures of before and after, in the words of Vega-Lite."""
    found = run.figures.get("plots", {})
    return [
        {"name": name, "title": one["title"], "description": one["description"], "spec": plots.spec(name, one["rows"])}
        for name in PICTURES
        if (one := found.get(name, {})).get("rows")
    ]


def rule_sentences(dictionary: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """The rules that were found: by a key, the sentence and what becomes of it."""
    sentences: dict[str, tuple[str, str]] = {}
    for number, rule in enumerate(dictionary.get("sums", ())):
        weights = rule.get("coefficients") or [1.0] * len(rule["parts"])
        terms = [f"{_sign(w, first)}{n}" for first, (w, n) in enumerate(zip(weights, rule["parts"], strict=True))]
        constant = f" + {rule['constant']:g}" if rule.get("constant") else ""
        broken = f"does not hold in {rule['exceptions']} rows: only counted" if rule.get("exceptions") else "kept"
        sentences[f"sums:{number}"] = (f"{rule['total']} = {''.join(terms)}{constant}", broken)
    for number, rule in enumerate(dictionary.get("ratios", ())):
        sentences[f"ratios:{number}"] = (f"{rule['ratio']} = {rule['numerator']} / {rule['denominator']}", "kept")
    for number, rule in enumerate(dictionary.get("orders", ())):
        sentences[f"orders:{number}"] = (f"{rule['lower']} ≤ {rule['upper']}", "kept, if that costs little")
    for number, rule in enumerate(dictionary.get("impossible", ())):
        pair = " and ".join(f"{c} = {label}" for c, label in zip(rule["columns"], rule["labels"], strict=True))
        sentences[f"impossible:{number}"] = (f"never together: {pair}", "kept")
    for name, entry in dictionary.get("columns", {}).items():
        if entry.get("follows_from"):
            until = f" and {entry['until']}" if entry.get("until") else ""
            sentences[f"columns:{name}"] = (f"{name} follows from {entry['follows_from']}{until}", "computed anew")
    return sentences


def _sign(weight: float, place: int) -> str:
    """What stands before a term of a sum, at this place among them."""
    sign = ("-" if weight < 0 else "") if place == 0 else (" - " if weight < 0 else " + ")
    return sign if abs(weight) == 1 else f"{sign}{abs(weight):g} * "


def dictionary_without(dictionary: Mapping[str, Any], off: tuple[str, ...]) -> dict[str, Any]:
    """The dictionary of the columns without the rules that were switched off."""
    kept: dict[str, Any] = {
        part: [rule for number, rule in enumerate(dictionary.get(part, ())) if f"{part}:{number}" not in off]
        for part in ("sums", "ratios", "orders", "impossible")
    }
    follows = ("follows_from", "part", "until", "exceptions")
    columns = {
        name: {k: v for k, v in entry.items() if f"columns:{name}" not in off or k not in follows}
        for name, entry in dictionary.get("columns", {}).items()
    }
    return {
        "columns": {name: entry for name, entry in columns.items() if entry},
        **{k: v for k, v in kept.items() if v},
    }


def python_code(case: Case, run: Candidate) -> str:
    """The lines of Python that make the same release."""
    given, choices = _said(case, run), run.choices
    arguments = [repr(case.name), repr(run.output), repr(choices.method)]
    arguments += [f"{name}={value!r}" for name, value in {**given, **choices.params}.items()]
    lines = "".join(f"    {argument},\n" for argument in arguments)
    return f"import microveil as mv\n\nmv.protect_file(\n{lines})\n"


def shell_command(case: Case, run: Candidate) -> str:
    """The command that makes the same release."""
    given, choices = _said(case, run), run.choices
    given["rules"] = given.get("rules", "infer") or "none"
    words = protect_words(case.name, run.output, {"method": choices.method, "parameters": choices.params, **given})
    reading = ReadOptions(**choices.reading).words
    policy = ["--policy", POLICY] if choices.limit is not None else []
    return shlex.join([*words, *reading, *policy, "--seed", str(choices.seed)])


def table_commands(case: Case) -> list[str]:
    """The commands that make the same table, and attack it in the same way."""
    asked = (case.grid or {})["asked"]
    shared: list[str] = []
    for name, value in asked["options"].items():
        if value is not None:
            words = ",".join(value) if isinstance(value, list) else f"{value:g}" if isinstance(value, float) else value
            shared += [f"--{name.replace('_', '-')}", str(words)]
    seed = ["--seed", str(asked["seed"])] if asked["fill"] else []
    made = ["microveil", "table", "fill" if asked["fill"] else "suppress", case.name, "-o", asked["output"]]
    audit = ["microveil", "table", "audit", case.name, "--report", asked["report"]]
    return [
        shlex.join([*made, *shared, *seed]),
        shlex.join([*audit, *shared, *(["--whole"] if asked["whole"] else [])]),
    ]


def _said(case: Case, run: Candidate) -> dict[str, Any]:
    """The options that were given, by name."""
    given = run.choices.options(case.described[reading_key(run.choices.reading)])
    del given["method"]
    given |= rules_option(run.choices)
    return given | ({"policy": POLICY} if run.choices.limit is not None else {})


def rules_option(choices: Decisions) -> dict[str, Any]:
    """The option `rules`, where it is not the default."""
    return {} if not choices.rules_off else {"rules": None} if choices.rules_off == ("all",) else {"rules": RULES}
