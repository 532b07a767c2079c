"""What one row of the EP table says. A third party builds these too, so the type stands in a small file of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

DEVICES = ("npu", "gpu", "cpu")
"""Device classes, in the order automatic choice tries them."""


@dataclass(frozen=True, slots=True)
class EPDeviceSpec:
    """One execution provider: its names, where its library may be found, and what it can do.

    Attributes:
        name: canonical ONNX Runtime name, such as ``QNNExecutionProvider``.
        alias: short lower-case name for command lines.
        vendor: who makes the hardware or the API it serves.
        devices: device classes it serves, in order of preference.
        libraries: plugin library base names without prefix and suffix (``onnxruntime_providers_qnn``).
        distributions: PyPI distributions that carry the plugin.
        bundled_in: PyPI distributions of onnxruntime itself that contain it.
        nuget_ids: NuGet package ids (lower case) that carry the plugin.
        msix_names: parts of MSIX package names that carry the plugin.
        extra: the extra of this package that installs it, or None.
        install: what to install, in words, for ``sys`` and for errors.
        platforms: ``linux``, ``win32``: where any build of it exists.
        preference: rank among the EPs that serve one device class (lower is tried first), per device.
        options: known provider options and what they take: their allowed values where the set is closed, a regular
            expression that the whole value must match, or None for any value.
        default_options: provider options that are set where the user gave none, per device class asked for.
        device_options: options that choose a device by themselves; refused where they contradict the target.
        emulates: device classes this EP can emulate on the CPU device of an x86-64 machine.
        meta_ep_names: further names under which ONNX Runtime lists the same EP (``X.AUTO``); never EPs of their own.
        compiles: whether it can write EPContext models.
        trace_levels: operator trace levels it has.
        monitor: ``module:class`` of its ``EPMonitor``.
        trace_options: provider options that its monitor sets, so that nobody else may.
        kernel_records: whether its profiling events say in which precision kernels computed.
        translate: ``module:function`` that turns threads and precision into provider options (``ep_translate``).
        hardware: the hardware it needs, in words, for a row that registered without a device.
        hardware_vendor_ids: PCI vendor ids it serves, empty if any.
    """

    name: str
    alias: str
    vendor: str
    devices: tuple[str, ...]
    libraries: tuple[str, ...] = ()
    distributions: tuple[str, ...] = ()
    bundled_in: tuple[str, ...] = ()
    nuget_ids: tuple[str, ...] = ()
    msix_names: tuple[str, ...] = ()
    extra: str | None = None
    install: str = ""
    platforms: tuple[str, ...] = ("linux", "win32")
    preference: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, tuple[str, ...] | str | None] = field(default_factory=dict)
    default_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    device_options: tuple[str, ...] = ()
    emulates: tuple[str, ...] = ()
    meta_ep_names: tuple[str, ...] = ()
    compiles: bool = False
    trace_levels: tuple[str, ...] = ("basic",)
    monitor: str = "winml.modelkit.session.monitor.ort_profile_monitor:OrtProfileMonitor"
    trace_options: tuple[str, ...] = ()
    kernel_records: bool = False
    translate: str | None = None
    hardware: str = ""
    hardware_vendor_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        unknown = [device for device in self.devices if device not in DEVICES]
        if not self.name or not self.alias or not self.devices or unknown:
            raise ValueError(f"EP spec {self.name or '?'}: needs a name, an alias and devices out of {DEVICES}")

    def library_file_names(self, platform: str) -> tuple[str, ...]:
        """File names of the plugin library on ``platform`` (``sys.platform``)."""
        if platform == "win32":
            return tuple(f"{base}.dll" for base in self.libraries)
        return tuple(f"lib{base}.so" for base in self.libraries)
