"""A group of options that belong together becomes one parameter of a command.

Typer needs a parameter for each option, so commands that compile pattern files would repeat the same six lines and the
same call. Here a group is a dataclass whose fields are options; a command takes the group, and `grouped` shows typer
the fields in its place. The alternative, values in a `typer.Context`, would hide the options from `--help`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from typing import Any


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of each of its groups as parameters of their own, where the group stands."""
    signature = inspect.signature(command, eval_str=True)
    fields = {
        name: inspect.signature(parameter.annotation, eval_str=True).parameters
        for name, parameter in signature.parameters.items()
        if isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation)
    }

    @wraps(command)
    def run(**values: Any) -> None:
        for name, its_fields in fields.items():
            values[name] = signature.parameters[name].annotation(**{field: values.pop(field) for field in its_fields})
        command(**values)

    spread = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, own in signature.parameters.items()
        for parameter in (fields[name].values() if name in fields else [own])
    ]
    run.__signature__ = signature.replace(parameters=spread)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in spread}
    return run
