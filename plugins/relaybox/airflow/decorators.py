"""`@task.relaybox_consume(...)`: a function that handles one message is a task that handles those of a subscription."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk.bases.decorator import DecoratedOperator, TaskDecorator, task_decorator_factory

from relaybox.airflow.operators.consume import RelayboxConsumeOperator

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from relaybox.consumer import Message

_OF_EACH_CALL = ("connection", "message")


class _ConsumeDecoratedOperator(DecoratedOperator, RelayboxConsumeOperator):
    """Calls the function with `connection` and `message` of each message, and with the arguments that the DAG gave."""

    custom_operator_name = "@task.relaybox_consume"
    template_fields: Sequence[str] = (*DecoratedOperator.template_fields, *RelayboxConsumeOperator.template_fields)

    def __init__(
        self,
        *,
        python_callable: Callable[..., object],
        op_args: Collection[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            python_callable=_of_the_dag(python_callable),
            op_args=op_args,
            op_kwargs=op_kwargs,
            kwargs_to_upstream={"handler": python_callable},
            **kwargs,
        )

    def handle(self, connection: Connection, message: Message) -> object:
        given = inspect.signature(self.python_callable).bind(*self.op_args, **self.op_kwargs)
        return cast("Callable[..., object]", self.handler)(connection=connection, message=message, **given.arguments)


def _of_the_dag(function: Callable[..., object]) -> Callable[..., object]:
    """The function as Airflow sees it: with the parameters that the DAG gives. The other two come with each message."""
    signature = inspect.signature(function)
    if missing := [name for name in _OF_EACH_CALL if name not in signature.parameters]:
        name = function.__name__
        raise TypeError(f"{name}() has no parameter {missing[0]}: write def {name}(connection, message)")
    parameters = [one for one in signature.parameters.values() if one.name not in _OF_EACH_CALL]
    if unnamed := [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.VAR_POSITIONAL, one.VAR_KEYWORD)]:
        raise TypeError(f"{function.__name__}() has the parameter {unnamed[0]}: give it parameters with a name each")

    @functools.wraps(function)
    def of_the_dag(*_: object, **__: object) -> None:
        raise AssertionError("Airflow calls the operator, which calls the handler")

    of_the_dag.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return of_the_dag


def consume_task(python_callable: Callable[..., object] | None = None, **kwargs: Any) -> TaskDecorator:
    """Makes a task of a function `f(connection, message, ...)`.

    Args:
        python_callable: the function. Airflow's context is in `get_current_context()`.
        kwargs: those of RelayboxConsumeOperator but for `handler`, and those of every task.
    """
    return task_decorator_factory(
        python_callable=python_callable, decorated_operator_class=_ConsumeDecoratedOperator, multiple_outputs=False, **kwargs
    )
