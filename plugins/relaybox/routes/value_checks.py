"""How a value of relaybox.yaml is checked: pydantic's validators, each with the rule that its error shows."""

import re
from collections.abc import Callable
from typing import Any

from pydantic import BeforeValidator, Field, PlainValidator
from pydantic_core import PydanticCustomError

from relaybox.routes.problems import suggest


def broken(rule: str) -> PydanticCustomError:
    """The error of a value that breaks this rule."""
    return PydanticCustomError("rule", "{rule}", {"rule": rule})


def text(pattern: str, rule: str) -> PlainValidator:
    """A text that the pattern matches as a whole."""
    compiled = re.compile(pattern)

    def check(value: object) -> str:
        if isinstance(value, str) and compiled.fullmatch(value):
            return value
        raise broken(rule)

    return PlainValidator(check)


def section(what: str) -> BeforeValidator:
    """A section with this; a key with nothing behind it is the section with nothing in it."""

    def check(value: object) -> object:
        if value is None:
            return {}
        if isinstance(value, dict):
            return value
        raise broken(f"a section {what}")

    return BeforeValidator(check)


def list_of(what: str) -> BeforeValidator:
    """A list that has an entry."""

    def check(value: object) -> object:
        if isinstance(value, list) and value:
            return value
        raise broken(f"a list of {what}")

    return BeforeValidator(check)


def text_by(find_broken_rule: Callable[[object], str | None]) -> PlainValidator:
    """A text in which the function finds no broken rule."""

    def check(value: object) -> str:
        if (rule := find_broken_rule(value)) is not None:
            raise broken(rule)
        return str(value)

    return PlainValidator(check)


def one_of(words: tuple[str, ...], rule: str, text_rule: str) -> PlainValidator:
    """One of these words; the nearest of them is named."""

    def check(value: object) -> str:
        if not isinstance(value, str):
            raise broken(text_rule)
        if value not in words:
            raise broken(f"{rule}. {suggest(value, words)}")
        return value

    return PlainValidator(check)


def named_one_of(words: tuple[str, ...]) -> PlainValidator:
    """The same of so few words that the rule names them."""
    rule = f"{', '.join(words[:-1])} or {words[-1]}"
    return one_of(words, rule, f"a text, {rule}")


def whole_number(default: Any, low: int, high: int) -> Any:
    """The field of a number, both ends included. Default `...`: the key must be there; None: the type of the field has None."""
    return Field(default=default, ge=low, le=high, description=f"a whole number from {low} to {high}")


def true_or_false(*, default: bool | None) -> Any:
    """The field of a switch."""
    return Field(default=default, description="true or false")
