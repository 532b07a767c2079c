"""EPs registered in this process: register, describe, unregister, and devices that know when they are gone.

This is the one place that calls ``onnxruntime.register_execution_provider_library``. Commands only reach it inside a
worker, with one library per process; Python programs that use ``WinMLSession`` reach it in their own.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from winml.modelkit.errors import TargetUnavailable, WinMLError
from winml.modelkit.session.ep_device import find_spec, known_spec
from winml.modelkit.session.ep_entry import EPEntry
from winml.modelkit.session.ep_failure import WinMLEPRegistrationFailed

__all__ = ["WinMLDevice", "WinMLEP", "WinMLEPRegistrationFailed", "WinMLEPRegistry"]

CPU_EP = "CPUExecutionProvider"


@dataclass(eq=False)
class WinMLDevice:
    """One (EP, device) pair that ONNX Runtime lists.

    Attributes:
        ep_name: name ONNX Runtime lists it under.
        device: ``cpu``, ``gpu`` or ``npu``, as ONNX Runtime says; never what was wished for.
        vendor: hardware vendor in words.
        vendor_id, device_id: PCI ids; 0 if not known.
        ep_metadata, hardware_metadata: what the EP and ONNX Runtime say about it, unchanged.
        virtual: the plugin made it up for compiling ahead of time; nothing can run on it.
    """

    ep_name: str
    device: str
    vendor: str
    vendor_id: int
    device_id: int
    ep_metadata: dict[str, str]
    hardware_metadata: dict[str, str]
    virtual: bool
    _ort_device: Any = field(default=None, repr=False)

    @property
    def ort_device(self) -> Any:
        """The ``onnxruntime.OrtEpDevice``.

        Raises:
            TargetUnavailable: its EP was unregistered; ONNX Runtime would read freed memory.
        """
        if self._ort_device is None:
            raise TargetUnavailable(
                f"the device {self.ep_name} on {self.device} is gone: its EP was unregistered",
                code="device_gone",
                hint="register the EP again and take its device from the new WinMLEP",
            )
        return self._ort_device

    @property
    def facts(self) -> dict[str, str | None]:
        """``Name``, ``Architecture`` and ``Driver`` as far as the EP or the system tells; None where neither does."""
        merged = {key.casefold(): value for key, value in {**self.hardware_metadata, **self.ep_metadata}.items()}
        architecture = _first(merged, "device_architecture", "architecture", "htp_arch")
        if architecture is None and self.device == "cpu":
            architecture = platform.machine() or None
        return {
            "Name": _first(merged, "full_device_name", "description", "name", "device_name"),
            "Architecture": architecture,
            "Driver": _first(merged, "npu_driver_version", "driver_version", "driver", "os_driver_version"),
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain data that can cross a process boundary."""
        return {
            "ep_name": self.ep_name,
            "device": self.device,
            "vendor": self.vendor,
            "vendor_id": self.vendor_id,
            "device_id": self.device_id,
            "virtual": self.virtual,
            "device_facts": self.facts,
            "ep_metadata": self.ep_metadata,
            "hardware_metadata": self.hardware_metadata,
        }


def _first(merged: dict[str, str], *keys: str) -> str | None:
    return next((merged[key] for key in keys if merged.get(key)), None)


@dataclass(eq=False)
class WinMLEP:
    """One registered EP.

    Attributes:
        arg0: the name it is registered under, first argument of ONNX Runtime's register call.
        entry: where its library came from.
        devices: the pairs it offers, its meta names (``X.AUTO``) left out.
    """

    arg0: str
    entry: EPEntry
    devices: list[WinMLDevice]

    @property
    def version(self) -> str | None:
        """The version the EP itself reports; may differ from the package's (``entry.package_version``)."""
        return next((d.ep_metadata["version"] for d in self.devices if "version" in d.ep_metadata), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: names, library, versions, and per device its class, vendor and ``device_facts``."""
        return {
            "arg0": self.arg0,
            "ep": self.entry.ep_name,
            "path": self.entry.path,
            "source": self.entry.source,
            "distribution": self.entry.distribution,
            "package_version": self.entry.package_version,
            "plugin_version": self.version,
            "devices": [device.to_dict() for device in self.devices],
        }


class WinMLEPRegistry:
    """The EPs of this process. ONNX Runtime keeps one global table, so there is one instance: ``get_instance()``."""

    _instance: ClassVar[WinMLEPRegistry | None] = None

    def __init__(self) -> None:
        self._eps: dict[str, WinMLEP] = {}
        self._left: list[str] = []

    @classmethod
    def get_instance(cls) -> WinMLEPRegistry:
        """The registry of this process."""
        if cls._instance is None:
            cls._instance = cls()
        return cls._instance

    @property
    def winml_available(self) -> bool:
        """Whether the Windows ML EP catalog can be asked here (the ``windowsml`` package, on Windows)."""
        if sys.platform != "win32":
            return False
        import importlib.util

        return importlib.util.find_spec("windowsml") is not None

    @property
    def eps(self) -> dict[str, WinMLEP]:
        """Registered EPs by canonical name."""
        return dict(self._eps)

    def snapshot(self) -> list[dict[str, Any]]:
        """Plain-data description of every registered EP; stays valid after they are unregistered."""
        return [ep.to_dict() for ep in self._eps.values()]

    def register_ep(self, entry: EPEntry) -> WinMLEP:
        """Register one library, or describe a bundled EP.

        The same library again gives the EP that is registered already.

        Raises:
            WinMLEPRegistrationFailed: it does not load, another library holds its name, or it would have to be
                registered again after another library came and went (ONNX Runtime crashes then).
        """
        known = self._eps.get(entry.ep_name)
        if known is not None:
            if _same_file(known.entry.path, entry.path):
                return known
            raise WinMLEPRegistrationFailed(
                f"{entry.ep_name} is registered already, from {known.entry.path}",
                dll_path=entry.path,
                ep=entry.ep_name,
                cause="already_registered",
            )
        ep = self._describe_bundled(entry) if entry.path is None else self._register_library(entry, entry.path)
        self._eps[entry.ep_name] = ep
        return ep

    def _register_library(self, entry: EPEntry, path: str) -> WinMLEP:
        import onnxruntime as ort

        if path in self._left and self._left[-1] != path:
            raise WinMLEPRegistrationFailed(
                f"{path} was unregistered and another library came and went since; "
                "ONNX Runtime cannot take it again in this process",
                dll_path=path,
                ep=entry.ep_name,
                cause="already_registered",
            )
        before = {(d.ep_name, d.device.type.name) for d in ort.get_ep_devices()}
        try:
            with _quiet_windows_dialogs():
                ort.register_execution_provider_library(entry.ep_name, path)
        except Exception as error:  # onnxruntime raises several unrelated types; each is parsed into one failure
            raise WinMLEPRegistrationFailed(error, dll_path=path, ep=entry.ep_name) from error
        spec = known_spec(entry.ep_name)
        meta = spec.meta_ep_names if spec else ()
        devices = [
            _describe(device)
            for device in ort.get_ep_devices()
            if device.ep_name not in meta and (device.ep_name, device.device.type.name) not in before
        ]
        return WinMLEP(entry.ep_name, entry, devices)

    @staticmethod
    def _describe_bundled(entry: EPEntry) -> WinMLEP:
        import onnxruntime as ort

        if entry.ep_name not in ort.get_available_providers():
            spec = known_spec(entry.ep_name)
            raise TargetUnavailable(
                f"{spec.alias if spec else entry.ep_name} is not installed here: this onnxruntime ({ort.__version__}) "
                "does not contain it",
                code="ep_not_installed",
                hint=f"to get it: {spec.install}" if spec else None,
                details={"ep": entry.ep_name, "source": "bundled"},
            )
        devices = [_describe(device) for device in ort.get_ep_devices() if device.ep_name == entry.ep_name]
        return WinMLEP(entry.ep_name, entry, devices)

    def unregister_ep(self, name: str) -> None:
        """Take an EP away; its devices raise from then on. Bundled EPs are only forgotten here.

        Raises:
            TargetUnavailable: no EP of that name is registered.
        """
        canonical = find_spec(name).name if name not in self._eps else name
        ep = self._eps.pop(canonical, None)
        if ep is None:
            raise TargetUnavailable(f"{canonical} is not registered in this process", code="not_registered")
        for device in ep.devices:
            device._ort_device = None
        if ep.entry.path is not None:
            import onnxruntime as ort

            ort.unregister_execution_provider_library(ep.arg0)
            self._left.append(ep.entry.path)

    def register_execution_providers(self, *, ort_genai: bool = False) -> list[WinMLEP]:
        """Register every library found on this machine that wins its name, into onnxruntime or onnxruntime-genai.

        Args:
            ort_genai: register into onnxruntime-genai, which carries an ONNX Runtime of its own.

        Raises:
            WinMLEPRegistrationFailed: the first library that does not register; nothing is skipped silently.
            WinMLError: ``ort_genai`` without onnxruntime-genai installed.
        """
        from winml.modelkit.session.ep_sources import find_entries

        entries = [e for e in find_entries().entries if e.path is not None and e.shadowed_by is None]
        if not ort_genai:
            return [self.register_ep(entry) for entry in entries]
        try:
            import onnxruntime_genai as og
        except ImportError as error:
            raise WinMLError(
                f"onnxruntime-genai does not import: {error}",
                code="genai_missing",
                hint='pip install "winml-cli[genai]"',
            ) from error
        registered = []
        for entry in entries:
            try:
                og.register_execution_provider_library(entry.ep_name, entry.path)
            except Exception as error:  # the native module raises several unrelated types
                raise WinMLEPRegistrationFailed(error, dll_path=entry.path, ep=entry.ep_name) from error
            registered.append(WinMLEP(entry.ep_name, entry, []))
        return registered


def _describe(device: Any) -> WinMLDevice:
    hardware = device.device
    metadata = dict(hardware.metadata)
    return WinMLDevice(
        ep_name=device.ep_name,
        device=hardware.type.name.casefold(),
        vendor=hardware.vendor,
        vendor_id=int(hardware.vendor_id),
        device_id=int(hardware.device_id),
        ep_metadata=dict(device.ep_metadata),
        hardware_metadata=metadata,
        virtual=metadata.get("is_virtual") == "1",
        _ort_device=device,
    )


def _same_file(left: str | None, right: str | None) -> bool:
    if left is None or right is None:
        return left == right
    return left == right or Path(left).resolve() == Path(right).resolve()


class _quiet_windows_dialogs:  # noqa: N801 - reads as the context manager it is
    """On Windows a failed load can open a system dialog; this keeps it shut for the calling thread."""

    _SEM_FAILCRITICALERRORS = 0x0001
    _SEM_NOOPENFILEERRORBOX = 0x8000

    def __enter__(self) -> None:
        if sys.platform == "win32":
            import ctypes

            self._old = ctypes.c_uint32()
            mode = self._SEM_FAILCRITICALERRORS | self._SEM_NOOPENFILEERRORBOX
            ctypes.windll.kernel32.SetThreadErrorMode(mode, ctypes.byref(self._old))

    def __exit__(self, *_: object) -> None:
        if sys.platform == "win32":
            import ctypes

            ctypes.windll.kernel32.SetThreadErrorMode(self._old.value, None)
