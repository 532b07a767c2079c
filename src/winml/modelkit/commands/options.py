"""Options that mean the same in every command, each defined once. Values that cannot be meant raise BadParameter.

Imports click only: ``winml CMD --help`` reaches this module.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

__all__ = [
    "KeyValue",
    "Seconds",
    "device",
    "ep",
    "ep_options",
    "ep_path",
    "format_",
    "model",
    "output",
    "overwrite",
    "quiet",
    "timeout",
    "to_mapping",
    "verbose",
]

Function = TypeVar("Function", bound=Callable[..., Any])


class KeyValue(click.ParamType):  # type: ignore[type-arg]  # generic in later versions of click only
    """``KEY=VALUE``; gives the pair of texts. A key may contain anything but ``=``, a value anything.

    Args:
        metavar: how the pair is called in help, such as ``NAME=N``.
    """

    name = "key=value"

    def __init__(self, metavar: str = "KEY=VALUE") -> None:
        self.metavar = metavar

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """The pair as help shows it."""
        return self.metavar

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Split at the first ``=``."""
        if isinstance(value, tuple):  # converted already
            return value
        key, sign, text = str(value).partition("=")
        if not sign or not key.strip():
            self.fail(f"{value!r} is not of the form {self.metavar}.", param, ctx)
        return key.strip(), text


class Seconds(click.ParamType):  # type: ignore[type-arg]  # as above
    """A span of time in seconds: a finite number more than 0 and no more than ten days."""

    name = "seconds"
    _MOST = 864000.0

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; NaN and infinity are refused, since no clock waits for them."""
        try:
            seconds = float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        if not 0 < seconds <= self._MOST:
            self.fail(f"{value!r} is not more than 0 and at most {self._MOST:.0f} seconds.", param, ctx)
        return seconds


def to_mapping(ctx: click.Context, param: click.Parameter, pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Click callback for a repeatable ``KeyValue`` option: one mapping, in which no key stands twice."""
    mapping: dict[str, str] = {}
    for key, value in pairs:
        if key in mapping:
            raise click.BadParameter(f"{key!r} is given twice.", ctx, param)
        mapping[key] = value
    return mapping


def model(function: Function) -> Function:
    """``MODEL`` or ``-m/--model``: exactly one of the two; the function gets ``model: str``."""

    @functools.wraps(function)
    def with_model(*args: Any, model_argument: str | None, model_option: str | None, **kwargs: Any) -> Any:
        if model_argument is not None and model_option is not None:
            raise click.UsageError(
                f"The model is given twice: as an argument ({model_argument!r}) and with -m/--model ({model_option!r})."
            )
        name = model_option if model_option is not None else model_argument
        if name is None:
            raise click.UsageError("Missing the model: give it as an argument or with -m/--model.")
        if not name:
            raise click.UsageError("The name of the model is empty.")
        return function(*args, model=name, **kwargs)

    option = click.option(
        "-m", "--model", "model_option", metavar="MODEL", help="The model; may stand without -m as well."
    )
    argument = click.argument("model_argument", metavar="[MODEL]", required=False)
    return argument(option(with_model))  # type: ignore[return-value]  # the wrapper stands in for the function


def output(help: str) -> Callable[[Function], Function]:
    """``-o/--output PATH``."""
    return click.option("-o", "--output", type=click.Path(), metavar="PATH", help=help)


def overwrite(function: Function) -> Function:
    """``--overwrite``."""
    return click.option("--overwrite", is_flag=True, help="Replace the output where it exists already.")(function)


def ep(function: Function) -> Function:
    """``--ep NAME[@SOURCE]``."""
    return click.option(
        "--ep",
        metavar="NAME[@SOURCE]",
        help="Execution provider, short or full name in any case, such as openvino or qnn; auto if left out. "
        "@SOURCE pins where its library comes from, such as openvino@pypi.",
    )(function)


def device(function: Function) -> Function:
    """``-d/--device auto|npu|gpu|cpu``."""
    return click.option(
        "-d",
        "--device",
        type=click.Choice(["auto", "npu", "gpu", "cpu"], case_sensitive=False),
        help="Device class; auto if left out.",
    )(function)


def ep_path(function: Function) -> Function:
    """``--ep-path PATH``, repeatable; the function gets ``ep_path: tuple[str, ...]``."""
    return click.option(
        "--ep-path",
        multiple=True,
        metavar="PATH",
        help="Folder with EP libraries, or one such library; comes before WINMLCLI_EP_PATH. Repeatable.",
    )(function)


def ep_options(function: Function) -> Function:
    """``--ep-options KEY=VALUE``, repeatable; the function gets ``ep_options: dict[str, str]``."""
    return click.option(
        "--ep-options",
        type=KeyValue(),
        multiple=True,
        callback=to_mapping,
        help="Option handed to the execution provider. Repeatable.",
    )(function)


def format_(*choices: str) -> Callable[[Function], Function]:
    """``-f/--format``; the first choice is the default. The function gets ``format: str``."""
    return click.option(
        "-f",
        "--format",
        type=click.Choice(choices),
        default=choices[0],
        show_default=True,
        help="Form of the result on stdout.",
    )


def timeout(help: str) -> Callable[[Function], Function]:
    """``--timeout SECONDS``, more than 0; None if left out."""
    return click.option("--timeout", type=Seconds(), metavar="SECONDS", help=help)


def verbose(function: Function) -> Function:
    """``-v/--verbose``: more facts, and the native logs."""
    return click.option("-v", "--verbose", is_flag=True, help="Show more: every row, paths and native logs.")(function)


def quiet(function: Function) -> Function:
    """``-q/--quiet``: no progress; the result stays whole."""
    return click.option("-q", "--quiet", is_flag=True, help="No progress; the result stays the same.")(function)
