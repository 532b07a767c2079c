"""The ``winml`` command: a group of commands that load when they are called.

At its top this module imports click and the standard library only; so do the command modules, and ``--help`` of
anything stays as quick as click itself. Everything a user can do wrong ends here as one message and one exit code.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click

from winml.modelkit._version import __version__

if TYPE_CHECKING:
    from winml.modelkit.errors import WinMLError

__all__ = ["COMMANDS", "main"]

COMMANDS: dict[str, tuple[str, str, str]] = {
    "perf": (
        "winml.modelkit.commands.perf",
        "perf",
        "Measure an ONNX model on an execution provider, and prove where its nodes ran.",
    ),
    "sys": (
        "winml.modelkit.commands.sys",
        "sys_command",
        "Show this machine, its devices and every execution provider, each one tried.",
    ),
}
"""Name of every command: module, attribute in it, one line of help. A command is imported when it is called."""

EPILOG = """\b
Exit codes:
  0    done
  1    the work failed
  2    the command line cannot be meant
  3    the target is not available on this machine
  4    it ran, and the evidence asked for falls short
  5    a vendor library crashed or timed out
  130  interrupted
"""


class LazyGroup(click.Group):
    """A click group over the table ``COMMANDS``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command.

        Raises:
            WinMLError: its module does not import; the message names what is missing.
        """
        row = COMMANDS.get(cmd_name)
        if row is None:
            return None
        import importlib

        module, attribute, _ = row
        try:
            command: click.Command = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise _broken_import(error, f"the command {cmd_name!r} does not load") from error
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command named first in ``args``; an unknown name is answered with the nearest one."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            import difflib

            close = difflib.get_close_matches(name.casefold(), COMMANDS, n=1, cutoff=0.5)
            meant = f" Did you mean {close[0]!r}?" if close else f" Commands: {', '.join(sorted(COMMANDS))}."
            raise click.UsageError(f"No such command {name!r}.{meant}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands out of the table, without importing one."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command with streams that take every character."""
        from winml.modelkit.console import streams
        from winml.modelkit.errors import Interrupted

        streams.prepare()
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:  # before click gets it, which prints an empty line of its own
            raise Interrupted("interrupted by the user") from error


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EPILOG,
    help="Take an ONNX model to the accelerator it ships on, and prove what it did there.",
)
@click.version_option(__version__, "-V", "--version", prog_name="winml-cli", message="%(prog)s %(version)s")
def cli() -> None:
    """The group itself does nothing."""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Args:
        argv: arguments without the program's name; those of the process if None.
    """
    sys.exit(run(list(sys.argv[1:] if argv is None else argv)))


def run(args: list[str]) -> int:
    """Run the command line and give its exit code; what went wrong has been said by then."""
    try:
        code = cli.main(args=args, prog_name="winml", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        return _say_usage(error, args)
    except (click.Abort, KeyboardInterrupt):
        from winml.modelkit.errors import Interrupted

        return _say(Interrupted("interrupted by the user"), args)
    except Exception as error:  # noqa: BLE001 - the last resort: whatever it is becomes one line and an exit code
        return _say(_explain(error), args)


def _say_usage(error: click.ClickException, args: list[str]) -> int:
    """A command line that click refused, in click's own words."""
    from winml.modelkit.console import streams

    streams.prepare()
    try:
        error.show(file=sys.stderr)
    except OSError:
        streams.discard(sys.stderr)
    if wants_json(args):
        info = {"code": "usage", "reason": error.format_message(), "hint": _where_is_help(error)}
        _write_error_document({**info, "exit_code": error.exit_code, "details": {}}, args)
    return error.exit_code


def _where_is_help(error: click.ClickException) -> str | None:
    ctx = getattr(error, "ctx", None)
    return f"{ctx.command_path} --help" if ctx is not None else None


def _say(error: WinMLError, args: list[str]) -> int:
    """One failure: the reason and the next step on stderr, the document on stdout if one was asked for."""
    from winml.modelkit.console import streams

    streams.prepare()
    text = _interrupt_line() if error.code == "interrupted" else f"{_headline(error)}\n"
    if error.hint:
        text += f"hint: {error.hint}\n"
    streams.write_err(text)
    if wants_json(args):
        _write_error_document({key: value for key, value in error.to_dict().items() if key != "kind"}, args)
    return error.exit_code


def _headline(error: WinMLError) -> str:
    return error.reason if error.code == "internal" else f"error: {error.reason}"


def _interrupt_line() -> str:
    """A terminal shows ``^C`` and leaves its cursor behind it."""
    return "\ninterrupted\n" if sys.stderr.isatty() else "interrupted\n"


def _write_error_document(error: dict[str, Any], args: list[str]) -> None:
    """The document of a command that did not come far enough to make one of its own."""
    import json

    from winml.modelkit.console import streams

    document = {
        "schema": "winml.error/1",
        "status": "interrupted" if error["code"] == "interrupted" else "failed",
        "command": ["winml", *args],
        "error": error,
    }
    try:
        streams.write_out(json.dumps(document, indent=2) + "\n")
    except OSError:
        streams.discard(sys.stdout)


def wants_json(args: Sequence[str]) -> bool:
    """Whether ``--format json`` stands among arguments that need not be valid otherwise.

    >>> wants_json(["sys", "-vf", "json"]), wants_json(["sys", "--format=text"])
    (True, False)
    """
    wanted = False
    for index, word in enumerate(args):
        if word == "--":
            break
        following = args[index + 1] if index + 1 < len(args) else ""
        if word == "--format" or re.fullmatch(r"-[qv]*f", word):
            wanted = following == "json"
        elif found := re.fullmatch(r"(?:--format=|-[qv]*f)(.+)", word):
            wanted = found[1].removeprefix("=") == "json"
    return wanted


def _explain(error: Exception) -> WinMLError:
    """What escaped a command, as a failure of ours."""
    from winml.modelkit.errors import WinMLError

    if isinstance(error, WinMLError):
        return error
    if isinstance(error, ImportError):
        return _broken_import(error, "a package that winml needs does not import")
    if isinstance(error, OSError) and (failure := _out_of_room(error)) is not None:
        return failure
    return _internal(error)


def _out_of_room(error: OSError) -> WinMLError | None:
    """A disk that is full or broken, where the result or one of our own files should go; None for other errors."""
    import errno

    from winml.modelkit.console import streams
    from winml.modelkit.errors import WinMLError

    names = ("ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EIO", "EMFILE", "ENFILE")
    if error.errno not in {getattr(errno, name, None) for name in names}:
        return None
    try:
        sys.stdout.flush()
    except OSError:
        streams.discard(sys.stdout)  # or the interpreter would try again at its end, and complain
    where = f"{error.filename} cannot be written" if error.filename else "the output cannot be written"
    return WinMLError(
        f"{where}: {error.strerror}", code="output_failed", hint="free some space, or redirect the output elsewhere"
    )


def _broken_import(error: Exception, what: str) -> WinMLError:
    """An import that failed, with its cause and how to mend it."""
    from winml.modelkit.errors import WinMLError

    name = getattr(error, "name", None) or ""
    package = name.partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and package and package != "winml":
        hint = f"it belongs to winml-cli's own requirements: {sys.executable} -m pip install winml-cli"
    else:
        hint = f"the installation is damaged: {sys.executable} -m pip install --force-reinstall winml-cli"
    return WinMLError(f"{what}: {error}", code="import_failed", hint=hint, details={"module": name or None})


def _internal(error: Exception) -> WinMLError:
    """A fault of winml itself: one line for the user, the traceback in a log."""
    import traceback

    from winml.modelkit.errors import WinMLError

    line = " ".join(f"{type(error).__name__}: {error}".split())
    hint, details = "this is a fault of winml itself, please report it", {}
    try:
        from winml.modelkit.worker import spool

        log = spool.new_log("internal-error")
        log.write_text("".join(traceback.format_exception(error)), encoding="utf-8", errors="backslashreplace")
    except (OSError, ImportError):
        hint += f" ({_place(error)})"
    else:
        hint += f" with {log}"
        details = {"log": str(log)}
    return WinMLError(f"internal error: {line}", code="internal", hint=hint, details=details)


def _place(error: Exception) -> str:
    """File and line of the innermost frame, where no log could be written."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "no place known" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
