"""Roles: which columns are protected, which are known, which only pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from microveil.core.errors import DataError, ParameterError, did_you_mean
from microveil.intake.formula import NO_TERMS, Factor, Terms, is_formula, parse_formula

ColumnId = str | int
Choice = ColumnId | Sequence[ColumnId] | None


@dataclass(frozen=True)
class Roles:
    """Column names by role; a column has one role at most. What is regressed on can have products of columns too."""

    confidential: tuple[str, ...]
    public: Terms = NO_TERMS
    strata: tuple[str, ...] = ()
    weight: str | None = None
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Columns whose values group the records, by the parameter of the method that names them."""

    regressors: Mapping[str, Terms] = field(default_factory=dict)
    """What else is regressed on, by the parameter of the method that names it."""

    labels: tuple[str, ...] = ()
    """Confidential columns of labels; `confidential` are those of numbers."""

    @property
    def protected(self) -> tuple[str, ...]:
        """All columns that are perturbed."""
        return (*self.confidential, *self.labels)

    def among(self, names: Collection[str]) -> Roles:
        """The same, with only these of the protected columns."""
        confidential, labels = (tuple(n for n in own if n in names) for own in (self.confidential, self.labels))
        return replace(self, confidential=confidential, labels=labels)

    @property
    def shown(self) -> tuple[str, ...]:
        """Columns that the method uses and releases as they are."""
        used = [*self.strata, *(name for names in self.groups.values() for name in names)]
        used += [name for terms in (self.public, *self.regressors.values()) for name in terms.columns]
        return tuple(dict.fromkeys([*used, *([] if self.weight is None else [self.weight])]))


def resolve_roles(
    numeric: Mapping[str, bool],
    *,
    confidential: Choice,
    public: Choice,
    strata: Choice,
    weight: ColumnId | None,
    groups: Mapping[str, Choice] = MappingProxyType({}),
    regressors: Mapping[str, Choice] = MappingProxyType({}),
    labels: Collection[str] = (),
    taken_already: Collection[str] = (),
) -> Roles:
    """Check the roles against the columns (name -> is it numeric) and fill in the default.

    By default every numeric column without another role is confidential, and so is every column of `labels`, which are
    those that can be protected, but none of those that are `taken_already`. Columns that `groups` and `regressors`
    name, by the parameters of a method, may also be public, or in several of them.
    """
    terms = regressed(numeric, "public", public)
    grouping = {role: named(numeric, role, choice) for role, choice in groups.items()}
    further = {role: regressed(numeric, role, choice) for role, choice in regressors.items()}
    chosen = {
        "public": terms.columns,
        "strata": named(numeric, "strata", strata),
        "weight": named(numeric, "weight", weight),
    }
    if len(chosen["weight"]) > 1:
        raise ParameterError("weight: takes one column", "name the column that holds the survey weights")
    taken = [name for names in chosen.values() for name in names]
    _check_one_role(taken)
    by_method = [*grouping.values(), *(others.columns for others in further.values())]
    taken = list(dict.fromkeys([*taken, *(name for names in by_method for name in names)]))
    if confidential is None:
        free = [name for name in numeric if name not in taken and name not in taken_already]
        protect = tuple(name for name in free if numeric[name] or name in labels)
        if not protect:
            raise DataError(
                "confidential: there is no column to protect",
                "check how the file was read; identifiers, free text and constant columns are none",
            )
    else:
        protect = named(numeric, "confidential", confidential)
        if not protect:
            raise ParameterError("confidential: no column named", "name at least one, or leave it out for all numeric")
    _check_one_role([*taken, *protect])
    of_labels = tuple(name for name in protect if name in labels)
    of_numbers = tuple(name for name in protect if name not in labels)
    for role, names in (("confidential", of_numbers), ("weight", chosen["weight"])):
        for name in names:
            if not numeric[name]:
                raise DataError(
                    f"{role}: column '{name}' is not numeric", "leave it out, or turn its cells into numbers first"
                )
    weights = next(iter(chosen["weight"]), None)
    return Roles(of_numbers, terms, chosen["strata"], weights, grouping, further, of_labels)


def regressed(numeric: Mapping[str, bool], role: str, choice: Choice) -> Terms:
    """What a role brings into the regression: its columns one by one, or what its formula makes of them."""
    if not is_formula(choice):
        names = named(numeric, role, choice)
        _check_one_role(names)
        return Terms(tuple((Factor(name, labels=not numeric[name]),) for name in names))
    place = {name: number for number, name in enumerate(numeric)}
    products = []
    for product in parse_formula(choice, role):
        found = set()
        for factor in product:
            (name,) = named(numeric, role, factor.column)
            found.add(Factor(name, factor.labels or not numeric[name]))
        products.append(tuple(sorted(found, key=lambda factor: (place[factor.column], factor.labels))))
    return Terms(tuple(dict.fromkeys(products)), choice.strip())


def named(columns: Collection[str], role: str, choice: Choice) -> tuple[str, ...]:
    """The columns of a role as names; numbers count columns from 0."""
    if choice is None:
        return ()
    if not isinstance(choice, str | int | np.integer | list | tuple):
        # A Series or an array is the column itself, and its cells must not end up in a message.
        raise ParameterError(f"{role}: takes the names of columns, not {type(choice).__name__}", "give names")
    wanted = [choice] if isinstance(choice, str | int | np.integer) else list(choice)
    names, known, found = list(columns), frozenset(columns), []
    for column in wanted:
        if not isinstance(column, str | int | np.integer):
            raise ParameterError(f"{role}: a column cannot be {type(column).__name__}", "give names or numbers")
        if str(column) in known and not isinstance(column, bool):
            found.append(str(column))  # 3 is the column called 3, wherever it is
        elif isinstance(column, int | np.integer) and not isinstance(column, bool) and 0 <= column < len(names):
            found.append(names[int(column)])
        else:
            # A year that was read as a number, or a name without the spaces it has in the file.
            same = [name for name in names if name.strip() == str(column).strip()]
            if len(same) != 1 or isinstance(column, bool):
                raise ParameterError(f"{role}: there is no column '{column}'", did_you_mean(str(column), names))
            found.append(same[0])
    return tuple(found)


def _check_one_role(names: Sequence[str]) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise ParameterError(f"column '{name}' is named twice", "give each column one role, once")
