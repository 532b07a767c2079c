"""Which monitor watches which EP. The table is the EP table: a new EP is one row and one class."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from winml.modelkit.errors import UsageError
from winml.modelkit.session.ep_device import EP_DEVICE_SPECS, find_spec, normalise_device, preferred_eps
from winml.modelkit.session.ep_spec import EPDeviceSpec

if TYPE_CHECKING:
    from winml.modelkit.session.monitor.ep_monitor import EPMonitor

LEVELS = ("basic", "detail")
GENERIC = "winml.modelkit.session.monitor.ort_profile_monitor:OrtProfileMonitor"


def resolve_monitor(ep: str | None, device: str | None, level: str) -> EPDeviceSpec:
    """The row of the EP whose monitor would watch a run on this target.

    A named EP is honoured. Where it is left open, EPs are tried in the order of automatic choice, for an accelerator
    (or no device named) those with a monitor of their own first; which EP really runs decides in the end, and is asked
    again then.

    Args:
        ep: EP name in any form, ``name@source``, ``auto`` or None.
        device: device class, ``auto`` or None.
        level: ``basic`` or ``detail``.

    Raises:
        UsageError: the EP named, or every EP that could serve the device, lacks that level.
        UnknownEP: no EP of that name.
    """
    if level not in LEVELS:
        raise UsageError(
            f"unknown trace level {level!r}", code="unknown_trace_level", hint=f"levels: {', '.join(LEVELS)}"
        )
    name = (ep or "auto").partition("@")[0]
    if name.casefold() != "auto":
        spec = find_spec(name)
        if level not in spec.trace_levels:
            raise _no_level(spec.alias, level, spec.trace_levels)
        return spec
    wanted = normalise_device(device)
    order = preferred_eps(wanted or "npu") + ([] if wanted else preferred_eps("cpu"))
    if wanted != "cpu":
        # An accelerator is seen best by a monitor that knows its EP; the sort keeps the order otherwise.
        order.sort(key=lambda spec: spec.monitor == GENERIC)
    for spec in order:
        if level in spec.trace_levels:
            return spec
    levels = tuple(dict.fromkeys(found for spec in order for found in spec.trace_levels))
    raise _no_level(f"no EP for {wanted or 'this machine'}", level, levels)


def _no_level(who: str, level: str, levels: tuple[str, ...]) -> UsageError:
    able = [spec.alias for spec in EP_DEVICE_SPECS.values() if level in spec.trace_levels]
    has = f"it has: {', '.join(levels)}" if levels else "it has no operator tracing"
    verb = "has" if who.startswith("no EP") else "has no"
    return UsageError(
        f"{who} {verb} operator tracing at level {level!r}; {has}",
        code="trace_level_refused",
        hint=f"EPs with {level}: {', '.join(able) or 'none'}",
        details={"level": level, "levels": list(levels)},
    )


def load_monitor(spec: EPDeviceSpec | None) -> type[EPMonitor]:
    """The monitor class of a row; the generic one for an EP without a row."""
    module, _, name = (spec.monitor if spec is not None else GENERIC).partition(":")
    found: type[EPMonitor] = getattr(importlib.import_module(module), name)
    return found
