"""A method is a preset: which decomposition, which perturbations, which restoration. No algorithm of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from microveil.core.errors import ParameterError, did_you_mean
from microveil.core.parameters import Composed, Parameter, Step, parameters_of
from microveil.decompose import Components, Decomposition
from microveil.perturb import PERTURBATIONS, Perturbation
from microveil.restore import ExactMoments

Kind = Literal["masked", "hybrid", "synthetic"]


class PerturbChoice(Step):
    """Which perturbation the components get."""

    perturb: Annotated[
        str,
        Field(
            description="what happens to a chosen component",
            json_schema_extra={"allowed": ", ".join(PERTURBATIONS)},
        ),
    ] = "swap"

    @field_validator("perturb")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in PERTURBATIONS:
            raise ValueError(f"no perturbation '{value}', {did_you_mean(value, PERTURBATIONS)}")
        return value


@dataclass(frozen=True, repr=False)
class Plan:
    """A method with its parameters checked: everything an engine needs."""

    method: str
    decompose: Decomposition
    select: Components
    perturb: Perturbation
    exact: bool
    parameters: Mapping[str, Any]
    given_draws: Mapping[str, Any]
    """Arrays that stand in for random draws: for tests only, and secret, as they undo a release."""

    def kind(self, untouched: int) -> Kind:
        """What the release is to be called (Calviño 2017, §3.2)."""
        if not self.perturb.replaces:
            return "masked"
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
    minimum_columns: int = 1
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Parameters that make the method what it is; a user cannot set them."""

    @property
    def shared_steps(self) -> tuple[type[Step], ...]:
        """The steps whose parameters this method takes with every perturbation."""
        return (PerturbChoice, Components, ExactMoments, self.decompose)

    def plan(self, given: Mapping[str, Any]) -> Plan:
        """Check the parameters and store them."""
        for name in given:
            if name in self.fixed:
                raise ParameterError(f"{name}: {self.id} has it fixed at {self.fixed[name]!r}", "use another method")
        given = {**given, **self.fixed}
        choice = {name: value for name, value in given.items() if name == "perturb"}
        perturb = Composed(self.id, [PerturbChoice]).build(choice).step(PerturbChoice).perturb
        composed = Composed(f"{self.id} with perturb='{perturb}'", (*self.shared_steps, PERTURBATIONS[perturb]))
        self._explain_strays(given, composed.names, perturb)
        if given.get("permutations") is not None:
            given = {"exact": False, **given}
        built = composed.build(given)
        values = {name: value for step in built.values() for name, value in step.model_dump().items()}
        for_tests = {p.name for step in composed.steps for p in parameters_of(step) if p.for_tests}
        return Plan(
            method=self.id,
            decompose=built.step(self.decompose),
            select=built.step(Components),
            perturb=built.step(PERTURBATIONS[perturb]),
            exact=built.step(ExactMoments).exact,
            parameters={name: value for name, value in values.items() if name not in for_tests},
            given_draws={name: values[name] for name in for_tests if values[name] is not None},
        )

    def parameters(self) -> list[ParameterGroup]:
        """All parameters in groups: those every perturbation shares, then those of each."""
        shared = [p for step in self.shared_steps for p in parameters_of(step) if p.name not in self.fixed]
        choices = {name: s for name, s in PERTURBATIONS.items() if self.fixed.get("perturb", name) == name}
        own = [ParameterGroup(name, s.summary(), s.reference, parameters_of(s)) for name, s in choices.items()]
        return [ParameterGroup("", "", "", shared), *own]

    def _explain_strays(self, given: Mapping[str, Any], known: list[str], perturb: str) -> None:
        """A parameter of another perturbation is the likeliest slip: say whose it is."""
        for name in given:
            owners = [other for other, step in PERTURBATIONS.items() if name in step.model_fields]
            if name not in known and owners:
                raise ParameterError(
                    f"{name}: perturb='{perturb}' has no such parameter", f"it belongs to perturb='{owners[0]}'"
                )
