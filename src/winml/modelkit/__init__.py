"""winml.modelkit: take a model to the accelerator it ships on, and prove what it did there.

The public names load on first use (PEP 562), so that importing the package costs nothing.
"""

from __future__ import annotations

from winml.modelkit._version import __version__

# Not from typing, whose import costs more than the start of a worker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from winml.modelkit.errors import DeviceNotFound, WinMLError
    from winml.modelkit.models.auto import WinMLAutoModel
    from winml.modelkit.session.ep_device import EP_DEVICE_SPECS, VALID_EPS, EPDeviceTarget
    from winml.modelkit.session.ep_failure import WinMLEPRegistrationFailed
    from winml.modelkit.session.ep_registry import WinMLEP, WinMLEPRegistry
    from winml.modelkit.session.session import WinMLSession

_EXPORTS = {
    "DeviceNotFound": "winml.modelkit.errors",
    "EPDeviceTarget": "winml.modelkit.session.ep_device",
    "EP_DEVICE_SPECS": "winml.modelkit.session.ep_device",
    "VALID_EPS": "winml.modelkit.session.ep_device",
    "WinMLAutoModel": "winml.modelkit.models.auto",
    "WinMLEP": "winml.modelkit.session.ep_registry",
    "WinMLEPRegistrationFailed": "winml.modelkit.session.ep_failure",
    "WinMLEPRegistry": "winml.modelkit.session.ep_registry",
    "WinMLError": "winml.modelkit.errors",
    "WinMLSession": "winml.modelkit.session.session",
}

__all__ = [
    "EP_DEVICE_SPECS",
    "VALID_EPS",
    "DeviceNotFound",
    "EPDeviceTarget",
    "WinMLAutoModel",
    "WinMLEP",
    "WinMLEPRegistrationFailed",
    "WinMLEPRegistry",
    "WinMLError",
    "WinMLSession",
    "__version__",
]


def __getattr__(name: str) -> Any:
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
