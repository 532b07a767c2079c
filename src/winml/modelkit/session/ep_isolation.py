"""Find out in a process of its own what one EP library does: register, list, make a session, describe, leave."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winml.modelkit.errors import Interrupted, WinMLError, WorkerDied, WorkerTimedOut
from winml.modelkit.session.ep_device import known_spec
from winml.modelkit.session.ep_entry import EPEntry
from winml.modelkit.session.ep_failure import WinMLEPRegistrationFailed, with_native_log
from winml.modelkit.session.ep_preflight import preflight
from winml.modelkit.session.one_node import ONE_NODE_MODEL
from winml.modelkit.session.placement import RECORD_ASSIGNMENT, read_assignment
from winml.modelkit.worker import spool
from winml.modelkit.worker.runner import Job, run_job

if TYPE_CHECKING:
    from winml.modelkit.worker.child import JobContext

DEFAULT_TIMEOUT_S = 15.0

USABLE = "usable"
EMULATOR = "emulator"
NO_DEVICE = "no_device"
NO_SESSION = "no_session"
FAILED = "failed"
CRASHED = "crashed"
TIMED_OUT = "timed_out"


@dataclass(frozen=True, slots=True)
class DeviceProbe:
    """What one device of an EP did.

    Attributes:
        device: device class ONNX Runtime gives.
        facts: plain data of ``WinMLDevice.to_dict``.
        usable: a one-node session was made, its node stood on this EP, and it computed the right numbers.
        emulates: device class that is emulated here, or None.
        reason: why it is not usable, or None.
    """

    device: str
    facts: dict[str, Any]
    usable: bool
    emulates: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class EPProbe:
    """The truth about one library.

    Attributes:
        entry: which library.
        status: ``usable``, ``emulator``, ``no_device``, ``no_session``, ``failed``, ``crashed`` or ``timed_out``.
        failure: the failure, where there is one.
        devices: what its devices did.
        plugin_version: version the EP reports.
        runtime: onnxruntime version it was tried with.
        seconds: how long the child took.
    """

    entry: EPEntry
    status: str
    failure: WinMLEPRegistrationFailed | None = None
    devices: tuple[DeviceProbe, ...] = ()
    plugin_version: str | None = None
    runtime: str | None = None
    seconds: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)


def isolated_ep_register(
    entry: EPEntry, *, timeout: float = DEFAULT_TIMEOUT_S, stop: threading.Event | None = None
) -> EPProbe:
    """Register one library in a fresh process and say what came of it; never raises for what the library does.

    Args:
        entry: the library, or a bundled EP (``path`` None).
        timeout: limit in seconds for the whole child.
        stop: ends the child when another thread sets it.

    Raises:
        Interrupted: ``stop`` was set.
    """
    started = time.monotonic()
    if entry.path is not None and (finding := preflight(entry.path, ep=entry.ep_name)) is not None:
        return EPProbe(entry, FAILED, finding, seconds=time.monotonic() - started)
    try:
        job = Job("winml.modelkit.session.ep_isolation:probe", {"entry": asdict(entry)})
        result = run_job(job, timeout=timeout, stop=stop, name=f"probe-{entry.ep_name}")
    except Interrupted:
        raise
    except WorkerTimedOut as error:
        return EPProbe(entry, TIMED_OUT, _died(entry, error, "timed_out"), seconds=time.monotonic() - started)
    except WorkerDied as error:
        failure = _died(entry, error, "crashed" if error.details.get("signal") else "ended_early")
        return EPProbe(entry, CRASHED, failure, seconds=time.monotonic() - started)
    except WinMLEPRegistrationFailed as error:
        return EPProbe(entry, FAILED, with_native_log(error), seconds=time.monotonic() - started)
    except WinMLError as error:
        failure = WinMLEPRegistrationFailed(error.reason, dll_path=entry.path, ep=entry.ep_name, cause="unknown")
        return EPProbe(entry, FAILED, failure, seconds=time.monotonic() - started)
    return _judge(entry, result.value, str(result.log), time.monotonic() - started)


def _died(entry: EPEntry, error: WorkerDied, cause: str) -> WinMLEPRegistrationFailed:
    failure = WinMLEPRegistrationFailed(error.reason, dll_path=entry.path, ep=entry.ep_name, cause=cause)
    failure.details.update(error.details)
    return failure


def _judge(entry: EPEntry, answer: dict[str, Any], log: str, seconds: float) -> EPProbe:
    devices = tuple(DeviceProbe(**device) for device in answer["devices"])
    failure: WinMLEPRegistrationFailed | None = None
    if any(device.usable and device.emulates is None for device in devices):
        status = USABLE
    elif any(device.usable for device in devices):
        status = EMULATOR
    elif not devices:
        status = NO_DEVICE
        reason = _why(entry, answer["incompatibility"], answer["hardware"])
        failure = WinMLEPRegistrationFailed(reason, dll_path=entry.path, ep=entry.ep_name, cause="no_device")
    else:
        status = NO_SESSION
        reason = "; ".join(f"{d.device}: {d.reason}" for d in devices if d.reason)
        if said := _native_error(Path(log)):
            reason += f"; the plugin said: {said}"
        failure = WinMLEPRegistrationFailed(reason, dll_path=entry.path, ep=entry.ep_name, cause="no_session")
    if failure is not None:
        failure.details["log"] = log
    return EPProbe(
        entry,
        status,
        failure,
        devices,
        answer["plugin_version"],
        answer["runtime"],
        seconds,
        {"log": log, **{key: answer[key] for key in ("incompatibility", "hardware", "available_providers")}},
    )


def _why(entry: EPEntry, incompatibility: list[dict[str, Any]], seen: list[dict[str, Any]]) -> str:
    """The EP's own word where it has one, else what hardware it serves against what is here."""
    words = [item["notes"] for item in incompatibility if item.get("notes")]
    spec = known_spec(entry.ep_name)
    reason = "registered, no device"
    if words:
        return f"{reason}: {'; '.join(dict.fromkeys(words))}"
    if spec is None or not spec.hardware:
        return f"{reason}: the plugin offers none for the hardware of this machine"
    here = "; ".join(f"{item['device'].upper()} by {item['vendor'] or 'an unknown vendor'}" for item in seen)
    ids = {item["vendor_id"] for item in seen}
    if spec.hardware_vendor_ids and not ids & set(spec.hardware_vendor_ids):
        return f"{reason}: the plugin serves {spec.hardware}; this machine has {here}"
    return f"{reason}: the plugin needs {spec.hardware} and offers none here; this machine has {here}"


def _native_error(log: Path) -> str | None:
    """The first error that ONNX Runtime's logger wrote, in the form ``<time> [E:onnxruntime:, <place>] <text>``."""
    for line in spool.tail(log, 200, limit=65536):
        mark = line.find("[E:onnxruntime")
        if mark >= 0:
            return line[mark:].partition("] ")[2].strip() or None
    return None


# --- below here: the child's side ------------------------------------------------------------------------------------


def probe(args: dict[str, Any], context: JobContext) -> dict[str, Any]:
    """Worker job: register, list, one-node session per device, the EP's word on hardware it does not take."""
    import onnxruntime as ort

    from winml.modelkit.session.ep_registry import WinMLEPRegistry

    entry = EPEntry(**args["entry"])
    context.phase("register")
    ep = WinMLEPRegistry.get_instance().register_ep(entry)
    devices = []
    for device in ep.devices:
        if device.virtual:
            continue
        context.phase(f"one-node session on {device.device}")
        devices.append(_try_device(entry, device))
    incompatibility = [] if devices else _incompatibility(entry)
    return {
        "devices": [asdict(device) for device in devices],
        "plugin_version": ep.version,
        "runtime": ort.__version__,
        "available_providers": list(ort.get_available_providers()),
        "incompatibility": incompatibility,
        "hardware": hardware(),
    }


def why_no_device(entry: EPEntry) -> str:
    """Why a registered EP offers no device here, in the words ``sys`` uses too. Runs where it is registered."""
    return _why(entry, _incompatibility(entry), hardware())


def _try_device(entry: EPEntry, device: Any) -> DeviceProbe:
    import numpy as np
    import onnxruntime as ort

    spec = known_spec(entry.ep_name)
    # A device class that the EP does not serve is an emulator of one that it does, or nothing to run on.
    emulates = None
    if spec is not None and device.device not in spec.devices:
        emulates = spec.emulates[0] if spec.emulates else None
    options = dict(spec.default_options.get(emulates or device.device, {})) if spec else {}
    session_options = ort.SessionOptions()
    session_options.add_session_config_entry(*RECORD_ASSIGNMENT)
    x = np.array([[-2.0, -0.5, 0.5, 2.0]], dtype=np.float32)
    reason = None
    try:
        session_options.add_provider_for_devices([device.ort_device], options)
        session = ort.InferenceSession(ONE_NODE_MODEL, session_options)
        session.disable_fallback()
        placed = [group["ep"] for group in read_assignment(session)]
        (y,) = session.run(None, {"x": x})
        if not placed or any(ep != device.ep_name for ep in placed):
            reason = f"a session was made, but its node was placed on {', '.join(placed) or 'no EP'}"
        elif not np.allclose(y, np.maximum(x, 0), atol=0.02):
            reason = f"a session ran and computed Relu wrong: {y.tolist()} from {x.tolist()}"
    except Exception as error:  # noqa: BLE001 - whatever onnxruntime raises here is the finding
        reason = f"no session: {_first_line(error)}"
    return DeviceProbe(device.device, device.to_dict(), reason is None, emulates, reason)


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def hardware() -> list[dict[str, Any]]:
    """What ONNX Runtime itself sees, EP or no EP; empty where this version cannot tell."""
    from onnxruntime.capi import _pybind_state

    if not hasattr(_pybind_state, "get_hardware_devices"):
        return []
    return [
        {
            "device": item.type.name.rpartition(".")[2].casefold(),
            "vendor": item.vendor,
            "vendor_id": int(item.vendor_id),
            "device_id": int(item.device_id),
            "metadata": dict(item.metadata),
        }
        for item in _pybind_state.get_hardware_devices()
    ]


def _incompatibility(entry: EPEntry) -> list[dict[str, Any]]:
    """The EP's own reasons for not taking the hardware that is here."""
    from onnxruntime.capi import _pybind_state

    ask = getattr(_pybind_state, "get_hardware_device_ep_incompatibility_details", None)
    if ask is None:
        return []
    found = []
    for item in _pybind_state.get_hardware_devices():
        try:
            said = ask(entry.ep_name, item)
        except Exception as error:  # noqa: BLE001 - an EP that cannot answer has simply no word of its own
            found.append(
                {"device": item.type.name, "reasons_bitmask": None, "notes": None, "error": _first_line(error)}
            )
            continue
        get = said.get if isinstance(said, dict) else lambda key, said=said: getattr(said, key, None)
        found.append(
            {
                "device": item.type.name,
                "reasons_bitmask": int(get("reasons_bitmask") or 0),
                "notes": get("notes"),
                "error_code": get("error_code"),
            }
        )
    return found


def catalog(args: dict[str, Any], context: JobContext) -> dict[str, Any]:
    """Worker job: the rows of the Windows ML EP catalog, whose bindings are native code."""
    from winml.modelkit.session.ep_sources import query_winml_catalog

    context.phase("ask the Windows ML EP catalog")
    return {"rows": query_winml_catalog(), "asked": args}
