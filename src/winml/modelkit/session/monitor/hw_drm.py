"""What one process uses of a GPU or NPU on Linux: DRM fdinfo (Documentation/gpu/drm-usage-stats.rst of the kernel)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from winml.modelkit.session.monitor.hw_device import pci_address
from winml.modelkit.session.monitor.hw_source import MIN_WINDOW_S, Clock, Source, Unavailable

_UNITS = {"": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_DEVICES = ("/dev/dri/", "/dev/accel/")
_KFD = "/dev/kfd"


@dataclass(slots=True)
class Client:
    """One open DRM file, which several descriptors may stand for.

    Attributes:
        driver, pci_address, client_id: who it is.
        busy_ns: nanoseconds its work took, by engine.
        cycles, total_cycles: where the driver counts cycles: those of its work, and all there were, by engine.
        capacity: how many engines stand behind one name; 1 if not given.
        memory: bytes, by kind (``resident``, ``memory``, ``total``), regions added.
    """

    driver: str = ""
    pci_address: str | None = None
    client_id: str = ""
    busy_ns: dict[str, int] = field(default_factory=dict)
    cycles: dict[str, int] = field(default_factory=dict)
    total_cycles: dict[str, int] = field(default_factory=dict)
    capacity: dict[str, int] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)

    @property
    def bytes(self) -> int | None:
        """Memory it has on the device; None if the driver does not tell."""
        return next((self.memory[kind] for kind in ("resident", "memory", "total") if kind in self.memory), None)


def parse_fdinfo(text: str) -> Client | None:
    """One fdinfo file; None if it is not of a DRM device. Lines that are not understood are left out."""
    client = Client()
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if not colon or not key.startswith("drm-"):
            continue
        kind, _, name = key.removeprefix("drm-").partition("-")
        words = value.split()
        if kind == "driver" and words:
            client.driver = words[0]
        elif kind == "pdev" and words:
            client.pci_address = pci_address(words[0])
        elif (kind, name) == ("client", "id") and words:
            client.client_id = words[0]
        elif words and words[0].isascii() and words[0].isdecimal() and name:
            _count(client, kind, name, int(words[0]), words[1] if len(words) > 1 else "")
    return client if client.driver else None


def _count(client: Client, kind: str, name: str, number: int, unit: str) -> None:
    if kind == "engine" and name.startswith("capacity-"):
        client.capacity[name.removeprefix("capacity-")] = max(1, number)
    elif kind == "engine":
        client.busy_ns[name] = number
    elif kind == "cycles":
        client.cycles[name] = number
    elif kind == "total" and name.startswith("cycles-"):
        client.total_cycles[name.removeprefix("cycles-")] = number
    elif kind in ("resident", "memory", "total") and unit in _UNITS:
        client.memory[kind] = client.memory.get(kind, 0) + number * _UNITS[unit]


class DrmClientSource(Source):
    """Utilisation and memory of one process on one device.

    Args:
        pid: the process.
        address: PCI address of the device.
        proc_root: ``/proc``.
        clock: for rates.
    """

    counters: ClassVar[tuple[str, ...]] = ("process_device_utilisation", "process_device_memory")

    def __init__(self, pid: int, address: str | None, proc_root: Path, clock: Clock = time.monotonic) -> None:
        super().__init__()
        if address is None:
            raise Unavailable("the device has no PCI address to find it by in fdinfo")
        self._process = proc_root / str(pid)
        self._address = address
        self._clock = clock
        self._at: float | None = None
        self._before: dict[str, Client] = {}
        self.gives = dict.fromkeys(self.counters, f"{self._process / 'fdinfo'}: DRM clients on {address}")

    def read(self) -> dict[str, float]:
        targets = dict(self._open_files())
        clients: dict[str, Client] = {}
        for number in targets:
            try:
                text = (self._process / "fdinfo" / number).read_text(encoding="utf-8", errors="replace")
            except FileNotFoundError:
                continue  # closed in between
            client = parse_fdinfo(text)
            if client is not None and client.pci_address == self._address:
                clients[client.client_id or number] = client
        values: dict[str, float] = {}
        share = self._utilisation(clients)
        if not clients:
            self.absent = dict.fromkeys(self.counters, "the process has no DRM file of this device open")
            return values
        taken = [client.bytes for client in clients.values()]
        if all(count is None for count in taken):
            self.absent["process_device_memory"] = f"{_drivers(clients)} does not tell memory in fdinfo"
        else:
            values["process_device_memory"] = float(sum(count or 0 for count in taken))
        if _KFD in targets.values():
            # Computing through ROCm is not counted in drm-engine, and would look like none at all.
            self.absent["process_device_utilisation"] = f"the process computes through {_KFD}, which fdinfo leaves out"
        elif share is None and not any(client.busy_ns or client.cycles for client in clients.values()):
            self.absent["process_device_utilisation"] = f"{_drivers(clients)} does not tell engine time in fdinfo"
        elif share is not None:
            values["process_device_utilisation"] = share
        return values

    def _open_files(self) -> Iterator[tuple[str, str]]:
        for link in (self._process / "fd").iterdir():
            try:
                target = str(link.readlink())
            except OSError:
                continue  # closed in between
            if target.startswith(_DEVICES) or target == _KFD:
                yield link.name, target

    def _utilisation(self, clients: dict[str, Client]) -> float | None:
        """Percent of the busiest engine since the reading before, or None where there is nothing to compare."""
        now = self._clock()
        at = self._at
        if at is not None and now - at < MIN_WINDOW_S:
            return None
        before, self._before, self._at = self._before, clients, now
        if at is None:
            return None
        shares: dict[str, float] = {}
        for key, client in clients.items():
            old = before.get(key, Client())  # a new one counts from its beginning, which was within this time
            for engine, busy in client.busy_ns.items():
                part = (busy - old.busy_ns.get(engine, 0)) / 1e9 / (now - at)
                _add(shares, engine, part, client)
            for engine, cycles in client.cycles.items():
                every = client.total_cycles.get(engine, 0) - old.total_cycles.get(engine, 0)
                if key in before and every > 0:
                    _add(shares, engine, (cycles - old.cycles.get(engine, 0)) / every, client)
        return min(100.0, 100 * max(shares.values())) if shares else None


def _add(shares: dict[str, float], engine: str, part: float, client: Client) -> None:
    # Counts may lag behind what was read before (drm-usage-stats), so less than nothing is nothing yet.
    shares[engine] = shares.get(engine, 0.0) + max(0.0, part) / client.capacity.get(engine, 1)


def _drivers(clients: dict[str, Client]) -> str:
    return ", ".join(_unique(client.driver for client in clients.values()))


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
