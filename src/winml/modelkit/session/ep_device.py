"""Names of EPs and devices, and what a request for them means. One table, one resolver, for every command.

Nothing here loads a library: ``resolve_target`` says what was asked for and whether it can be meant at all; which
library and device answer it is decided against the inventory (``ep_inventory``) and proven in a worker.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from winml.modelkit.errors import DeviceNotFound, ImpossibleTarget, UnknownEP, UsageError
from winml.modelkit.session.ep_spec import DEVICES, EPDeviceSpec

__all__ = [
    "DEVICES",
    "EP_DEVICE_SPECS",
    "SOURCES",
    "VALID_EPS",
    "DeviceNotFound",
    "EPDeviceSpec",
    "EPDeviceTarget",
    "check_ep_options",
    "find_spec",
    "known_spec",
    "normalise_device",
    "preferred_eps",
    "resolve_target",
    "spec_problems",
]

ENTRY_POINT_GROUP = "winml.ep_specs"

SOURCES = ("directory", "pypi", "nuget", "winml-catalog", "msix", "bundled")
"""Where an EP library may come from, in order of precedence."""

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class EPDeviceTarget:
    """What a request for an EP and a device means, before any library was looked at.

    ``None`` stands for "left open" (omitted or ``auto``). ``source`` pins where the library comes from.
    """

    ep: str | None = None
    device: str | None = None
    source: str | None = None
    emulate: bool = False

    @property
    def is_open(self) -> bool:
        """Whether both EP and device were left open, so that falling back to CPU is allowed."""
        return self.ep is None and self.device is None

    @property
    def spec(self) -> EPDeviceSpec | None:
        """The table row of the EP named, or None where it was left open."""
        return None if self.ep is None else find_spec(self.ep)

    def describe(self) -> str:
        """``qnn on npu``, ``openvino@directory on any device``, ``any EP on gpu``."""
        spec = self.spec
        ep = spec.alias if spec else "any EP"
        if self.source:
            ep += f"@{self.source}"
        return f"{ep} on {self.device or 'any device'}"


@cache
def _load() -> tuple[dict[str, EPDeviceSpec], tuple[str, ...]]:
    """All rows by canonical name, and the problems met while loading third-party ones."""
    from importlib.metadata import entry_points

    from winml.modelkit.session import ep_builtin

    specs: dict[str, EPDeviceSpec] = {spec.name: spec for spec in ep_builtin.SPECS}
    problems: list[str] = []
    for point in entry_points(group=ENTRY_POINT_GROUP):
        origin = f"entry point {point.name!r} of {point.dist.name if point.dist else 'an unknown distribution'}"
        try:
            loaded = point.load()
        except Exception as error:  # noqa: BLE001 - a third party's module may fail in any way; it costs only its row
            problems.append(f"{origin} does not load: {type(error).__name__}: {error}")
            continue
        rows = (loaded,) if isinstance(loaded, EPDeviceSpec) else tuple(loaded)
        for row in rows:
            if not isinstance(row, EPDeviceSpec):
                problems.append(f"{origin} gives {type(row).__name__}, not EPDeviceSpec")
            elif (known := _clash(specs, row)) is None:
                specs[row.name] = row
            elif known != row:
                problems.append(f"{origin} redefines {row.name} ({row.alias}); the row of {known.name} is kept")
    return specs, tuple(problems)


def _clash(specs: Mapping[str, EPDeviceSpec], row: EPDeviceSpec) -> EPDeviceSpec | None:
    taken = {_key(name) for name in (row.name, row.alias)}
    return next((spec for spec in specs.values() if taken & {_key(spec.name), _key(spec.alias)}), None)


@cache
def known_spec(name: str) -> EPDeviceSpec | None:
    """The row of a canonical EP name, or None.

    Rows of this package are found without reading entry points, which costs a worker tens of milliseconds; a third
    party's row never replaces one of them.
    """
    from winml.modelkit.session import ep_builtin

    own = next((spec for spec in ep_builtin.SPECS if spec.name == name), None)
    return own if own is not None else _load()[0].get(name)


def spec_problems() -> tuple[str, ...]:
    """What went wrong while loading third-party rows; empty if nothing did."""
    return _load()[1]


def _valid_eps() -> frozenset[str]:
    specs = _load()[0].values()
    return frozenset({spec.alias for spec in specs} | {spec.name for spec in specs})


def __getattr__(name: str) -> Any:
    # Computed on first use: reading entry points costs tens of milliseconds that ``--help`` must not pay.
    if name == "EP_DEVICE_SPECS":
        return _load()[0]
    if name == "VALID_EPS":
        return _valid_eps()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


EP_DEVICE_SPECS: dict[str, EPDeviceSpec]
VALID_EPS: frozenset[str]


def _key(name: str) -> str:
    """``QNN``, ``qnn``, ``QNNExecutionProvider`` and ``qnn_execution_provider`` are one name."""
    key = re.sub(r"[\s_-]", "", name).casefold()
    return key.removesuffix("executionprovider") or key


# Names that users of other tools bring along.
_SYNONYMS = {
    "nvtensorrtrtx": "NvTensorRTRTXExecutionProvider",
    "tensorrtrtx": "NvTensorRTRTXExecutionProvider",
    "trtrtx": "NvTensorRTRTXExecutionProvider",
    "directml": "DmlExecutionProvider",
    "ov": "OpenVINOExecutionProvider",
}


def find_spec(name: str) -> EPDeviceSpec:
    """The table row for an EP name in any case, short or canonical.

    Raises:
        UnknownEP: no row bears that name; the message suggests the nearest and lists all.
    """
    specs = _load()[0]
    if name in specs:
        return specs[name]
    key = _key(name)
    by_key: dict[str, EPDeviceSpec] = {}
    for spec in specs.values():
        by_key[_key(spec.name)] = spec
        by_key[_key(spec.alias)] = spec
    for synonym, canonical in _SYNONYMS.items():
        by_key.setdefault(synonym, specs[canonical])
    if key in by_key:
        return by_key[key]
    # A slip in the long ending keeps it on the name.
    by_key |= {spec.name.casefold(): spec for spec in specs.values()}
    close = difflib.get_close_matches(key, list(by_key), n=1, cutoff=0.6)
    known = ", ".join(spec.alias for spec in specs.values())
    meant = f" Did you mean {by_key[close[0]].alias!r}?" if close else ""
    raise UnknownEP(f"unknown EP {name!r}.{meant}", hint=f"known EPs: {known}", details={"ep": name})


def normalise_device(device: str | None) -> str | None:
    """``npu``, ``gpu`` or ``cpu`` in lower case; None for ``auto`` and for None.

    Raises:
        UsageError: any other word.
    """
    if device is None or device.strip().casefold() == AUTO:
        return None
    word = device.strip().casefold()
    if word not in DEVICES:
        close = difflib.get_close_matches(word, DEVICES, n=1)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        raise UsageError(
            f"unknown device {device!r}.{meant}",
            code="unknown_device",
            hint="devices: auto, npu, gpu, cpu",
            details={"device": device},
        )
    return word


def resolve_target(ep: str | None = None, device: str | None = None, *, emulate: bool = False) -> EPDeviceTarget:
    """What a request for (EP, device) means: names normalised, the pair checked against the table.

    Args:
        ep: EP name in any form, ``name@source``, ``auto`` or None.
        device: ``npu``, ``gpu``, ``cpu``, ``auto`` or None.
        emulate: accept an emulator of the device (QNN on x86-64) in its place.

    Raises:
        UnknownEP: no EP of that name.
        ImpossibleTarget: the EP never serves that device.
        UsageError: unknown device or source, or ``emulate`` with an EP that has no emulator.
    """
    wanted_device = normalise_device(device)
    name, source = _split_source(ep)
    if name is None:
        if emulate:
            able = [spec.alias for spec in _load()[0].values() if spec.emulates]
            raise UsageError(
                "--emulate needs an EP to emulate",
                code="emulate_without_ep",
                hint=f"add --ep: EPs with an emulator are {', '.join(able)}",
            )
        return EPDeviceTarget(None, wanted_device)
    spec = find_spec(name)
    if wanted_device is not None and wanted_device not in spec.devices:
        serves = ", ".join(spec.devices)
        others = ", ".join(s.alias for s in preferred_eps(wanted_device))
        raise ImpossibleTarget(
            f"{spec.alias} does not serve the device {wanted_device!r}; it serves: {serves}",
            hint=f"EPs that serve {wanted_device}: {others}",
            details={"ep": spec.name, "device": wanted_device, "devices": list(spec.devices)},
        )
    if emulate and not (wanted_device in spec.emulates or (wanted_device is None and spec.emulates)):
        what = f"{spec.alias} on {wanted_device}" if wanted_device else spec.alias
        raise UsageError(f"{what} has no emulator", code="no_emulator", hint="leave --emulate out")
    if emulate and wanted_device is None:
        wanted_device = spec.emulates[0]
    return EPDeviceTarget(spec.name, wanted_device, source, emulate)


def _split_source(ep: str | None) -> tuple[str | None, str | None]:
    if ep is None:
        return None, None
    name, at, source = ep.strip().partition("@")
    if at and source.casefold() not in SOURCES:
        close = difflib.get_close_matches(source.casefold(), SOURCES, n=1)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        raise UsageError(
            f"unknown EP source {source!r} in {ep!r}.{meant}",
            code="unknown_source",
            hint=f"sources: {', '.join(SOURCES)}",
        )
    if name.casefold() == AUTO:
        if at:
            raise UsageError(f"{ep!r}: a source can be pinned only for a named EP", code="source_without_ep")
        return None, None
    if not name:
        raise UnknownEP("the EP name is empty", hint="winml sys --list-ep shows the EPs")
    return name, source.casefold() if at else None


def preferred_eps(device: str) -> list[EPDeviceSpec]:
    """The EPs that serve a device class, in the order automatic choice tries them."""
    serving = [spec for spec in _load()[0].values() if device in spec.devices]
    return sorted(serving, key=lambda spec: spec.preference.get(device, 1000))


def check_ep_options(spec: EPDeviceSpec, options: Mapping[str, str], device: str | None) -> list[str]:
    """Refuse provider options that the EP would silently ignore or that contradict the target.

    Returns:
        Warnings, for an EP whose option names are not known here.

    Raises:
        UsageError: unknown key, value outside a closed set, or an option that picks another device.
    """
    if not options:
        return []
    if not spec.options and spec.alias != "cpu":
        return [f"the options of {spec.alias} are not known here; they are passed on unchecked"]
    for key, value in options.items():
        if key not in spec.options:
            close = difflib.get_close_matches(key, list(spec.options), n=1)
            meant = f" Did you mean {close[0]!r}?" if close else ""
            known = ", ".join(sorted(spec.options)) or "none"
            raise UsageError(
                f"{spec.alias} has no option {key!r}.{meant}",
                code="unknown_ep_option",
                hint=f"options of {spec.alias}: {known}",
                details={"option": key},
            )
        allowed = spec.options[key]
        fits = allowed is None or (re.fullmatch(allowed, value) if isinstance(allowed, str) else value in allowed)
        if not fits:
            values = f"text like {allowed}" if isinstance(allowed, str) else ", ".join(allowed or ())
            raise UsageError(
                f"{spec.alias} option {key!r} does not take {value!r}",
                code="bad_ep_option",
                hint=f"values: {values}",
                details={"option": key, "value": value},
            )
    _refuse_other_device(spec, options, device)
    return []


def _refuse_other_device(spec: EPDeviceSpec, options: Mapping[str, str], device: str | None) -> None:
    """An option that picks a device by itself must agree with the target, or the report would name the wrong one."""
    defaults = spec.default_options.get(device or "", {})
    for key in spec.device_options:
        value = options.get(key)
        if value is None or value == defaults.get(key):
            continue
        if key == "device_type" and device is not None and value.casefold() == device:
            continue
        raise UsageError(
            f"the option {key}={value} chooses a device by itself and may contradict "
            f"{'--device ' + device if device else 'the device that is reported'}",
            code="device_option",
            hint=f"choose the device with --device ({', '.join(spec.devices)}) and leave {key} out",
            details={"option": key, "value": value},
        )


def with_device(target: EPDeviceTarget, device: str) -> EPDeviceTarget:
    """The same target with its device decided."""
    return replace(target, device=device)


def aliases(names: Iterable[str]) -> list[str]:
    """Short names of canonical EP names; names outside the table as they are."""
    specs = _load()[0]
    return [specs[name].alias if name in specs else name for name in names]
