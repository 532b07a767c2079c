"""GPUs and NPUs on Windows through its performance counters (PDH), if pywin32 is installed (not seen on hardware).

Windows counts NPUs as adapters of the same kind as GPUs. Instances are named ``pid_<n>_luid_0x<high>_0x<low>_phys_<k>
_eng_<m>_engtype_<type>``, without pid for adapters and without engine for memory; the LUID tells the adapter.
"""

from __future__ import annotations

import importlib
import re
import time
from typing import Any, ClassVar

from winml.modelkit.session.monitor.hw_device import WatchedDevice
from winml.modelkit.session.monitor.hw_source import (
    DEVICE_COUNTERS,
    MIN_WINDOW_S,
    Clock,
    Source,
    Unavailable,
)

_INSTANCE = re.compile(
    r"(?:pid_(?P<pid>\d+)_)?luid_0x(?P<high>[0-9a-f]+)_0x(?P<low>[0-9a-f]+)_phys_(?P<phys>\d+)(?:_eng_(?P<eng>\d+).*)?",
    re.IGNORECASE,
)
_ENGINES = r"\GPU Engine(*)\Utilization Percentage"
_ADAPTER_MEMORY = (r"\GPU Adapter Memory(*)\Dedicated Usage", r"\GPU Adapter Memory(*)\Shared Usage")
_PROCESS_MEMORY = (r"\GPU Process Memory(*)\Dedicated Usage", r"\GPU Process Memory(*)\Shared Usage")
_PATHS = {
    "device_utilisation": (_ENGINES,),
    "process_device_utilisation": (_ENGINES,),
    "device_memory": _ADAPTER_MEMORY,
    "process_device_memory": _PROCESS_MEMORY,
}


class PdhSource(Source):
    """Utilisation and memory of one adapter, in all and of one process.

    Args:
        pid: the process.
        device: the adapter; its LUID must be known.
        pdh: the module ``win32pdh``; imported if None.
        clock: for rates.
    """

    counters: ClassVar[tuple[str, ...]] = DEVICE_COUNTERS

    def __init__(self, pid: int, device: WatchedDevice, pdh: Any = None, clock: Clock = time.monotonic) -> None:
        super().__init__()
        if device.luid is None:
            raise Unavailable("the EP does not tell the adapter's LUID, which Windows' counters go by")
        if pdh is None:
            try:
                pdh = importlib.import_module("win32pdh")
            except ImportError as error:
                raise Unavailable("pywin32 is not installed (pip install pywin32)") from error
        self._pdh = pdh
        self._pid = pid
        self._luid = device.luid
        self._clock = clock
        self._query = pdh.OpenQuery()
        self._handles: dict[str, Any] = {}
        for name in self.counters:
            self._add(name)
        if not self._handles:
            self.close()
            raise Unavailable("; ".join(dict.fromkeys(self.absent.values())))
        # Rates are taken between two collections; this is the first.
        pdh.CollectQueryData(self._query)
        self._at = clock()

    def _add(self, name: str) -> None:
        if name not in _PATHS:
            self.absent[name] = "Windows has no such counter for GPUs and NPUs"
            return
        for path in _PATHS[name]:
            if path in self._handles:
                continue
            try:
                # By its English name: counters are translated on other Windows.
                self._handles[path] = self._pdh.AddEnglishCounter(self._query, path)
            except Exception as error:  # noqa: BLE001 - pywintypes.error, which cannot be imported elsewhere
                self.absent[name] = f"{path}: {error}"
                return
        self.gives[name] = "PDH: " + " + ".join(_PATHS[name])

    def read(self) -> dict[str, float]:
        now = self._clock()
        if now - self._at < MIN_WINDOW_S:
            return {}
        self._pdh.CollectQueryData(self._query)
        self._at = now
        values: dict[str, float] = {}
        engines: dict[str, dict[str, float]] = {"device": {}, "process": {}}
        if _ENGINES in self._handles:
            for instance, value in self._instances(_ENGINES, self._pdh.PDH_FMT_DOUBLE):
                engine = f"{instance['phys']}/{instance['eng']}"
                for whose in ("device", "process") if instance["pid"] == str(self._pid) else ("device",):
                    engines[whose][engine] = engines[whose].get(engine, 0.0) + value
        self._note(values, "device_utilisation", engines["device"])
        self._note(values, "process_device_utilisation", engines["process"])
        for name, own in (("device_memory", False), ("process_device_memory", True)):
            if name not in self.gives:
                continue
            taken = [
                value
                for path in _PATHS[name]
                for instance, value in self._instances(path, self._pdh.PDH_FMT_LARGE)
                if not own or instance["pid"] == str(self._pid)
            ]
            if taken:
                values[name] = sum(taken)
            else:
                self.absent[name] = self._nothing(own)
        return values

    def _note(self, values: dict[str, float], name: str, engines: dict[str, float]) -> None:
        if name not in self.gives:
            return
        if engines:
            values[name] = min(100.0, max(engines.values()))
        else:
            self.absent[name] = self._nothing(name.startswith("process_"))

    def _nothing(self, own: bool) -> str:
        luid = f"luid 0x{self._luid >> 32:08x} 0x{self._luid & 0xFFFFFFFF:08x}"
        return f"Windows has no counter of {'this process on ' if own else ''}the adapter {luid}"

    def _instances(self, path: str, form: int) -> list[tuple[dict[str, str | None], float]]:
        """Instances of this adapter, taken apart, with their values."""
        found = []
        for text, value in self._pdh.GetFormattedCounterArray(self._handles[path], form).items():
            match = _INSTANCE.fullmatch(text)
            if match and (int(match["high"], 16) << 32 | int(match["low"], 16)) == self._luid:
                found.append((match.groupdict(), float(value)))
        return found

    def close(self) -> None:
        self._pdh.CloseQuery(self._query)
