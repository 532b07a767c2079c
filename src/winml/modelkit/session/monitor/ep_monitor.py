"""What a monitor is: what it adds to a session, what it does around the runs, and what it found.

A monitor never owns a session. Whatever it sets (files, working directory, environment) it restores in ``__exit__``,
also after an exception. A new EP is one row in the EP table and one class of this kind.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from winml.modelkit.session.monitor.source_names import SourceNames

OPTION_MISSING = "option_not_in_session"
NO_FILE = "no_file_after_creation"
NO_NODE = "no_node_on_ep"
BACKEND = "backend_load_failed"
BAD_LEVEL = "invalid_level"
CANNOT_OPEN = "cannot_open_file"
ETW = "etw_switched"
NO_ROWS = "no_operator_rows"
PARSE = "parse_error"

CAUSES: dict[str, str] = {
    OPTION_MISSING: "the EP or this onnxruntime does not take the option; compare their versions in winml sys",
    NO_FILE: "the EP writes its file when the session is made, so it will not come; see the native log (-v)",
    NO_NODE: "the EP takes no node of this model; placement.leftovers in the report lists them",
    BACKEND: "a library of the EP does not load: reinstall its package as a whole",
    BAD_LEVEL: "the EP does not know this profiling level; leave the option out",
    CANNOT_OPEN: "the folder for the trace is missing or not writable",
    ETW: "a Windows trace session (ETW) on Microsoft.ML.ONNXRuntime took the records; stop it and run again",
    NO_ROWS: "the EP wrote a file without operators; --op-tracing with another level may give them",
    PARSE: "the file has a form that this version cannot read",
}
"""Why a trace has no data, by stable code, with the next step."""


@dataclass(slots=True)
class TraceFailure:
    """Why there is no operator data.

    Attributes:
        cause: one of ``CAUSES``.
        reason: one sentence with the facts of this case.
        evidence: lines that show it.
    """

    cause: str
    reason: str
    evidence: list[str] = field(default_factory=list)

    @property
    def hint(self) -> str:
        """The next step."""
        return CAUSES[self.cause]


@dataclass(slots=True)
class TraceContext:
    """What a monitor may know of the session it watches.

    Attributes:
        session: the ``onnxruntime.InferenceSession``.
        placement: ``WinMLSession.placement()``.
        device: device class ONNX Runtime lists the device under.
        log: file with everything native code printed.
        warmup: inferences before the traced ones, the first run included.
        iterations: traced inferences.
        walls_us: wall time of each traced inference.
    """

    session: Any = None
    placement: dict[str, Any] = field(default_factory=dict)
    device: str = "cpu"
    log: Path | None = None
    warmup: int = 0
    iterations: int = 0
    walls_us: list[float] = field(default_factory=list)


class EPMonitor(abc.ABC):
    """Watches one session of one EP at one level.

    Args:
        folder: where files of the trace may be written; exists.
        level: ``basic`` or ``detail``.
        ep_name: canonical name of the EP.
        sources: names of the source graph, to map operators back; none if left out.
    """

    name: ClassVar[str]
    levels: ClassVar[tuple[str, ...]] = ("basic",)

    def __init__(self, folder: Path, level: str, ep_name: str, sources: SourceNames | None = None) -> None:
        self.folder = folder
        self.level = level
        self.ep_name = ep_name
        self.sources = sources or SourceNames([])

    def profile_prefix(self) -> str | None:
        """File name prefix for ONNX Runtime's own profile, or None if it is not wanted."""
        return None

    def provider_options(self) -> dict[str, str]:
        """Provider options it adds."""
        return {}

    def __enter__(self) -> Self:
        return self

    def __exit__(  # noqa: B027 - a monitor that sets nothing has nothing to restore
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore whatever was set."""

    def after_session(self, context: TraceContext) -> TraceFailure | None:
        """Look right after the session was made: a failure that can be told now need not wait for the runs."""
        return None

    @abc.abstractmethod
    def result(self, context: TraceContext) -> dict[str, Any] | TraceFailure:
        """What was found, after the runs and the end of profiling.

        Returns:
            ``ops``, ``types``, ``inferences``, ``notes``, ``partitions``, ``artefacts`` (plain data), or why there
            is nothing.
        """
