"""A method is a preset: which decomposition, which perturbations, which restoration. No algorithm of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import Field, field_validator

from microveil.core.errors import ParameterError, did_you_mean, one_of
from microveil.core.parameters import Parameter, Step, built, parameters_of
from microveil.decompose import Clustered, Components, Decomposition, Identity, Selection
from microveil.options import Protect
from microveil.perturb import LABEL_PERTURBATIONS, PERTURBATIONS, RESERVED, LabelPerturbation, Perturbation
from microveil.restore import ExactMoments, Marginals, Root

Kind = Literal["masked", "hybrid", "synthetic"]

NOT_ORIGINAL = "free, smoothed or stratified"
"""The marginals of a method whose covariances are exact: values in another order cannot have these."""

OTHER_ARGUMENTS = tuple(name for name in Protect.model_fields if name != "method")
"""What `protect` takes in addition to the parameters of a method: a misspelt parameter may be one of these."""


class PerturbChoice(Step):
    """Which perturbation the components get."""

    perturb: str = Field(
        default="swap",
        description="what happens to a chosen component",
        json_schema_extra={"allowed": ", ".join(PERTURBATIONS)},
    )

    @field_validator("perturb")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in PERTURBATIONS and value not in RESERVED:
            raise ValueError(f"no perturbation '{value}', {did_you_mean(value, PERTURBATIONS)}")
        return value


@dataclass(frozen=True, repr=False)
class Plan:
    """A method with its parameters checked: everything an engine needs."""

    method: str
    decompose: Decomposition
    select: Selection
    perturb: Perturbation
    exact: bool
    rounded: bool
    """Are exact moments brought to a grid?"""

    root: Root
    marginals: Marginals
    parameters: Mapping[str, Any]
    other: Any
    """Another masker's output to start from, or the path of one; None where the method does not."""

    given_draws: Mapping[str, Any]
    """Arrays that stand in for random draws: for tests only, and secret, as they undo a release."""

    needs: tuple[str, ...] = ()
    """Parameters that were given as tables, which no recipe holds."""

    @property
    def named_columns(self) -> dict[str, dict[str, Any]]:
        """Columns that parameters of the method name: those that group records, and those that are regressed on."""
        if not isinstance(self.decompose, Clustered):
            return {}
        layout = self.decompose.layout
        return {
            "groups": {role: getattr(layout, role) for role in ("clusters", "pieces", "groups")},
            "regressors": {role: getattr(layout, role) for role in ("local", "global_", "local_pieces", "grouped")},
        }

    def covariance_on_average(self, untouched: int) -> bool:
        """Do covariances come back on average?

        Where the components were correlated, only if all of them were perturbed together and keep what they share.
        """
        if self.decompose.uncorrelated:
            return self.perturb.keeps_variance
        return self.perturb.keeps_covariance and not untouched

    @property
    def protects_labels(self) -> bool:
        """Can it perturb labels? They have no components: they are exchanged between records, or masked as such."""
        return self.labels_only or self.arranges or self.masks_labels

    @property
    def arranges(self) -> bool:
        """Are values and labels exchanged between records until moments return?"""
        return self.maps_values and self.marginals.exchange

    @property
    def needs_columns(self) -> bool:
        """Does it need whole columns, one at a time, where the rows are too many to be held?"""
        return self.maps_values and (self.arranges or bool(self.exact))

    @property
    def masks_labels(self) -> bool:
        """Does a perturbation of columns that are not decomposed mask labels as well?"""
        return self.perturb.masks_labels and isinstance(self.decompose, Identity) and not self.maps_values

    @property
    def labels_only(self) -> bool:
        """Does it treat labels, and numbers only if they are taken for labels?"""
        return isinstance(self.perturb, LabelPerturbation)

    @property
    def maps_values(self) -> bool:
        """Do the columns get values of their own back, instead of those the components add up to?"""
        return self.marginals.marginals != "free"

    @property
    def promises_moments(self) -> bool:
        """Does some moment come back exactly, so that values learnt to be impossible are left as they are?"""
        return self.exact or (self.perturb.keeps_mean and not self.maps_values)

    def kind(self, untouched: int) -> Kind:
        """What the release is to be called (Calviño 2017, §3.2)."""
        if not (self.perturb.replaces or self.perturb.mixes):
            return "masked"
        if self.perturb.mixes or isinstance(self.decompose, Clustered):
            return "hybrid"
        return "hybrid" if untouched else "synthetic"


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that belong together: the shared ones (no perturbation), or those of a perturbation."""

    perturb: str
    summary: str
    reference: str
    parameters: list[Parameter]


@dataclass(frozen=True)
class Method:
    """A named preset of the three steps, with its paper."""

    id: str
    summary: str
    reference: str
    decompose: type[Decomposition]
    select: type[Selection] = Components
    minimum_columns: int = 1
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Parameters that make the method what it is; a user cannot change them."""

    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Parameters that are usually otherwise; a user can change them."""

    perturb_by: tuple[str, ...] = ()
    """The perturbations that can be asked for, if not all."""

    @property
    def perturbations(self) -> Mapping[str, type[Perturbation]]:
        """The perturbation that the method fixes, or all that can be asked for."""
        fixed = self.fixed.get("perturb")
        if fixed is not None:
            return {fixed: {**PERTURBATIONS, **RESERVED}[fixed]}
        return {name: PERTURBATIONS[name] for name in self.perturb_by or PERTURBATIONS}

    @property
    def labels_only(self) -> bool:
        """Does it treat labels, and numbers only if they are taken for labels?"""
        return self.fixed.get("perturb") in LABEL_PERTURBATIONS

    @property
    def shared_steps(self) -> tuple[type[Step], ...]:
        """The steps whose parameters this method takes with every perturbation."""
        return (PerturbChoice, self.select, ExactMoments, Marginals, self.decompose)

    def plan(self, given: Mapping[str, Any]) -> Plan:
        """Check the parameters and store them."""
        fixed = self._fixed_with(given)
        for name, value in given.items():
            if name in fixed and not _same(value, fixed[name]):
                raise ParameterError(f"{name}: {self.id} has it fixed at {fixed[name]!r}", "use another method")
        given = {**self.defaults, **_exact_unless(given), **given, **fixed}
        choice = built(PerturbChoice, given)
        if choice.perturb not in self.perturbations:
            problem = f"perturb: {self.id} cannot '{choice.perturb}'"
            hint = one_of(self.perturb_by) if self.perturb_by else "it goes with the method made of it only"
            raise ParameterError(problem, hint)
        step = self.perturbations[choice.perturb]
        declared = [parameter for kind in (*self.shared_steps, step) for parameter in parameters_of(kind)]
        self._explain_strays(given, [parameter.name for parameter in declared], choice.perturb)
        select, moments = built(self.select, given), built(ExactMoments, given)
        marginals, decompose, perturb = built(Marginals, given), built(self.decompose, given), built(step, given)
        if moments.exact and marginals.marginals == "original":
            instead = "" if "exact" in self.fixed else "marginals='original' with exact=False, or "
            raise ParameterError(
                "exact: values in another order cannot also have exact covariances",
                f"use {instead}marginals='smoothed'",
            )
        steps = (choice, select, moments, marginals, decompose, perturb)
        values = {name: value for step in steps for name, value in step.model_dump().items()}
        for_tests = {parameter.name for parameter in declared if parameter.for_tests}
        tables = {parameter.name for parameter in declared if parameter.is_data}
        kept_out = for_tests | {name for name in tables if not isinstance(values[name], str)}
        return Plan(
            method=self.id,
            decompose=decompose,
            select=select,
            perturb=perturb,
            exact=bool(moments.exact),
            rounded=moments.exact == "rounded",
            root=moments.root,
            marginals=marginals,
            parameters={name: value for name, value in values.items() if name not in kept_out},
            other=next((values[name] for name in tables), None),
            given_draws={name: values[name] for name in for_tests if values[name] is not None},
            needs=tuple(sorted(name for name in kept_out if values[name] is not None)),
        )

    def parameters(self) -> list[ParameterGroup]:
        """All parameters in groups: those every perturbation shares, then those of each."""
        shared = [p for step in self.shared_steps for p in self._own(step)]
        own = [
            ParameterGroup(name, step.summary(), step.reference, self._own(step))
            for name, step in self.perturbations.items()
        ]
        return [ParameterGroup("", "", "", shared), *own]

    def _own(self, step: type[Step]) -> list[Parameter]:
        """The parameters of a step that a user of this method can set, with the defaults they have here."""
        free = [parameter for parameter in parameters_of(step) if parameter.name not in self.fixed]
        if self.fixed.get("exact") is True and not issubclass(self.decompose, Clustered):
            exact = (p for p in parameters_of(step) if p.name == "exact")
            free = [*(replace(p, allowed="true or rounded") for p in exact), *free]
        if self.fixed.get("exact") is True:
            free = [replace(p, allowed=NOT_ORIGINAL) if p.name == "marginals" else p for p in free]
        if self.perturb_by:
            free = [replace(p, allowed=", ".join(self.perturb_by)) if p.name == "perturb" else p for p in free]
        return [replace(parameter, default=self.defaults.get(parameter.name, parameter.default)) for parameter in free]

    def _fixed_with(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """What cannot be changed. Moments that are exact by construction can still be rounded to a grid."""
        exact = given.get("exact")
        if not isinstance(exact, str) or exact != "rounded":
            return self.fixed
        if issubclass(self.decompose, Clustered):
            raise ParameterError(
                f"exact: {self.id} keeps the moments of clusters, which a grid for all records does not hide",
                "use exact='rounded' with a method without clusters",
            )
        return {name: value for name, value in self.fixed.items() if name != "exact" or value is not True}

    def _explain_strays(self, given: Mapping[str, Any], names: Sequence[str], perturb: str) -> None:
        """A parameter of another perturbation is the likeliest slip: say whose it is. A misspelt role comes next."""
        for name in given:
            if name in names:
                continue
            owners = [other for other, step in PERTURBATIONS.items() if name in step.model_fields]
            if owners:
                raise ParameterError(
                    f"{name}: perturb='{perturb}' has no such parameter", f"it belongs to perturb='{owners[0]}'"
                )
            # Not the word itself: where it arrives as a parameter, it was given to something that does not take it.
            others = [role for role in OTHER_ARGUMENTS if role != name]
            hint = did_you_mean(name, [*names, *others])
            raise ParameterError(f"{self.id} with perturb='{perturb}' has no parameter '{name}'", hint)


def _same(value: object, fixed: object) -> bool:
    """Is it the fixed value? A recipe has it too, and lists where there were tuples."""
    plain = tuple(value) if isinstance(value, list) else value
    return type(plain) is type(fixed) and plain == fixed


def _exact_unless(given: Mapping[str, Any]) -> dict[str, Any]:
    """Given permutations are applied as they are, and values that are given back are not moved for exact moments."""
    return {"exact": False} if given.get("permutations") is not None or "marginals" in given else {}
