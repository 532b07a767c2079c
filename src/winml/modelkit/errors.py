"""Every failure a command can report, in one hierarchy.

    WinMLError                      exit 1   the work failed
    ├── UsageError                  exit 2   the request cannot be meant
    │   ├── UnknownEP                        no EP of that name
    │   └── ImpossibleTarget                 that EP never serves that device
    ├── ModelError                  exit 1   the model file is at fault
    ├── InputError                  exit 1   the input data does not fit the model
    ├── RunFailed                   exit 1   ONNX Runtime refused the session or the run
    ├── TargetUnavailable           exit 3   the target is not available on this machine
    │   ├── DeviceNotFound
    │   └── WinMLEPRegistrationFailed        (session/ep_failure.py: it parses loader texts)
    ├── EvidenceShortfall           exit 4   it ran, and the promised evidence falls short
    ├── WorkerDied                  exit 5   a vendor library ended the process or the time limit did
    │   ├── WorkerCrashed
    │   └── WorkerTimedOut
    └── Interrupted                 exit 130

An error carries a stable ``code`` for scripts, a ``reason`` that names the thing and the cause, a ``hint`` with the
next step, and ``details`` (plain data). It crosses the worker's process boundary through ``to_dict``/``from_dict``.
"""

from __future__ import annotations

from typing import Any, ClassVar

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_UNAVAILABLE = 3
EXIT_EVIDENCE = 4
EXIT_CRASH = 5
EXIT_INTERRUPTED = 130

__all__ = [
    "EXIT_CRASH",
    "EXIT_EVIDENCE",
    "EXIT_FAILED",
    "EXIT_INTERRUPTED",
    "EXIT_OK",
    "EXIT_UNAVAILABLE",
    "EXIT_USAGE",
    "DeviceNotFound",
    "EvidenceShortfall",
    "ImpossibleTarget",
    "InputError",
    "Interrupted",
    "ModelError",
    "RunFailed",
    "TargetUnavailable",
    "UnknownEP",
    "UsageError",
    "WinMLError",
    "WorkerCrashed",
    "WorkerDied",
    "WorkerTimedOut",
    "error_from_dict",
]


class WinMLError(Exception):
    """A failure with a stable code, a reason, a hint and plain-data details.

    Args:
        reason: one sentence that names the thing and the cause.
        code: a stable snake_case word for scripts; the class's ``default_code`` if omitted.
        hint: what to do next, or None.
        details: further plain data for the JSON document.
    """

    exit_code: ClassVar[int] = EXIT_FAILED
    default_code: ClassVar[str] = "failed"

    def __init__(
        self,
        reason: str,
        *,
        code: str | None = None,
        hint: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code or self.default_code
        self.hint = hint
        self.details: dict[str, Any] = details or {}

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: ``kind, code, reason, hint, exit_code, details``."""
        return {
            "kind": type(self).__name__,
            "code": self.code,
            "reason": self.reason,
            "hint": self.hint,
            "exit_code": self.exit_code,
            "details": self.details,
        }


class UsageError(WinMLError):
    """The request contradicts itself or names something that does not exist."""

    exit_code = EXIT_USAGE
    default_code = "usage"


class UnknownEP(UsageError):
    """No execution provider bears that name."""

    default_code = "unknown_ep"


class ImpossibleTarget(UsageError):
    """That execution provider never serves that device."""

    default_code = "impossible_target"


class ModelError(WinMLError):
    """The model file cannot be used, and the fault is the file's."""

    default_code = "model_invalid"


class InputError(WinMLError):
    """The input data does not fit the model, or cannot be made for it."""

    default_code = "input_invalid"


class RunFailed(WinMLError):
    """ONNX Runtime or the EP refused to make the session or to run it."""

    default_code = "run_failed"


class TargetUnavailable(WinMLError):
    """What was asked for is not available on this machine."""

    exit_code = EXIT_UNAVAILABLE
    default_code = "target_unavailable"


class DeviceNotFound(TargetUnavailable):
    """No device of the class asked for is offered by the EP asked for."""

    default_code = "device_not_found"


class EvidenceShortfall(WinMLError):
    """It ran, and what was promised or demanded of the run is not proven."""

    exit_code = EXIT_EVIDENCE
    default_code = "evidence_short"


class WorkerDied(WinMLError):
    """The child process that held the vendor library did not finish its job."""

    exit_code = EXIT_CRASH
    default_code = "worker_died"


class WorkerCrashed(WorkerDied):
    """The child process was ended by a signal or left early."""

    default_code = "crashed"


class WorkerTimedOut(WorkerDied):
    """The child process was ended at its time limit."""

    default_code = "timed_out"


class Interrupted(WinMLError):
    """The user interrupted the command."""

    exit_code = EXIT_INTERRUPTED
    default_code = "interrupted"


def _all_kinds(cls: type[WinMLError]) -> dict[str, type[WinMLError]]:
    kinds = {cls.__name__: cls}
    for sub in cls.__subclasses__():
        kinds.update(_all_kinds(sub))
    return kinds


def error_from_dict(data: dict[str, Any]) -> WinMLError:
    """Rebuild an error that crossed the worker's process boundary; unknown kinds become ``WinMLError``."""
    cls = _all_kinds(WinMLError).get(str(data.get("kind")), WinMLError)
    error = cls.__new__(cls)
    WinMLError.__init__(
        error,
        str(data.get("reason", "")),
        code=data.get("code"),
        hint=data.get("hint"),
        details=dict(data.get("details") or {}),
    )
    return error
