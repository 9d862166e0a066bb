"""Formulas such as `~ region * size`: which columns, and which products of columns, are regressed on.

formulaic reads the text: what is a name, and which sign binds tighter. The terms are worked out here. So nothing in a
formula is ever evaluated, and no power makes more terms than anybody could have meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from microveil.core.errors import ParameterError
from microveil.core.late import needed

if TYPE_CHECKING:
    from formulaic.parser.types import ASTNode, Token

MOST_CHARACTERS = 10_000
MOST_TOKENS = 500
"""Names and signs of a formula. The terms are worked out one sign inside another, as deep as there are signs."""

MOST_TERMS = 200
MOST_CROSSED = 6
"""Columns in one product: a combination of more has hardly a record left, and the parts of it double with each."""

_SIGNS: Final = ("+", "-", "*", ":", "^", "**", "(", ")")
_BY_LABELS: Final = re.compile(r"C\(\s*(?:`([^`\\]+)`|([^\W\d][\w.]*))\s*\)")
_POWER: Final = re.compile("[1-9]")


@dataclass(frozen=True)
class Factor:
    """A column in a product: as the number it is, or by its labels."""

    column: str
    labels: bool = False


@dataclass(frozen=True)
class Terms:
    """What is regressed on, with an intercept: products of columns, most of them of one; `formula` if it was one."""

    products: tuple[tuple[Factor, ...], ...] = ()
    formula: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns in them, each once."""
        return tuple(dict.fromkeys(factor.column for product in self.products for factor in product))

    @property
    def setting(self) -> str | list[str]:
        """What a recipe holds: the formula, or the names of the columns."""
        return list(self.columns) if self.formula is None else self.formula


NO_TERMS: Final = Terms()

Products = dict[frozenset[Factor], None]
"""A set of products in the order they were written. The product of no column is the intercept."""

INTERCEPT: Final[frozenset[Factor]] = frozenset()


def is_formula(choice: object) -> TypeGuard[str]:
    """A text that begins with `~`. A column of such a name can be had in a list of names."""
    return isinstance(choice, str) and choice.lstrip().startswith("~")


def parse_formula(text: str, role: str) -> list[frozenset[Factor]]:
    """The products of columns that a formula asks for, by the names it uses, whether there are such columns or not."""
    needed("formulaic", "formula", f"{role}: a formula")
    from formulaic.errors import FormulaicError
    from formulaic.parser import DefaultOperatorResolver
    from formulaic.parser.algos.tokenize import tokenize
    from formulaic.parser.algos.tokens_to_ast import tokens_to_ast

    if len(text) > MOST_CHARACTERS:
        raise _too_much(role, f"{MOST_CHARACTERS} characters")
    try:
        tokens = list(tokenize(text.strip()[1:]))
        if len(tokens) > MOST_TOKENS:
            raise _too_much(role, f"{MOST_TOKENS} names and signs")
        factors = [factor for token in tokens for factor in _factors_in(token, role)]
        tree = tokens_to_ast(tokens, DefaultOperatorResolver())
    except FormulaicError:
        raise ParameterError(
            f"{role}: the formula '{_shown(text)}' cannot be read",
            "write it as ~ a + b:c, ~ a*b or ~ (a+b+c)^2 - a:b, with names that have spaces in backticks",
        ) from None
    products = Products() if tree is None else _Expansion(role).products(tree)
    products.pop(INTERCEPT, None)  # is always there
    left = {factor for product in products for factor in product}
    if not factors:
        raise ParameterError(f"{role}: the formula names no column", f"name some, or leave {role} out")
    for factor in factors:
        if factor not in left:
            raise ParameterError(
                f"{role}: no term of '{_shown(factor.column)}' is left in the formula", "leave the column out of it"
            )
    return list(products)


def _factors_in(token: Token, role: str) -> list[Factor]:
    """The column that a token names, if it is no sign or number; whatever would have to be evaluated is refused."""
    kind = token.kind.value if token.kind else ""
    if kind == "name":
        return [Factor(token.token)]
    if kind == "python":
        # Compared as it was written: formulaic takes the braces off {code}.
        written = (token.source or "")[token.source_start or 0 : (token.source_end or 0) + 1]
        match = _BY_LABELS.fullmatch(written)
        if match is None:
            raise ParameterError(
                f"{role}: '{_shown(token.token)}' would have to be computed, and a formula takes columns as they are",
                "add computed columns to the data first; C(name) takes a column by its labels",
            )
        return [Factor(match[1] or match[2], labels=True)]
    if kind != "value" and token.token not in _SIGNS:
        raise ParameterError(
            f"{role}: '{_shown(token.token)}' has no meaning in this formula",
            "join columns by + - : * and powers; add computed columns to the data first",
        )
    return []


class _Expansion:
    """The products that formulaic's tree of a formula stands for; `role` is for the messages."""

    def __init__(self, role: str) -> None:
        self.role = role

    def products(self, node: Token | ASTNode[Any]) -> Products:
        """The products of a node, worked out from the leaves."""
        operator = getattr(node, "operator", None)
        if operator is None:
            return self._leaf(node)
        first, *rest = node.args
        if not rest:
            return self.products(first) if operator.symbol == "+" else self._without({}, self.products(first))
        (second,) = rest
        left = self.products(first)
        if operator.symbol in ("^", "**"):
            return self._power(left, second)
        right = self.products(second)
        if operator.symbol == "-":
            return self._without(left, right)
        if operator.symbol == "+":
            return self._few([*left, *right])
        crossed = self._crossed(left, right)
        return crossed if operator.symbol == ":" else self._few([*left, *right, *crossed])

    def _leaf(self, token: Any) -> Products:
        factors, written = _factors_in(token, self.role), token.token
        if factors or written == "1":
            return {frozenset(factors): None}
        if written == "0":
            raise self._no_intercept()
        raise ParameterError(
            f"{self.role}: {_shown(written)} in the formula is no column",
            "a column whose name is a number goes in backticks",
        )

    def _power(self, products: Products, power: Any) -> Products:
        if not _POWER.fullmatch(getattr(power, "token", "")) or power.kind.value != "value":
            raise ParameterError(
                f"{self.role}: a power in a formula is a number from 1 to 9", "write (a+b+c)^2 for all pairs of columns"
            )
        result = products
        for _ in range(int(power.token) - 1):
            result = self._crossed(result, products)
        return result

    def _crossed(self, left: Products, right: Products) -> Products:
        if len(left) == len(right) == 1 and next(iter(left)) & next(iter(right)):
            raise ParameterError(
                f"{self.role}: a column times itself is the column in a formula, not its square",
                "add squares to the data as columns of their own",
            )
        return self._few(one | other for one in left for other in right)

    def _without(self, left: Products, right: Products) -> Products:
        if INTERCEPT in right:
            raise self._no_intercept()
        for product in right:
            if product not in left:
                names = ":".join(sorted(factor.column for factor in product))
                raise ParameterError(
                    f"{self.role}: the formula takes out '{_shown(names)}', which is not in it", "leave that out"
                )
        return {product: None for product in left if product not in right}

    def _few(self, products: Iterable[frozenset[Factor]]) -> Products:
        """The products once each, as long as there are not too many."""
        found: Products = {}
        for product in products:
            if len(product) > MOST_CROSSED:
                raise _too_much(self.role, f"{MOST_CROSSED} columns crossed with each other")
            found[product] = None
            if len(found) > MOST_TERMS:
                raise _too_much(self.role, f"{MOST_TERMS} terms")
        return found

    def _no_intercept(self) -> ParameterError:
        return ParameterError(
            f"{self.role}: the intercept cannot be taken out of a formula, as means are always kept",
            "leave out 0 and -1; a column whose name is a number goes in backticks",
        )


def _too_much(role: str, limit: str) -> ParameterError:
    return ParameterError(f"{role}: the formula has more than {limit}", "use fewer terms, or lower powers")


def _shown(text: str, most: int = 60) -> str:
    """What was written, fit for a line of a message."""
    plain = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    return plain if len(plain) <= most else f"{plain[:most]}..."
