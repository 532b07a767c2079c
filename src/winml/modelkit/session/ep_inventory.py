"""The EPs of this machine, each tried in a process of its own, and the choice among them.

``take_inventory`` is what ``winml sys`` shows. ``choose`` answers a target; it asks the inventory only where the EP
was left open, and then accepts what an earlier look found as long as nothing it depended on has changed.
"""

from __future__ import annotations

import concurrent.futures
import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from winml.modelkit.errors import DeviceNotFound, Interrupted, TargetUnavailable, UsageError, WinMLError
from winml.modelkit.session import ep_isolation
from winml.modelkit.session.ep_device import (
    DEVICES,
    EP_DEVICE_SPECS,
    EPDeviceSpec,
    EPDeviceTarget,
    find_spec,
    preferred_eps,
)
from winml.modelkit.session.ep_entry import EPEntry
from winml.modelkit.session.ep_failure import WinMLEPRegistrationFailed
from winml.modelkit.session.ep_folder import displayable
from winml.modelkit.session.ep_isolation import EPProbe, isolated_ep_register
from winml.modelkit.session.ep_preflight import preflight
from winml.modelkit.session.ep_sources import EntryList, SourceProblem, find_entries, select_entries
from winml.modelkit.worker.runner import Job, run_job

AT_ONCE = 4
"""How many libraries are tried at the same time."""

CPU_EP = "CPUExecutionProvider"

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Inventory:
    """Every EP library found and what it did.

    Attributes:
        probes: one per library that was tried, and one per bundled EP, in order of precedence.
        shadowed: libraries that were not tried, since an earlier one of the same EP wins.
        sources: what the search for libraries found, with its problems.
        hardware: devices ONNX Runtime itself sees.
        runtime: onnxruntime version, or None if it does not import.
        other_providers: bundled providers that are not in the EP table.
    """

    probes: tuple[EPProbe, ...]
    shadowed: tuple[EPEntry, ...]
    sources: EntryList
    hardware: tuple[dict[str, Any], ...]
    runtime: str | None
    other_providers: tuple[str, ...]

    def usable(self) -> list[tuple[str, str]]:
        """(EP, device) pairs that work here, emulators left out."""
        return [
            (probe.entry.ep_name, device.device)
            for probe in self.probes
            for device in probe.devices
            if device.usable and device.emulates is None
        ]


def catalog_rows() -> list[dict[str, Any]]:
    """What the Windows ML EP catalog lists, asked in a worker; empty where there is none to ask.

    Raises:
        WinMLError: the catalog failed or gave no answer in time.
    """
    if sys.platform != "win32" or importlib.util.find_spec("windowsml") is None:
        return []
    job = Job("winml.modelkit.session.ep_isolation:catalog", {})
    return list(run_job(job, timeout=ep_isolation.DEFAULT_TIMEOUT_S, preload=(), name="catalog").value["rows"])


def _look(ep_paths: Sequence[str], *, with_catalog: bool) -> EntryList:
    """Every library, the catalog's included where that is wanted; a catalog that fails is a problem of its own."""
    if not with_catalog:
        return find_entries(ep_paths)
    try:
        rows = catalog_rows()
    except Interrupted:
        raise
    except WinMLError as error:
        found = find_entries(ep_paths)
        problem = SourceProblem("the Windows ML EP catalog", "", "catalog", error.reason)
        return replace(found, problems=(*found.problems, problem))
    return find_entries(ep_paths, catalog=rows)


def take_inventory(
    ep_paths: Sequence[str] = (),
    *,
    timeout: float = ep_isolation.DEFAULT_TIMEOUT_S,
    progress: Progress | None = None,
) -> Inventory:
    """Look for libraries and try each one, at most four at once.

    Args:
        ep_paths: folders and libraries of ``--ep-path``.
        timeout: limit in seconds for each library.
        progress: told the name of each library when it is done.
    """
    sources = _look(ep_paths, with_catalog=True)
    tried = [entry for entry in sources.entries if entry.shadowed_by is None]
    shadowed = tuple(entry for entry in sources.entries if entry.shadowed_by is not None)
    probes = _probe_all(tried, timeout, progress)
    cpu = next((probe for probe in probes if probe.entry.ep_name == CPU_EP), None)
    bundled = list(cpu.details.get("available_providers", ())) if cpu else []
    further = [EPEntry(n, None, "bundled") for n in bundled if n in EP_DEVICE_SPECS and n not in _names(probes)]
    probes += _probe_all(further, timeout, progress)
    return Inventory(
        tuple(probes),
        shadowed,
        sources,
        tuple(cpu.details.get("hardware", ())) if cpu else (),
        cpu.runtime if cpu else None,
        tuple(name for name in bundled if name not in EP_DEVICE_SPECS),
    )


def _names(probes: Sequence[EPProbe]) -> set[str]:
    return {probe.entry.ep_name for probe in probes}


def _probe_all(entries: Sequence[EPEntry], timeout: float, progress: Progress | None) -> list[EPProbe]:
    if not entries:
        return []

    stop = threading.Event()

    def one(entry: EPEntry) -> EPProbe:
        probe = isolated_ep_register(entry, timeout=timeout, stop=stop)
        if progress is not None:
            progress(entry.path or entry.ep_name)
        return probe

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE, thread_name_prefix="probe") as pool:
        futures = [pool.submit(one, entry) for entry in entries]
        try:
            # In slices: Windows delivers Ctrl-C only between waits.
            while concurrent.futures.wait(futures, timeout=0.5).not_done:
                continue
        except BaseException:
            # Ctrl-C: leaving the block waits for the threads, and they for their children.
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [future.result() for future in futures]


@dataclass(frozen=True, slots=True)
class Choice:
    """The library and device that will answer a target.

    Attributes:
        entry: the library, or a bundled EP.
        device: device class, or None where the EP's own order decides among what it lists.
        rule: why this one, in words.
        passed_over: EPs that come earlier in the order, each with the reason it was not taken.
        cached: the inventory behind an automatic choice is an earlier one.
        problems: places that were to be searched and could not be.
    """

    entry: EPEntry
    device: str | None
    rule: str
    passed_over: tuple[dict[str, str], ...] = ()
    cached: bool = False
    problems: tuple[SourceProblem, ...] = ()


def choose(
    target: EPDeviceTarget,
    ep_paths: Sequence[str] = (),
    *,
    fresh: bool = False,
    progress: Progress | None = None,
    limit: float | None = None,
) -> Choice:
    """Which library answers this target.

    Args:
        target: what was asked for.
        ep_paths: folders and libraries of ``--ep-path``.
        fresh: do not accept what an earlier look found.
        progress: told about slow steps.
        limit: seconds for a look at the libraries, where the user set one below the usual limit.

    Raises:
        TargetUnavailable: the EP named is not installed.
        WinMLEPRegistrationFailed: its library cannot be loaded, as can be told without loading it.
        DeviceNotFound: the EP was left open and nothing usable here serves the device named.
        UsageError: a place in ``ep_paths`` does not exist.
    """
    _refuse_missing(ep_paths)
    if target.ep is None:
        sources = _look(ep_paths, with_catalog=True)
        choice = _choose_open(target, sources, fresh=fresh, progress=progress, limit=limit)
    else:
        spec = find_spec(target.ep)
        sources = find_entries(ep_paths)
        if not select_entries(sources.entries, spec.name, target.source):
            # Every source before it has none: ask the catalog, which takes a process of its own.
            sources = _look(ep_paths, with_catalog=True)
        choice = _choose_named(target, spec, sources)
    return replace(choice, problems=sources.problems)


def _refuse_missing(ep_paths: Sequence[str]) -> None:
    """A place that was named on the command line and is not there is a mistake, not a place without EPs."""
    for path in ep_paths:
        try:
            there = Path(path).exists()
        except (OSError, ValueError):
            there = False
        if not there:
            raise UsageError(
                f"--ep-path {displayable(path)}: no such file or folder",
                code="ep_path_missing",
                hint="give the folder that holds the EP's library, or the library itself",
            )


def _choose_named(target: EPDeviceTarget, spec: EPDeviceSpec, sources: EntryList) -> Choice:
    entries = select_entries(sources.entries, spec.name, target.source)
    if not entries and not spec.libraries and target.source in (None, "bundled"):
        # Only onnxruntime itself can bring this EP; the worker sees whether this build does.
        entries = [EPEntry(spec.name, None, "bundled")]
    if not entries:
        where = f" from the source {target.source!r}" if target.source else ""
        others = select_entries(sources.entries, spec.name)
        also = f"; found elsewhere: {', '.join(sorted({e.source for e in others}))}" if others else ""
        raise TargetUnavailable(
            f"{spec.alias} is not installed here{where}{also}",
            code="ep_not_installed",
            hint=f"to get it: {spec.install}; or point --ep-path at its library",
            details={"ep": spec.name, "source": target.source},
        )
    entry = entries[0]
    if entry.path is not None and (finding := preflight(entry.path, ep=entry.ep_name)) is not None:
        raise finding
    rule = f"{spec.alias} was named" + (f", from {target.source}" if target.source else "")
    return Choice(entry, target.device, rule)


def _choose_open(
    target: EPDeviceTarget, sources: EntryList, *, fresh: bool, progress: Progress | None, limit: float | None
) -> Choice:
    devices = [target.device] if target.device else list(DEVICES)
    rule = f"first usable EP for {devices[0]}" if target.device else "first usable of npu, gpu, cpu"
    candidates = [
        (device, spec, entries[0])
        for device in devices
        for spec in preferred_eps(device)
        if (entries := select_entries(sources.entries, spec.name))
    ]
    passed_over: list[dict[str, str]] = []
    needed: list[EPEntry] = []
    for _, _, entry in candidates:
        if entry.ep_name == CPU_EP:
            break
        if entry not in needed:
            needed.append(entry)
    found, cached = _statuses(needed, fresh=fresh, progress=progress, limit=limit)
    for device, spec, entry in candidates:
        if entry.ep_name == CPU_EP:
            return Choice(entry, device, rule, tuple(passed_over), cached and bool(needed))
        seen = found[entry.path or entry.ep_name]
        if device in seen["devices"]:
            return Choice(entry, device, rule, tuple(passed_over), cached)
        passed_over.append({"ep": spec.name, "device": device, "reason": seen["reason"] or f"offers no {device} here"})
    missing = [spec.alias for spec in preferred_eps(devices[0]) if not select_entries(sources.entries, spec.name)]
    tried = "".join(f"; {find_spec(item['ep']).alias}: {item['reason']}" for item in passed_over)
    raise DeviceNotFound(
        f"no usable {devices[0]} on this machine{tried}",
        hint=f"not installed here: {', '.join(missing)}; winml sys shows every EP and what it needs",
        details={"device": devices[0], "passed_over": passed_over},
    )


def _statuses(
    entries: Sequence[EPEntry], *, fresh: bool, progress: Progress | None, limit: float | None
) -> tuple[dict[str, dict[str, Any]], bool]:
    """Per library the device classes it really serves here, and why not; and whether all came from the cache."""
    from winml.modelkit.session import ep_cache

    found: dict[str, dict[str, Any]] = {} if fresh else ep_cache.load(entries)
    missing = [entry for entry in entries if (entry.path or entry.ep_name) not in found]
    if missing:
        if progress is not None:
            progress(f"looking at {len(missing)} EP librar{'y' if len(missing) == 1 else 'ies'}")
        usual = ep_isolation.DEFAULT_TIMEOUT_S
        seconds = usual if limit is None else min(usual, limit)
        probes = _probe_all(missing, seconds, None)
        # A look that was cut short says nothing about the library.
        ep_cache.store([probe for probe in probes if seconds == usual or probe.status != ep_isolation.TIMED_OUT])
        found.update({probe.entry.path or probe.entry.ep_name: ep_cache.condense(probe) for probe in probes})
    return found, not missing


def name_what_is_there(
    error: TargetUnavailable,
    ep_paths: Sequence[str],
    progress: Progress | None = None,
    limit: float | None = None,
) -> None:
    """Add the usable (EP, device) pairs of this machine to a failure about a target; ``limit`` as in ``choose``."""
    if isinstance(error, WinMLEPRegistrationFailed) and error.details.get("ep") is None:
        return
    entries = [entry for entry in find_entries(ep_paths).entries if entry.shadowed_by is None]
    found, _ = _statuses(entries, fresh=False, progress=progress, limit=limit)
    pairs = [
        f"{find_spec(entry.ep_name).alias if entry.ep_name in EP_DEVICE_SPECS else entry.ep_name} on {device}"
        for entry in entries
        for device in found[entry.path or entry.ep_name]["devices"]
    ]
    error.details["usable_here"] = pairs
    there = f"usable here: {', '.join(pairs) or 'nothing'}"
    error.hint = f"{error.hint}; {there}" if error.hint else there
