"""Shared options: what they parse, and that no command bends them."""

from __future__ import annotations

import importlib
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from winml.modelkit.cli import COMMANDS
from winml.modelkit.commands import options

LETTERS = {
    "-d": "--device",
    "-f": "--format",
    "-m": "--model",
    "-o": "--output",
    "-p": "--precision",
    "-q": "--quiet",
    "-t": "--task",
    "-v": "--verbose",
}
"""Every short option there is, and the only long one it may stand for."""


def load(name: str) -> click.Command:
    module, attribute, _ = COMMANDS[name]
    command = getattr(importlib.import_module(module), attribute)
    assert isinstance(command, click.Command)
    return command


def every_option() -> list[tuple[str, click.Option]]:
    return [
        (name, parameter)
        for name in sorted(COMMANDS)
        for parameter in load(name).params
        if isinstance(parameter, click.Option)
    ]


def test_i05_same_letter_same_meaning() -> None:
    for name, option in every_option():
        for letter in (word for word in option.opts if len(word) == 2):
            assert letter in LETTERS, f"{name} {letter}"
            assert LETTERS[letter] in option.opts, f"{name} {letter}"


def test_i05_every_lettered_option_keeps_its_letter() -> None:
    for name, option in every_option():
        for letter, long in LETTERS.items():
            if long in option.opts:
                assert letter in option.opts, f"{name} {long}"


def test_i05_same_long_option_same_kind() -> None:
    kinds: dict[str, tuple[Any, ...]] = {}
    for name, option in every_option():
        kind = (type(option.type), option.is_flag, option.multiple, option.nargs)
        for word in option.opts:
            assert kinds.setdefault(word, kind) == kind, f"{name} {word}"


def test_command_names_match_the_table() -> None:
    for name in COMMANDS:
        assert load(name).name == name


def test_i05_every_command_with_a_model_takes_it_both_ways() -> None:
    for name in COMMANDS:
        words = {word for parameter in load(name).params for word in parameter.opts}
        assert ("--model" in words) == ("model_argument" in words), name


def test_i04_every_choice_is_accepted() -> None:
    for name, option in every_option():
        if not isinstance(option.type, click.Choice):
            continue
        command = load(name)
        model = ["some-model"] if any(p.name == "model_argument" for p in command.params) else []
        for choice in option.type.choices:
            context = command.make_context(name, [*model, option.opts[-1], str(choice)])
            assert context.params[str(option.name)] == choice


def test_every_option_has_help() -> None:
    for name, option in every_option():
        assert option.help, f"{name} {option.opts}"


def test_i13_help_of_sys_states_the_limit_that_holds() -> None:
    from winml.modelkit.session.ep_isolation import DEFAULT_TIMEOUT_S

    (option,) = (option for name, option in every_option() if name == "sys" and option.name == "timeout")
    assert f"[default: {DEFAULT_TIMEOUT_S:g}]" in str(option.help)


# --- parsers ------------------------------------------------------------------------------------------------


@click.command()
@options.model
@options.device
@options.ep_options
@options.timeout("Limit.")
def probe(**given: Any) -> None:
    click.echo(repr(given))


def run(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(probe, list(args))
    return result.exit_code, result.output


@pytest.mark.parametrize("args", [["m.onnx"], ["-m", "m.onnx"], ["--model=m.onnx"]])
def test_model_both_ways(args: list[str]) -> None:
    code, output = run(*args)
    assert code == 0
    assert "'model': 'm.onnx'" in output


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "Missing the model"),
        (["a.onnx", "-m", "b.onnx"], "The model is given twice"),
        (["a.onnx", "-m", "a.onnx"], "The model is given twice"),
        ([""], "The name of the model is empty"),
        (["m", "--ep-options", "no-sign"], "'no-sign' is not of the form KEY=VALUE"),
        (["m", "--ep-options", "=x"], "is not of the form"),
        (["m", "--ep-options", "a=1", "--ep-options", "a=1"], "'a' is given twice"),
        (["m", "--timeout", "0"], "--timeout"),
        (["m", "--timeout", "nan"], "--timeout"),
        (["m", "--timeout", "inf"], "--timeout"),
        (["m", "--timeout", "-1"], "--timeout"),
        (["m", "--timeout", "soon"], "'soon' is not a number of seconds"),
        (["m", "-d", "tpu"], "tpu"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(args: list[str], message: str) -> None:
    code, output = run(*args)
    assert code == 2
    assert message in output


def test_device_in_any_case() -> None:
    assert "'device': 'npu'" in run("m", "-d", "NPU")[1]


def test_ep_options_keep_order_and_inner_signs() -> None:
    code, output = run("m", "--ep-options", "b=x=y", "--ep-options", "a=")
    assert code == 0
    assert "'ep_options': {'b': 'x=y', 'a': ''}" in output


@given(key=st.text(min_size=1).filter(lambda text: "=" not in text and text.strip()), value=st.text())
def test_key_value_splits_at_the_first_sign(key: str, value: str) -> None:
    assert options.KeyValue().convert(f"{key}={value}", None, None) == (key.strip(), value)


@given(st.text())
def test_key_value_gives_a_pair_or_refuses(text: str) -> None:
    try:
        key, value = options.KeyValue().convert(text, None, None)
    except click.BadParameter:
        assert "=" not in text or not text.partition("=")[0].strip()
    else:
        assert key
        assert text.partition("=")[2] == value
