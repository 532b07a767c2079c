"""Read an ONNX Runtime profile: which operator ran when, in which inference, under which EP.

Format: a JSON list of Chrome trace events (``ts`` and ``dur`` in microseconds). ``Session`` events named
``model_run`` frame the inferences; ``Node`` events end in ``_kernel_time`` and name the EP in ``args.provider``;
``Kernel`` events are an EP's own records below a fused node, which ``args.parent_ort_event_name`` names. Kernel events
stand behind all node events in the file, so everything is placed by time.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_SUFFIX = "_kernel_time"


class ProfileError(ValueError):
    """The file is no profile; the message says where."""


@dataclass(slots=True)
class Event:
    """One node or kernel.

    Attributes:
        name: without the suffix that ONNX Runtime adds.
        start, end: microseconds on the profile's clock.
        children_us: time of events inside it.
        args: what the profile says beside.
        inference: index of the traced inference; below 0 for warm-up, -1 being the last of it.
    """

    name: str
    start: float
    end: float
    args: dict[str, Any]
    inference: int
    children_us: float = 0.0

    @property
    def self_us(self) -> float:
        """Its time without what ran inside it."""
        return max(0.0, self.end - self.start - self.children_us)


@dataclass(slots=True)
class Profile:
    """The events of the inferences after warm-up.

    Attributes:
        walls_us: duration of each inference, in order.
        nodes: ONNX Runtime's node events.
        kernels: records of EPs below their fused nodes.
        warm_kernels: the same of the warm-up inferences, which some EPs' records need to be read right.
        warmup: how many inferences were left out.
    """

    walls_us: list[float] = field(default_factory=list)
    nodes: list[Event] = field(default_factory=list)
    kernels: list[Event] = field(default_factory=list)
    warm_kernels: list[Event] = field(default_factory=list)
    warmup: int = 0


def read_profile(path: Path, warmup: int) -> Profile:
    """Read a profile and cut off the first ``warmup`` inferences.

    Raises:
        ProfileError: it is not JSON, or not a list of events.
    """
    try:
        events = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ProfileError(f"{path.name}: {error}") from error
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise ProfileError(f"{path.name}: not a list of events")
    runs = sorted((float(event["ts"]), float(event["dur"])) for event in events if event.get("name") == "model_run")
    warmup = min(warmup, len(runs))
    starts = [start for start, _ in runs]
    profile = Profile([duration for _, duration in runs[warmup:]], warmup=warmup)
    for event in events:
        if event.get("cat") not in ("Node", "Kernel"):
            continue
        start = float(event["ts"])
        index = bisect_right(starts, start) - 1
        if index < 0 or start > runs[index][0] + runs[index][1]:
            continue
        name = str(event.get("name", ""))
        end = start + float(event["dur"])
        made = Event(name.removesuffix(_SUFFIX), start, end, dict(event.get("args") or {}), index - warmup)
        if event["cat"] == "Kernel":
            (profile.kernels if index >= warmup else profile.warm_kernels).append(made)
        elif index >= warmup and name.endswith(_SUFFIX):
            profile.nodes.append(made)
    _nest(profile.nodes)
    return profile


def _nest(nodes: list[Event]) -> None:
    """Give every node the time of the nodes directly inside it (If, Loop and Scan run their graphs inside)."""
    open_events: list[Event] = []
    for event in sorted(nodes, key=lambda item: (item.start, -item.end)):
        while open_events and open_events[-1].end <= event.start:
            open_events.pop()
        if open_events and event.end <= open_events[-1].end:
            open_events[-1].children_us += event.end - event.start
        open_events.append(event)
